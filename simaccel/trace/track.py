"""Tracks: one engine's rows as a tree of leaves and repeats, measured without unrolling.

Every question about a run is answered by descending this tree: a repeat maps the cycles asked
for into its first period by a division, a sequence finds the child by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np

from simaccel.trace.rows import Lane, Rows
from simaccel.trace.schema import CAUSES, EVENT, Cycles, Events, same_activity

NOTHING = np.zeros(0, EVENT)


class TooManyEventsError(Exception):
    """A window holds more events than the caller wants."""


class Node(Protocol):
    """A stretch of one engine's time: the cycles from ``start`` up to ``end``."""

    @property
    def start(self) -> int:
        """First cycle."""

    @property
    def end(self) -> int:
        """Cycle after the last one."""

    @property
    def total(self) -> Cycles:
        """Cycles by cause."""

    @property
    def activity(self) -> Events:
        """The one row that says all that is done here, or no row when more is done."""

    def expand(self, start: int, end: int, at_most: int) -> Events:
        """Rows that overlap the cycles from ``start`` up to ``end``, whole, in order of time."""

    def booked(self, edges: Cycles) -> Cycles:
        """Cycles by cause from ``self.start`` to each edge; edges are sorted, in this stretch."""

    def leaves(self, times: int) -> Iterator[tuple[Events, int]]:
        """Stored rows and how often they happen."""

    def faults(self) -> Iterator[str]:
        """Gaps and overlaps, each as text."""


@dataclass(eq=False)
class Leaf:
    """Consecutive rows of an engine in one block: numbers ``low`` up to ``high`` of its lane."""

    source: Rows
    block: int
    engine: int
    low: int
    high: int
    start: int
    end: int

    @property
    def _lane(self) -> Lane:
        return self.source.lane(self.block, self.engine)

    @property
    def rows(self) -> Events:
        """The rows themselves."""
        return self._lane.rows[self.low : self.high]

    @cached_property
    def total(self) -> Cycles:
        """Cycles by cause."""
        booked = self._lane.booked
        total: Cycles = booked[self.high] - booked[self.low]
        return total

    @cached_property
    def activity(self) -> Events:
        """The one row that says all that is done here, or no row when more is done."""
        rows = self.rows
        if not same_activity(rows[:-1], rows[1:]).all():
            return NOTHING
        return _stretched(rows[:1], self.start, self.end)

    def expand(self, start: int, end: int, at_most: int) -> Events:
        """Rows that overlap the cycles from ``start`` up to ``end``, whole, in order of time."""
        rows = self.rows
        low = int(np.searchsorted(rows["end"], start, "right"))
        high = int(np.searchsorted(rows["start"], end, "left"))
        return _limited(rows[low:high], at_most)

    def booked(self, edges: Cycles) -> Cycles:
        """Cycles by cause from ``self.start`` to each edge."""
        rows, booked = self.rows, self._lane.booked
        at = np.maximum(np.searchsorted(rows["start"], edges, "right") - 1, 0)
        done: Cycles = booked[self.low + at] - booked[self.low]
        done[np.arange(len(edges)), rows["cause"][at]] += edges - rows["start"][at]
        return done

    def leaves(self, times: int) -> Iterator[tuple[Events, int]]:
        """Stored rows and how often they happen."""
        yield self.rows, times

    def faults(self) -> Iterator[str]:
        """Gaps and overlaps, each as text."""
        rows = self.rows
        starts, ends = rows["start"], rows["end"]
        for at in np.flatnonzero(starts >= ends)[:1]:
            yield f"a row goes from cycle {starts[at]} to {ends[at]}"
        for at in np.flatnonzero(ends[:-1] != starts[1:])[:1]:
            yield f"a row ends at cycle {ends[at]}, the next starts at {starts[at + 1]}"


@dataclass(eq=False)
class Chain:
    """Stretches one after the other."""

    nodes: Sequence[Node]

    @property
    def start(self) -> int:
        """First cycle."""
        return self.nodes[0].start if self.nodes else 0

    @property
    def end(self) -> int:
        """Cycle after the last one."""
        return self.nodes[-1].end if self.nodes else 0

    @cached_property
    def _starts(self) -> Cycles:
        return np.array([node.start for node in self.nodes], dtype=np.int64)

    @cached_property
    def _before(self) -> Cycles:
        """Cycles by cause in the nodes before each node, and in all of them."""
        nothing = np.zeros(len(CAUSES), dtype=np.int64)
        return np.cumsum([nothing, *(node.total for node in self.nodes)], axis=0)

    @property
    def total(self) -> Cycles:
        """Cycles by cause."""
        total: Cycles = self._before[-1]
        return total

    @cached_property
    def activity(self) -> Events:
        """The one row that says all that is done here, or no row when more is done."""
        first = self.nodes[0].activity
        for node in self.nodes if len(first) else ():
            row = node.activity
            if len(row) == 0 or not same_activity(first, row).all():
                return NOTHING
        return _stretched(first, self.start, self.end)

    def _at(self, cycle: int) -> int:
        return max(int(np.searchsorted(self._starts, cycle, "right")) - 1, 0)

    def expand(self, start: int, end: int, at_most: int) -> Events:
        """Rows that overlap the cycles from ``start`` up to ``end``, whole, in order of time."""
        parts = [NOTHING]
        for node in self.nodes[self._at(start) : self._at(end - 1) + 1]:
            parts.append(node.expand(start, end, at_most))
            at_most -= len(parts[-1])
        return np.concatenate(parts)

    def booked(self, edges: Cycles) -> Cycles:
        """Cycles by cause from ``self.start`` to each edge."""
        done: Cycles = np.zeros((len(edges), len(CAUSES)), dtype=np.int64)
        if not self.nodes:
            return done
        at = np.maximum(np.searchsorted(self._starts, edges, "right") - 1, 0)
        nodes, cuts = np.unique(at, return_index=True)
        for node, (low, high) in zip(nodes, pairwise([*cuts, len(edges)]), strict=True):
            done[low:high] = self._before[node] + self.nodes[node].booked(edges[low:high])
        return done

    def leaves(self, times: int) -> Iterator[tuple[Events, int]]:
        """Stored rows and how often they happen."""
        for node in self.nodes:
            yield from node.leaves(times)

    def faults(self) -> Iterator[str]:
        """Gaps and overlaps, each as text."""
        for node in self.nodes:
            yield from node.faults()
        for a, b in pairwise(self.nodes):
            if a.end != b.start:
                yield f"a stretch ends at cycle {a.end}, the next starts at {b.start}"


@dataclass(eq=False)
class Repeat:
    """A segment: a body that happens once and ``times`` more times, every ``period`` cycles."""

    body: Node
    period: int
    times: int

    @property
    def start(self) -> int:
        """First cycle."""
        return self.body.start

    @property
    def end(self) -> int:
        """Cycle after the last one."""
        return self.body.start + self.period * (self.times + 1)

    @cached_property
    def total(self) -> Cycles:
        """Cycles by cause."""
        total: Cycles = self.body.total * (self.times + 1)
        return total

    @cached_property
    def activity(self) -> Events:
        """The one row that says all that is done here, or no row when more is done."""
        return _stretched(self.body.activity, self.start, self.end)

    def expand(self, start: int, end: int, at_most: int) -> Events:
        """Rows that overlap the cycles from ``start`` up to ``end``, whole, in order of time."""
        if len(self.activity):
            return self.activity if start < self.end and end > self.start else NOTHING
        first = max((start - self.start) // self.period, 0)
        last = min((end - 1 - self.start) // self.period, self.times)
        parts = [NOTHING]
        for time in sorted({first, last}):
            if first <= time <= last:
                shift = time * self.period
                parts.append(_later(self.body.expand(start - shift, end - shift, at_most), [shift]))
        if last - first > 1:
            body = self.body.expand(self.start, self.start + self.period, at_most)
            between = range(first + 1, last)
            if len(body) * len(between) > at_most:
                raise TooManyEventsError
            parts.insert(2, _later(body, np.array(between, dtype=np.int64) * self.period))
        return _limited(np.concatenate(parts), at_most)

    def booked(self, edges: Cycles) -> Cycles:
        """Cycles by cause from ``self.start`` to each edge."""
        time = (edges - self.start) // self.period
        inside, back = np.unique(edges - time * self.period, return_inverse=True)
        done: Cycles = time[:, None] * self.body.total + self.body.booked(inside)[back]
        return done

    def leaves(self, times: int) -> Iterator[tuple[Events, int]]:
        """Stored rows and how often they happen."""
        yield from self.body.leaves(times * (self.times + 1))

    def faults(self) -> Iterator[str]:
        """Gaps and overlaps, each as text."""
        yield from self.body.faults()
        length = self.body.end - self.body.start
        if length != self.period:
            yield f"a segment at cycle {self.start} has {length} of {self.period} cycles"


def _limited(rows: Events, at_most: int) -> Events:
    if len(rows) > at_most:
        raise TooManyEventsError
    return rows


def _stretched(row: Events, start: int, end: int) -> Events:
    """Copy a row (if there is one) and give it other cycles."""
    row = row.copy()
    row["start"], row["end"] = start, end
    return row


def _later(rows: Events, shifts: Sequence[int] | Cycles) -> Events:
    """Repeat rows, each time later by a shift."""
    out = np.tile(rows, len(shifts))
    by = np.repeat(np.asarray(shifts, dtype=np.int64), len(rows))
    out["start"] += by
    out["end"] += by
    return out
