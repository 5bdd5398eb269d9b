"""Exported traces against the programs that open them."""
