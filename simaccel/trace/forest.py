"""Segments of a trace file as a forest, and each lane's track through it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from simaccel.trace.guard import damaged_error
from simaccel.trace.rows import EventColumns
from simaccel.trace.track import ChainTrack, RowTrack, Track


@dataclass(frozen=True)
class RowSegment:
    """Rows ``first_row`` up to ``end_row`` of the file, and ``repeats`` repetitions of them."""

    first_row: int
    end_row: int
    period_cycles: int
    repeats: int
    inner: list[RowSegment] = field(default_factory=list)

    def __str__(self) -> str:
        again = f"{self.repeats} more times every {self.period_cycles} cycles"
        return f"the segment of rows {self.first_row} to {self.end_row}, {again},"


def nest(stored: Sequence[Sequence[int]], rows: EventColumns, cycles: int) -> list[RowSegment]:
    """Return stored segments, which have inner ones first, as a forest.

    Raises:
        TraceError: a segment lies outside the run or crosses another one.
    """
    forest: list[RowSegment] = []
    for first, end, period, repeats in stored:
        segment = RowSegment(first, end, period, repeats)
        if not (0 <= first < end <= rows.n_rows and period > 0 and repeats > 0):
            raise damaged_error(rows.path, f"{segment} is outside {rows.n_rows} rows")
        if period * (repeats + 1) > cycles:
            raise damaged_error(rows.path, f"{segment} is longer than {cycles} cycles")
        while forest and forest[-1].first_row >= first:
            segment.inner.insert(0, forest.pop())
        if forest and forest[-1].end_row > first:
            raise damaged_error(rows.path, f"{segment} crosses {forest[-1]}")
        if segment.inner and segment.inner[-1].end_row > end:
            raise damaged_error(rows.path, f"{segment} crosses {segment.inner[-1]}")
        forest.append(segment)
    return forest


@dataclass(frozen=True)
class RepeatedSegment:
    """A repeated segment in time: from its first period to the end of its last repetition."""

    start: int
    end: int
    period_cycles: int
    repeats: int
    children: tuple[RepeatedSegment, ...]
    """Those inside the first period."""


def stretches(forest: Sequence[RowSegment], rows: EventColumns) -> list[RepeatedSegment]:
    """Return the segments in time, in order of their first cycles."""
    in_time = []
    for segment in forest:
        lanes = range(rows.index.rows.shape[1])
        firsts = (next(_leaves(rows, n, segment.first_row, segment.end_row), None) for n in lanes)
        start = min(leaf.start for leaf in firsts if leaf is not None)
        period, repeats = segment.period_cycles, segment.repeats
        inside = tuple(stretches(segment.inner, rows))
        end = start + period * (repeats + 1)
        in_time.append(RepeatedSegment(start, end, period, repeats, inside))
    return in_time


def make_track(
    rows: EventColumns, lane: int, forest: Sequence[RowSegment], cycles: int
) -> ChainTrack:
    """Return the track of a lane over the whole run.

    Raises:
        TraceError: a segment repeats beyond the end of the run.
    """

    def chain(first: int, end: int, segments: Sequence[RowSegment]) -> list[Track]:
        nodes: list[Track] = []
        for segment in segments:
            nodes += _leaves(rows, lane, first, segment.first_row)
            body = chain(segment.first_row, segment.end_row, segment.inner)
            if body:
                nodes.append(ChainTrack(body, segment.period_cycles, segment.repeats))
                if nodes[-1].end > cycles:
                    raise damaged_error(rows.path, f"{segment} goes on after cycle {cycles}")
            first = segment.end_row
        return [*nodes, *_leaves(rows, lane, first, end)]

    return ChainTrack(chain(0, rows.n_rows, forest))


def _leaves(rows: EventColumns, lane: int, first: int, end: int) -> Iterator[RowTrack]:
    """Yield a leaf for each block of rows ``first`` to ``end``; only blocks with a cut are read."""
    if first == end:
        return
    size, index = rows.block_rows, rows.index
    for block in range(first // size, -(-end // size)):
        low, high = 0, int(index.rows[block, lane])
        start, stop = index.first_start[block, lane], index.last_end[block, lane]
        if high and (first > block * size or end < min((block + 1) * size, rows.n_rows)):
            cuts = rows.cut(block, first), rows.cut(block, end)
            low, high = (cut.before[lane] for cut in cuts)
            start, stop = cuts[0].next_start[lane], cuts[1].last_end[lane]
        if low < high:
            yield RowTrack(rows, block, lane, low, high, int(start), int(stop))
