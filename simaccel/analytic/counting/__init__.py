"""Exact bytes and work of a family, and the memory that its tiles take."""
