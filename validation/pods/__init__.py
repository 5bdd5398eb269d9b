"""Scaling of a layer over chips, beside what links take by formulas of others."""
