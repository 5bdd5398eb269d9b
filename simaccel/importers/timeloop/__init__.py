"""Timeloop's problems as workloads, its architectures as accelerators."""
