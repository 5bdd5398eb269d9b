"""Mapspaces: factors with remainders, constraints, search."""
