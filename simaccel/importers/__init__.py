"""Workloads and accelerators from files of any kind: simaccel's own, and those of other tools."""
