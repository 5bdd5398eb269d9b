"""Validation against the world: one folder per external truth."""
