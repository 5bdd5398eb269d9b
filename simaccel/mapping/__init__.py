"""Mappings: trees of loops and tiles, with their files and checks."""
