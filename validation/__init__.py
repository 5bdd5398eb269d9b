"""Validation against the world: one folder per external truth."""

PLAIN = (
    "compiler.resident=false",
    "compiler.epilogues=false",
    "dram.capacity_bytes=unlimited",
)
"""Operators go through DRAM, as papers compare with that fuse some of them; all fits there."""
