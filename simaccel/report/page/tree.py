"""A lane's whole run as a small tree: rows, and bodies that repeat.

The page stores this. It has only lengths and no start cycles: the rows of a lane tile the run, so a
row starts at the sum of the lengths before it. A repeated body is stored once, so the tree grows
with the stored rows and not with the cycles of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simaccel.trace.rows import LaneRows
from simaccel.trace.schema import KEY, Cycles
from simaccel.trace.track import ChainTrack, RepeatTrack, RowTrack, Track

_MOST_CODES = 2**62
"""Most codes that fit their integer type."""
Activity = tuple[int, ...]
"""Identifies a row's activity: the values of the columns ``KEY``."""


@dataclass(frozen=True, eq=False)
class RowSequence:
    """Consecutive rows of a lane."""

    lengths: Cycles
    """Cycles of each row."""
    activities: Cycles
    """Activity of each row, by its number in ``ActivityTable``."""
    served: Cycles
    """Cycles of service in each row of a channel; otherwise 0."""

    @property
    def cycles(self) -> int:
        """Cycles of all rows."""
        return int(self.lengths.sum())


@dataclass(frozen=True, eq=False)
class RepeatedBody:
    """A body that repeats ``times`` times in a row, ``times`` > 1."""

    times: int
    body: Sequence[RowSequence | RepeatedBody]

    @property
    def cycles(self) -> int:
        """Cycles of all repetitions."""
        return self.times * cycles_of(self.body)


Tree = Sequence[RowSequence | RepeatedBody]


def cycles_of(tree: Tree) -> int:
    """Return the cycles of a tree."""
    return sum(node.cycles for node in tree)


class ActivityTable:
    """Activities by number, each stored once for all lanes."""

    def __init__(self) -> None:
        self._numbers: dict[Activity, int] = {}

    def __iter__(self) -> Iterator[Activity]:
        return iter(self._numbers)

    def number(self, rows: LaneRows) -> Cycles:
        """Return the number of each row's activity."""
        if not len(rows):
            return np.zeros(0, np.int64)
        found, back = np.unique(_codes(rows), return_inverse=True)
        first = np.empty(len(found), np.int64)
        first[back] = np.arange(len(rows))
        known = self._numbers
        columns = [rows[name][first].tolist() for name in KEY]
        numbers = [known.setdefault(key, len(known)) for key in zip(*columns, strict=True)]
        return np.array(numbers, dtype=np.int64)[back]

    def column(self, name: str) -> Cycles:
        """Return one column of all activities, by number."""
        at = KEY.index(name)
        return np.array([activity[at] for activity in self], dtype=np.int64)


def _codes(rows: LaneRows) -> Cycles:
    """Return a number for each row, in the order of their activities, the same for the same."""
    codes = np.zeros(len(rows), np.int64)
    many = 1
    for name in KEY:
        column = rows[name].astype(np.int64)
        column -= column.min()
        size = int(column.max()) + 1
        if many * size >= _MOST_CODES:  # of so many rows, fewer differ
            distinct, codes = np.unique(codes, return_inverse=True)
            many = len(distinct)
        codes *= size
        codes += column
        many *= size
    return codes


def lane_tree(track: ChainTrack, activities: ActivityTable) -> Tree:
    """Return a track of a trace as a tree of the page."""

    def nodes_of(node: Track) -> Iterator[RowSequence | RepeatedBody]:
        if isinstance(node, RowTrack):
            rows = node.rows
            yield RowSequence(rows["end"] - rows["start"], activities.number(rows), rows["served"])
        elif isinstance(node, RepeatTrack):
            yield RepeatedBody(node.times + 1, list(nodes_of(node.body)))
        elif isinstance(node, ChainTrack):
            for inner in node.nodes:
                yield from nodes_of(inner)

    return list(nodes_of(track))
