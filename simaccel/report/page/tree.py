"""A lane's whole run as a small tree: rows, and bodies that repeat.

The page stores this. It has only lengths and no start cycles: the rows of a lane tile the run, so a
row starts at the sum of the lengths before it. A repeated body is stored once, so the tree grows
with the stored rows and not with the cycles of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from simaccel.trace.rows import LaneRows
from simaccel.trace.schema import KEY, Cycles
from simaccel.trace.track import ChainTrack, RepeatTrack, Track

_MOST_CODES = 2**62
"""Most codes that fit their integer type."""
Activity = tuple[int, ...]
"""Identifies a row's activity: the values of the columns ``KEY``."""


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


def lane_json(node: Track, activities: ActivityTable) -> list[dict[str, Any]]:
    """Return a lane as lists: rows as {n: lengths, a: activities, v: cycles of service if any}.

    A body that repeats is {times: its executions, body: a list}.
    """
    if isinstance(node, ChainTrack):
        return [part for inner in node.nodes for part in lane_json(inner, activities)]
    if isinstance(node, RepeatTrack):
        return [{"times": node.times + 1, "body": lane_json(node.body, activities)}]
    rows = node.rows
    lengths = rows["end"] - rows["start"]
    plain = {"n": lengths.tolist(), "a": activities.number(rows).tolist()}
    return [plain | ({"v": rows["served"].tolist()} if rows["served"].any() else {})]
