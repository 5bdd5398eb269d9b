"""Predictions from the mapping tree alone: counts, work of each resource, and a lower bound."""
