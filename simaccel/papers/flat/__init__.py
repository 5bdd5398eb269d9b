"""FLAT (Kao et al., ASPLOS 2023): exhibits of its evaluation, for any model and accelerator."""
