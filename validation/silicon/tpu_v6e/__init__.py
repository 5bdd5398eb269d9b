"""A TPU v6e chip."""
