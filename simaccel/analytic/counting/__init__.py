"""Exact bytes and work of a family, and the space that its tiles take (``counts``)."""
