"""One core of a TPU v3 chip."""
