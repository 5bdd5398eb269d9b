"""A lane's whole run as a small tree: rows, and bodies that repeat.

The page stores this. It has only lengths and no start cycles: the rows of a lane tile the run, so a
row starts at the sum of the lengths before it. A repeated body is stored once, so the tree grows
with the stored rows and not with the cycles of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from simaccel.trace.rows import LaneRows, group_rows
from simaccel.trace.schema import KEY, Cycles
from simaccel.trace.track import ChainTrack, Track

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
        columns = [rows[name] for name in KEY]
        order, first = group_rows(columns)
        known, numbers = self._numbers, np.zeros(len(rows), np.int64)
        keys = zip(*(column[order[first]].tolist() for column in columns), strict=True)
        own = [known.setdefault(key, len(known)) for key in keys]
        numbers[order] = np.repeat(own, np.diff(first, append=len(rows)))
        return numbers


def lane_json(node: Track, activities: ActivityTable) -> list[dict[str, Any]]:
    """Return a lane as lists: rows as {n: lengths, a: activities, v: cycles of service if any}.

    A body that repeats is {times: its executions, body: a list}.
    """
    if isinstance(node, ChainTrack):
        parts = [part for inner in node.nodes for part in lane_json(inner, activities)]
        return [{"times": node.times + 1, "body": parts}] if node.times else parts
    rows = node.rows
    lengths = rows["end"] - rows["start"]
    plain = {"n": lengths.tolist(), "a": activities.number(rows).tolist()}
    return [plain | ({"v": rows["served"].tolist()} if rows["served"].any() else {})]
