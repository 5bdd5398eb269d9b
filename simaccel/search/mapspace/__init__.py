"""Mapspaces: factorisations with remainders, constraints, and their search."""
