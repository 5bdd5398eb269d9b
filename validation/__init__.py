"""Validation against the world: one folder per external truth."""

PLAIN = ("groups.resident=false", "groups.epilogues=false")
"""Operators go through DRAM, as papers compare with that fuse some of them."""
