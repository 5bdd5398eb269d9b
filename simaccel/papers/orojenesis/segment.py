"""Segments: operators that run as one group, with a front and the tree of each of its points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from simaccel.analytic.counting.work_counts import count_tiles
from simaccel.analytic.family import Bools, Family, Ints, ints, take, tree_of
from simaccel.mapping.tree import BUFFER, Group
from simaccel.pareto import undominated_rows


@dataclass
class SkiSlope:
    """Points with strictly more buffer and strictly fewer accesses, and where each comes from.

    ``origin``: a row of figures for each point, as it was given with it.
    """

    buffer: Ints = field(default_factory=lambda: ints([]))
    accesses: Ints = field(default_factory=lambda: ints([]))
    origin: Ints = field(default_factory=lambda: ints([]).reshape(0, 1))

    def __len__(self) -> int:
        return int(self.buffer.size)

    @property
    def smallest(self) -> int:
        """Bytes of the smallest buffer that anything runs with."""
        return int(self.buffer[0])

    @property
    def largest(self) -> tuple[int, int]:
        """The maximal effectual buffer, and the bytes moved with it; a larger one saves nothing."""
        return int(self.buffer[-1]), int(self.accesses[-1])

    def improves(self, buffer: Ints, accesses: Ints) -> Bools:
        """Return which points no known one equals or beats."""
        if not len(self):
            return np.ones(buffer.shape, dtype=np.bool_)
        at = np.searchsorted(self.buffer, buffer, side="right") - 1
        known = np.where(at >= 0, self.accesses[np.maximum(at, 0)], np.iinfo(np.int64).max)
        return np.asarray(accesses < known, dtype=np.bool_)

    def add(self, buffer: Ints, accesses: Ints, origin: Ints) -> None:
        """Take points in; of equal ones the first given stays."""
        new = self.improves(buffer, accesses)
        if not new.any():
            return
        width = origin.shape[1]
        known = self.origin if len(self) else self.origin.reshape(0)[:0].reshape(0, width)
        buffers = np.concatenate([self.buffer, buffer[new]])
        moved = np.concatenate([self.accesses, accesses[new]])
        origins = np.concatenate([known, origin[new]])
        best = undominated_rows(np.stack([buffers, moved], axis=1))
        self.buffer, self.accesses, self.origin = buffers[best], moved[best], origins[best]

    def find_point(self, room: int) -> int | None:
        """Return the number of the last point that fits into ``room`` bytes; None if none does."""
        found = int(np.searchsorted(self.buffer, room, side="right")) - 1
        return found if found >= 0 else None

    def points(self) -> list[tuple[int, int]]:
        """Return (buffer bytes, bytes moved), the smallest buffer first."""
        return [(int(b), int(a)) for b, a in zip(self.buffer, self.accesses, strict=True)]


def join_slopes(fronts: list[SkiSlope]) -> SkiSlope:
    """Return the front of things that run one after the other with one buffer.

    ``origin`` has a column for each: the number of its point. Below the largest of the smallest
    buffers nothing runs.
    """
    least = max(front.smallest for front in fronts)
    every = {room for front in fronts for room in front.buffer.tolist() if room >= least}
    rooms = np.array(sorted(every))
    columns = [np.searchsorted(front.buffer, rooms, side="right") - 1 for front in fronts]
    moved = sum(
        (front.accesses[at] for front, at in zip(fronts, columns, strict=True)), start=ints(0)
    )
    joined = SkiSlope()
    joined.add(rooms, ints(moved), np.stack(columns, axis=1))
    return joined


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
