"""A TPU v5e chip."""
