"""Chips and RTL that were measured, and what simaccel says of the same work."""
