"""Tracks: one lane's rows as a tree of leaves and repeats, measured without unrolling.

Every question about a run is answered by descending this tree: a repeat maps the cycles asked
for into its first period by a division, a sequence finds the child by bisection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np

from simaccel.trace.activities import Account, account_rows, measure_before, share_service
from simaccel.trace.rows import EventColumns, LaneRows
from simaccel.trace.schema import (
    EVENT,
    HELD,
    MEASURES,
    SERVED,
    Cycles,
    Events,
    Measures,
    same_activity,
)

NOTHING = np.zeros(0, EVENT)
OfLeaf = Callable[["RowTrack", Cycles], Measures]
"""What gives the sums of a leaf from its start to each edge."""


class Track(Protocol):
    """A stretch of one lane's time: the cycles from ``start`` up to ``end``."""

    @property
    def start(self) -> int:
        """First cycle."""

    @property
    def end(self) -> int:
        """Cycle after the last one."""

    @property
    def total(self) -> Measures:
        """Sums by ``MEASURES``."""

    @property
    def activity(self) -> Events:
        """The single row of this part, or no row if there are several."""

    def expand(self, start: int, end: int) -> Events:
        """Rows that overlap the cycles from ``start`` up to ``end``, whole, in order of time."""

    def count(self, start: int, end: int) -> int:
        """Return how many rows ``expand`` gives, which are not made for it."""

    def measure_edges(self, edges: Cycles, of_leaf: OfLeaf) -> Measures:
        """Sums from ``self.start`` to each edge; edges are sorted, in this stretch.

        ``of_leaf`` gives those of a leaf, from its start.
        """

    def account_cycles(self, start: int, end: int) -> Account:
        """Cycles by activity from ``start`` up to ``end``."""

    def faults(self) -> Iterator[str]:
        """Gaps and overlaps, each as text."""

    def leaves(self, start: int, end: int) -> Iterator[RowTrack]:
        """Return the leaves that the cycles from ``start`` up to ``end`` may come from."""


@dataclass(eq=False)
class RowTrack:
    """Consecutive rows of a lane in one block: numbers ``low`` up to ``high`` of its part."""

    source: EventColumns
    block: int
    lane: int
    low: int
    high: int
    start: int
    end: int

    @property
    def _part(self) -> LaneRows:
        return self.source.part(self.block, self.lane)

    @property
    def rows(self) -> Events:
        """The rows themselves."""
        return self._part.rows[self.low : self.high]

    @cached_property
    def total(self) -> Measures:
        """Sums by ``MEASURES``."""
        total: Measures = measure_before(self.rows, np.array([self.high - self.low]))[0]
        return total

    @cached_property
    def activity(self) -> Events:
        """The single row of this part, or no row if there are several."""
        rows = self.rows
        if not same_activity(rows[:-1], rows[1:]).all():
            return NOTHING
        return _stretch_row(rows[:1], self)

    def expand(self, start: int, end: int) -> Events:
        """Rows that overlap the cycles from ``start`` up to ``end``, whole, in order of time."""
        return self.rows[slice(*self._overlap(start, end))]

    def count(self, start: int, end: int) -> int:
        """Return how many rows ``expand`` gives, which are not made for it."""
        if start <= self.start and self.end <= end:
            return self.high - self.low
        low, high = self._overlap(start, end)
        return max(high - low, 0)

    def _overlap(self, start: int, end: int) -> tuple[int, int]:
        rows = self.rows
        low = int(np.searchsorted(rows["end"], start, "right"))
        return low, int(np.searchsorted(rows["start"], end, "left"))

    def measure_edges(self, edges: Cycles, of_leaf: OfLeaf) -> Measures:
        """Sums from ``self.start`` to each edge."""
        return of_leaf(self, edges)

    def measure_rows(self, edges: Cycles) -> Measures:
        """Sums of its rows from ``self.start`` to each edge; within a row all goes on evenly."""
        rows = self.rows
        at = np.maximum(np.searchsorted(rows["start"], edges, "right") - 1, 0)
        done = measure_before(rows, at)
        cut = rows[at]
        cycles = edges - cut["start"]
        done[np.arange(len(edges)), cut["cause"]] += cycles
        done[:, SERVED] += share_service(cut["served"], cycles, cut["end"] - cut["start"])
        done[:, HELD] += (cut["held"] * cycles.astype(done.dtype)).astype(done.dtype)
        return done

    def account_cycles(self, start: int, end: int) -> Account:
        """Cycles by activity from ``start`` up to ``end``."""
        if start <= self.start and self.end <= end:
            return self.account
        return account_rows(self.rows, start, end)

    @cached_property
    def account(self) -> Account:
        """All cycles by activity."""
        return account_rows(self.rows, self.start, self.end)

    def faults(self) -> Iterator[str]:
        """Gaps and overlaps, each as text."""
        yield from self.found_faults

    @cached_property
    def found_faults(self) -> tuple[str, ...]:
        """Gaps and overlaps, each as text."""
        rows = self.rows
        starts, ends = rows["start"], rows["end"]
        return (
            *(
                f"a row goes from cycle {starts[at]} to {ends[at]}"
                for at in np.flatnonzero(starts >= ends)[:1]
            ),
            *(
                f"a row ends at cycle {ends[at]}, the next starts at {starts[at + 1]}"
                for at in np.flatnonzero(ends[:-1] != starts[1:])[:1]
            ),
        )

    def leaves(self, start: int, end: int) -> Iterator[RowTrack]:
        """Return itself, where it overlaps the cycles from ``start`` up to ``end``."""
        if start < self.end and self.start < end:
            yield self


@dataclass(eq=False)
class ChainTrack:
    """Stretches one after the other."""

    nodes: Sequence[Track]

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
    def _before(self) -> Measures:
        """Sums of the nodes before each node, and of all of them."""
        nothing = np.zeros(len(MEASURES), dtype=np.int64)
        return np.cumsum([nothing, *(node.total for node in self.nodes)], axis=0)

    @property
    def total(self) -> Measures:
        """Sums by ``MEASURES``."""
        total: Measures = self._before[-1]
        return total

    @cached_property
    def activity(self) -> Events:
        """The one row that says all that is done here, or no row when more is done."""
        first = self.nodes[0].activity
        for node in self.nodes if len(first) else ():
            row = node.activity
            if len(row) == 0 or not same_activity(first, row).all():
                return NOTHING
        return _stretch_row(first, self)

    def _track_index(self, cycle: int) -> int:
        return max(int(np.searchsorted(self._starts, cycle, "right")) - 1, 0)

    def expand(self, start: int, end: int) -> Events:
        """Rows that overlap the cycles from ``start`` up to ``end``, whole, in order of time."""
        nodes = self.nodes[self._track_index(start) : self._track_index(end - 1) + 1]
        return np.concatenate([NOTHING, *(node.expand(start, end) for node in nodes)])

    def count(self, start: int, end: int) -> int:
        """Return how many rows ``expand`` gives, which are not made for it."""
        nodes = self.nodes[self._track_index(start) : self._track_index(end - 1) + 1]
        return sum(node.count(start, end) for node in nodes)

    def measure_edges(self, edges: Cycles, of_leaf: OfLeaf) -> Measures:
        """Sums from ``self.start`` to each edge."""
        done: Measures = np.zeros((len(edges), len(MEASURES)), self._before.dtype)
        if not self.nodes:
            return done
        at = np.maximum(np.searchsorted(self._starts, edges, "right") - 1, 0)
        nodes, cuts = np.unique(at, return_index=True)
        for node, (low, high) in zip(nodes, pairwise([*cuts, len(edges)]), strict=True):
            found = self.nodes[node].measure_edges(edges[low:high], of_leaf)
            done[low:high] = self._before[node] + found
        return done

    def account_cycles(self, start: int, end: int) -> Account:
        """Cycles by activity from ``start`` up to ``end``."""
        if start <= self.start and self.end <= end:
            return self._account
        sums: Account = Counter()
        for node in self.nodes[self._track_index(start) : self._track_index(end - 1) + 1]:
            sums.update(node.account_cycles(start, end))
        return sums

    @cached_property
    def _account(self) -> Account:
        sums: Account = Counter()
        for node in self.nodes:
            sums.update(node.account_cycles(node.start, node.end))
        return sums

    def faults(self) -> Iterator[str]:
        """Gaps and overlaps, each as text."""
        for node in self.nodes:
            yield from node.faults()
        for a, b in pairwise(self.nodes):
            if a.end != b.start:
                yield f"a stretch ends at cycle {a.end}, the next starts at {b.start}"

    def leaves(self, start: int, end: int) -> Iterator[RowTrack]:
        """Return the leaves that the cycles from ``start`` up to ``end`` may come from."""
        for node in self.nodes[self._track_index(start) : self._track_index(end - 1) + 1]:
            yield from node.leaves(start, end)


@dataclass(eq=False)
class RepeatTrack:
    """A segment: a body that happens once and ``times`` more times, every ``period`` cycles."""

    body: Track
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
    def total(self) -> Measures:
        """Sums by ``MEASURES``."""
        total: Measures = self.body.total * (self.times + 1)
        return total

    @cached_property
    def activity(self) -> Events:
        """The one row that says all that is done here, or no row when more is done."""
        return _stretch_row(self.body.activity, self)

    def expand(self, start: int, end: int) -> Events:
        """Rows that overlap the cycles from ``start`` up to ``end``, whole, in order of time."""
        if len(self.activity):
            return self.activity if start < self.end and end > self.start else NOTHING
        first, last = self._times_in(start, end)
        parts = [NOTHING]
        for time in sorted({first, last}):
            if first <= time <= last:
                shift = time * self.period
                parts.append(_shift(self.body.expand(start - shift, end - shift), [shift]))
        if last - first > 1:
            body = self.body.expand(self.start, self.start + self.period)
            between = range(first + 1, last)
            parts.insert(2, _shift(body, np.array(between, dtype=np.int64) * self.period))
        return np.concatenate(parts)

    def count(self, start: int, end: int) -> int:
        """Return how many rows ``expand`` gives, which are not made for it."""
        if len(self.activity):
            return int(start < self.end and end > self.start)
        first, last = self._times_in(start, end)
        shifts = {time * self.period for time in (first, last) if first <= time <= last}
        cut = sum(self.body.count(start - shift, end - shift) for shift in shifts)
        whole = max(last - first - 1, 0)
        return cut + (whole and whole * self.body.count(self.start, self.start + self.period))

    def _times_in(self, start: int, end: int) -> tuple[int, int]:
        """Return the first and the last time of the body in a window."""
        first = max((start - self.start) // self.period, 0)
        return first, min((end - 1 - self.start) // self.period, self.times)

    def measure_edges(self, edges: Cycles, of_leaf: OfLeaf) -> Measures:
        """Sums from ``self.start`` to each edge."""
        time = (edges - self.start) // self.period
        inside, back = np.unique(edges - time * self.period, return_inverse=True)
        found = self.body.measure_edges(inside, of_leaf)
        done: Measures = time[:, None] * self.body.total + found[back]
        return done

    def account_cycles(self, start: int, end: int) -> Account:
        """Cycles by activity from ``start`` up to ``end``: whole periods, and those cut."""
        start, end = max(start, self.start), min(end, self.end)
        sums: Account = Counter()
        if start >= end:
            return sums
        first, last = ((cycle - self.start) // self.period for cycle in (start, end - 1))
        for time in {first, last}:
            shift = time * self.period
            sums.update(self.body.account_cycles(start - shift, end - shift))
        between = max(last - first - 1, 0)
        whole = self.body.account_cycles(self.start, self.start + self.period) if between else {}
        for activity, cycles in whole.items():
            sums[activity] += cycles * between
        return sums

    def faults(self) -> Iterator[str]:
        """Gaps and overlaps, each as text."""
        yield from self.body.faults()
        length = self.body.end - self.body.start
        if length != self.period:
            yield f"a segment at cycle {self.start} has {length} of {self.period} cycles"

    def leaves(self, start: int, end: int) -> Iterator[RowTrack]:
        """Return the leaves of one period, or of a window that lies in one."""
        start, end = max(start, self.start), min(end, self.end)
        if start >= end:
            return
        first, last = ((cycle - self.start) // self.period for cycle in (start, end - 1))
        shift = first * self.period
        within = (start - shift, end - shift) if first == last else (self.start, self.body.end)
        yield from self.body.leaves(*within)


def _stretch_row(row: Events, node: Track) -> Events:
    """Copy a row (if there is one) and give it the cycles and the service of a stretch."""
    row = row.copy()
    if len(row):
        row["start"], row["end"], row["served"] = node.start, node.end, node.total[SERVED]
    return row


def _shift(rows: Events, shifts: Sequence[int] | Cycles) -> Events:
    """Repeat rows, each time later by a shift."""
    out = np.tile(rows, len(shifts))
    by = np.repeat(np.asarray(shifts, dtype=np.int64), len(rows))
    out["start"] += by
    out["end"] += by
    return out
