"""A TPU v4 chip."""
