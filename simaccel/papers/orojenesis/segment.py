"""Segments: operators that run as one group, with a front and the tree of each of its points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from simaccel.analytic.counting.work_counts import count_tiles
from simaccel.analytic.family import Family, Ints, ints, take, tree_of
from simaccel.mapping.tree import BUFFER, Group
from simaccel.papers.orojenesis.ski_slope import SkiSlope

_CHUNK = 1 << 14
"""Candidates that are counted at a time."""


@dataclass(frozen=True)
class Segment:
    """Operators that run as one group (or one operator), and their front.

    ``group``: the tree of a point, None if the machine can't run it. ``mappings``: size of
    the mapspace; ``all_sizes``: whether no tile size that may matter was left out.
    """

    operators: tuple[str, ...]
    front: SkiSlope
    group: Callable[[int], Group | None]
    mappings: int = 0
    all_sizes: bool = True


def of_families(group: Group, families: Sequence[Family]) -> Segment:
    """Return the segment of families of trees of a group, with the bytes that the machine moves."""
    front, mappings = SkiSlope(), 0
    for number, family in enumerate(families):
        size = int(np.prod(family.shape, dtype=np.int64))
        mappings += size
        for start in range(0, size, _CHUNK):
            flat = np.arange(start, min(start + _CHUNK, size))
            room, moved = figures(_take_candidates(family, flat))
            room, moved = (np.broadcast_to(column, flat.shape) for column in (room, moved))
            front.add(room, moved, np.stack([np.full(flat.size, number), flat], axis=1))

    def tree(number: int) -> Group:
        which, at = (int(place) for place in front.origin[number])
        chosen = _take_candidates(families[which], ints(at))
        return Group(operators=group.operators, tree=tree_of(chosen), merged=group.merged)

    return Segment(group.operators, front, tree, mappings)


def _take_candidates(family: Family, flat: Ints) -> Family:
    shape = family.shape
    return take(family, np.unravel_index(flat, shape)) if shape else family


def figures(family: Family) -> tuple[Ints, Ints]:
    """Return bytes kept in the buffer and bytes moved to and from DRAM, for each candidate."""
    counts = count_tiles(family)
    return counts.room(BUFFER), counts.total("dram_read") + counts.total("dram_write")
