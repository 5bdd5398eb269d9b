"""A TPU v6e chip and a chiplet of a TPU v7."""
