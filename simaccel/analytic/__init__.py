"""Counts, work and the lower bound of a mapping, from its tree alone."""
