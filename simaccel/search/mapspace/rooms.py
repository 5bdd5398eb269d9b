"""Memories of which mappings use half, so that all tiles have room for two slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from simaccel.hardware.levels import Hierarchy, Level, TemporalLevel


def rooms_of(hierarchy: Hierarchy) -> list[Hierarchy]:
    """Return the hierarchies to search: the given one, and those with room for two slots."""
    rooms = [hierarchy]
    halved: set[str] = set()
    for is_slow, level in zip(hierarchy.slow, hierarchy.memories[1:][-2:], strict=False):
        limited = any(memory.capacity_bytes for memory in level.memories)
        if is_slow and limited:
            halved.add(level.name)
            rooms.append(replace(hierarchy, levels=tuple(_halve_levels(hierarchy.levels, halved))))
    return rooms


def _halve_levels(levels: Sequence[Level], names: set[str]) -> Iterator[Level]:
    for level in levels:
        if level.name in names and isinstance(level, TemporalLevel):
            memories = tuple(
                replace(one, capacity_bytes=one.capacity_bytes and one.capacity_bytes // 2)
                for one in level.memories
            )
            yield replace(level, memories=memories)
        else:
            yield level
