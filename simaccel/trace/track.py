"""Tracks: one lane's rows as a tree of leaves and repeated chains, measured without unrolling.

Questions about a run are answered by descending this tree: a repeat maps a cycle into its first
period by a division, a sequence finds the child by bisection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from simaccel.trace.rows import (
    Account,
    EventColumns,
    LaneRows,
    account_rows,
    measure_before,
    share_service,
)
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
"""Function that returns the sums from a leaf's start to each edge, by edge and measure."""
Track: TypeAlias = "RowTrack | ChainTrack"
"""A stretch of one lane's time: the cycles from ``start`` up to, not including, ``end``."""
Piece: TypeAlias = "tuple[RowTrack, int, int, int]"
"""A leaf, the cycles ``start`` and ``end`` within it, and how many times these happen."""


@dataclass(eq=False)
class RowTrack:
    """A leaf: consecutive rows of a lane in one block, ``low`` up to ``high`` of its rows there."""

    source: EventColumns
    block: int
    lane: int
    low: int
    high: int
    start: int
    end: int

    @property
    def rows(self) -> LaneRows:
        """The rows themselves."""
        return self.source.part(self.block, self.lane).part(self.low, self.high)

    @cached_property
    def total(self) -> Measures:
        """Sums over the whole stretch, by ``MEASURES``."""
        total: Measures = measure_before(self.rows, np.array([self.high - self.low]))[0]
        return total

    @cached_property
    def activity(self) -> Events:
        """The one row that this stretch amounts to; empty if it holds several activities."""
        rows = self.rows.events()
        if not same_activity(rows[:-1], rows[1:]).all():
            return NOTHING
        return _stretch_row(rows[:1], self)

    def expand(self, start: int, end: int) -> Events:
        """Return the rows that overlap the cycles ``start`` to ``end``, uncut, in order of time."""
        return self.rows.events()[slice(*self._overlap(start, end))]

    def count(self, start: int, end: int) -> int:
        """Return the number of rows of ``expand``, without expanding."""
        if start <= self.start and self.end <= end:
            return self.high - self.low
        low, high = self._overlap(start, end)
        return max(high - low, 0)

    def _overlap(self, start: int, end: int) -> tuple[int, int]:
        rows = self.rows
        low = int(np.searchsorted(rows["end"], start, "right"))
        return low, int(np.searchsorted(rows["start"], end, "left"))

    def measure_edges(self, edges: Cycles, of_leaf: OfLeaf) -> Measures:
        """Return the sums from ``self.start`` to each edge, by edge and measure."""
        return of_leaf(self, edges)

    def measure_rows(self, edges: Cycles) -> Measures:
        """Return the sums to each edge; a row that an edge cuts counts in proportion."""
        rows = self.rows
        at = np.maximum(np.searchsorted(rows["start"], edges, "right") - 1, 0)
        done = measure_before(rows, at)
        cycles = edges - rows["start"][at]
        done[np.arange(len(edges)), rows["cause"][at]] += cycles
        lengths = rows["end"][at] - rows["start"][at]
        done[:, SERVED] += share_service(rows["served"][at], cycles, lengths)
        done[:, HELD] += (rows["held"][at] * cycles.astype(done.dtype)).astype(done.dtype)
        return done

    @cached_property
    def account(self) -> Account:
        """Cycles of the whole stretch by activity."""
        return account_rows(self.rows, self.start, self.end)

    @cached_property
    def faults(self) -> tuple[str, ...]:
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

    def pieces(self, start: int, end: int) -> Iterator[Piece]:
        """Yield the part of this leaf between the cycles ``start`` and ``end``, if there is any."""
        start, end = max(start, self.start), min(end, self.end)
        if start < end:
            yield self, start, end, 1


@dataclass(eq=False)
class ChainTrack:
    """A sequence of stretches, one after the other, executed once or as a repeat.

    ``times``: further executions of it, each ``period`` cycles later.
    """

    nodes: Sequence[Track]
    period: int = 0
    times: int = 0

    @property
    def start(self) -> int:
        """First cycle."""
        return self.nodes[0].start if self.nodes else 0

    @property
    def end(self) -> int:
        """First cycle after it."""
        if self.times:
            return self.start + self.period * (self.times + 1)
        return self.nodes[-1].end if self.nodes else 0

    @cached_property
    def _starts(self) -> Cycles:
        return np.array([node.start for node in self.nodes], dtype=np.int64)

    @cached_property
    def _before(self) -> Measures:
        """Cumulative sums: of the nodes before each node, and of all of them."""
        nothing = np.zeros(len(MEASURES), dtype=np.int64)
        return np.cumsum([nothing, *(node.total for node in self.nodes)], axis=0)

    @cached_property
    def total(self) -> Measures:
        """Sums over the whole stretch, by ``MEASURES``."""
        total: Measures = self._before[-1] * (self.times + 1)
        return total

    @cached_property
    def activity(self) -> Events:
        """The one row that this stretch amounts to; empty if it holds several activities."""
        first = self.nodes[0].activity
        for node in self.nodes if len(first) else ():
            row = node.activity
            if len(row) == 0 or not same_activity(first, row).all():
                return NOTHING
        return _stretch_row(first, self)

    def _nodes_within(self, start: int, end: int) -> Sequence[Track]:
        """Return the nodes of the first execution that overlap the cycles ``start`` to ``end``."""
        first, last = np.searchsorted(self._starts, (start, end - 1), "right").tolist()
        return self.nodes[max(first - 1, 0) : max(last, 1)]

    def _windows(self, start: int, end: int) -> Iterator[tuple[int, int, Sequence[int]]]:
        """Yield the parts of the first execution in a window, and the numbers of those with each.

        In the order of time: of a first execution that is cut, of whole ones, of a last one.
        """
        if not self.times:
            yield start, end, (0,)
            return
        start, end = max(start, self.start), min(end, self.end)
        first, last = -(-(start - self.start) // self.period), (end - self.start) // self.period
        for times in ([first - 1], range(first, last), range(last, last + (last >= first))):
            shift = times[0] * self.period if times else 0
            low, high = max(start - shift, self.start), min(end - shift, self.start + self.period)
            if times and low < high:
                yield low, high, times

    def expand(self, start: int, end: int) -> Events:
        """Return the rows that overlap the cycles ``start`` to ``end``, uncut, in order of time."""
        if self.times and len(self.activity):
            return self.activity if start < self.end and end > self.start else NOTHING
        parts = [NOTHING]
        for low, high, times in self._windows(start, end):
            rows = [node.expand(low, high) for node in self._nodes_within(low, high)]
            shifts = np.array(times, dtype=np.int64) * self.period
            parts.append(_shift(np.concatenate([NOTHING, *rows]), shifts))
        return np.concatenate(parts)

    def count(self, start: int, end: int) -> int:
        """Return the number of rows of ``expand``, without expanding."""
        if self.times and len(self.activity):
            return int(start < self.end and end > self.start)
        return sum(
            len(times) * node.count(low, high)
            for low, high, times in self._windows(start, end)
            for node in self._nodes_within(low, high)
        )

    def measure_edges(self, edges: Cycles, of_leaf: OfLeaf) -> Measures:
        """Return the sums from ``self.start`` to each edge, by edge and measure."""
        if not self.times:
            return self._measure_once(edges, of_leaf)
        time = (edges - self.start) // self.period
        inside, back = np.unique(edges - time * self.period, return_inverse=True)
        once: Measures = self._before[-1]
        return time[:, None] * once + self._measure_once(inside, of_leaf)[back]

    def _measure_once(self, edges: Cycles, of_leaf: OfLeaf) -> Measures:
        """Return the sums to each edge within the first execution."""
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
        """Return the cycles by activity between ``start`` and ``end``."""
        sums: Account = Counter()
        for leaf, first, last, times in self.pieces(start, end):
            whole = (first, last) == (leaf.start, leaf.end)
            account = leaf.account if whole else account_rows(leaf.rows, first, last)
            for activity, cycles in account.items():
                sums[activity] += cycles * times
        return sums

    @cached_property
    def faults(self) -> tuple[str, ...]:
        """Gaps and overlaps, each as text."""
        faults = [fault for node in self.nodes for fault in node.faults]
        for a, b in pairwise(self.nodes):
            if a.end != b.start:
                faults.append(f"a stretch ends at cycle {a.end}, the next starts at {b.start}")
        if self.times and (length := self.nodes[-1].end - self.start) != self.period:
            faults.append(f"a segment at cycle {self.start} has {length} of {self.period} cycles")
        return tuple(faults)

    def pieces(self, start: int, end: int) -> Iterator[Piece]:
        """Yield the parts of leaves in a window: of whole periods once, and of cut ones."""
        for low, high, times in self._windows(start, end):
            for node in self._nodes_within(low, high):
                for leaf, first, last, number in node.pieces(low, high):
                    yield leaf, first, last, number * len(times)


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


def visit(
    tracks: Iterable[ChainTrack], look: Callable[[RowTrack], object], start: int, end: int
) -> None:
    """Call ``look`` on the leaves of several lanes in a window, block by block."""
    leaves = {leaf: leaf.block for track in tracks for leaf, *_ in track.pieces(start, end)}
    for leaf in sorted(leaves, key=leaves.__getitem__):
        look(leaf)


def sum_rows(tracks: Iterable[ChainTrack], cycles: int, accounted: Container[int]) -> None:
    """Compute and cache in the leaves of some lanes their sums by measure, and gaps.

    ``accounted``: numbers of the lanes that are also summed by activity.
    """

    def look(leaf: RowTrack) -> object:
        return leaf.total, leaf.faults, leaf.lane in accounted and leaf.account

    visit(tracks, look, 0, cycles)


def measure_tracks(tracks: Sequence[ChainTrack], edges: Cycles) -> list[Measures]:
    """Return the sums of several lanes up to each edge.

    Two descents: the first collects the edges that are needed of each leaf, the second returns the
    sums, which were computed block by block in between.
    """
    visit(tracks, lambda leaf: leaf.total, 0, max((track.end for track in tracks), default=0))
    within = [(track, np.clip(edges, track.start, track.end)) for track in tracks]
    requests: list[tuple[RowTrack, Cycles]] = []

    def collect(leaf: RowTrack, inside: Cycles) -> Measures:
        requests.append((leaf, inside))
        return np.broadcast_to(leaf.total, (len(inside), len(leaf.total)))

    for track, inside in within:
        track.measure_edges(inside, collect)
    sums_of = dict[int, Measures]()
    for number in sorted(range(len(requests)), key=lambda number: requests[number][0].block):
        leaf, inside = requests[number]
        sums_of[number] = leaf.measure_rows(inside)
    answers = (sums_of[number] for number in range(len(requests)))
    return [track.measure_edges(inside, lambda *_: next(answers)) for track, inside in within]
