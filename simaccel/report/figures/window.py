"""The default window of a figure: one steady period, with the fill before it.

A trace states what repeats: its segments. The segments of the period in which the run spends most
of its cycles are its steady state. If one such period, with everything since the operator began,
has more events than can be distinguished, the period inside it is considered, and so on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from simaccel.errors import Fault, InputError, suggest
from simaccel.report.figures.style import Artist, Axes, SubFigure
from simaccel.report.units import seconds_text
from simaccel.trace import RepeatedSegment, TraceError, TraceReader

READABLE_EVENTS: Final = 400
"""Most events of an engine that can be distinguished in a figure of two columns."""
_ROWS_PER_EVENT: Final = 8
"""Most stored rows per event of a window, as equal consecutive rows are one event."""
_TWINS: Final = 8
"""Most segments of one period that are tried, the earliest first."""


@dataclass(frozen=True)
class CycleWindow:
    """The cycles from ``start`` up to ``end``; the last ``period_cycles`` may be a steady period.

    ``times``: how often the run repeats that period in a row; 0 if there is none.
    """

    start: int
    end: int
    period_cycles: int = 0
    times: int = 0


@dataclass(frozen=True)
class _PlacedSegment:
    """A segment, and the first cycle that may belong to its fill."""

    segment: RepeatedSegment
    earliest: int


def selected_window(
    trace: TraceReader, start: int | None, end: int | None, operator: str | None = None
) -> CycleWindow:
    """Return the window from ``start`` up to ``end``, or the default one if both are None.

    Raises:
        TraceError: it is no part of the run.
        InputError: the trace has no such operator.
    """
    if operator is not None:
        require_operator(trace, operator)
    if start is None and end is None:
        return default_window(trace, operator)
    return CycleWindow(*trace.require_window(start or 0, end))


def require_operator(trace: TraceReader, operator: str) -> None:
    """Refuse an operator that the trace doesn't have.

    Raises:
        InputError: it names those that there are.
    """
    known = {site.operator for site in trace.header.sites.values()}
    if operator not in known:
        allowed = suggest(operator, sorted(known))
        raise InputError([Fault(str(trace.path), "operator", operator, allowed)])


def default_window(trace: TraceReader, operator: str | None = None) -> CycleWindow:
    """Return the readable steady period with most cycles, and its fill.

    ``operator`` selects a period with events of that operator. If no period is readable with its
    fill, the window is a period alone, or the readable beginning of the first one.
    """
    roots = trace.segments()
    alone: list[CycleWindow] = []
    heaviest = None
    for root in _by_weight(trace, roots, operator):
        heaviest = heaviest or root
        places = list(_places(roots, _begin(trace, root, 0)))
        window = _search(trace, root, operator, places, alone)
        if window or alone:
            return window or alone[0]
    start, end = (0, trace.cycles) if heaviest is None else _period(heaviest)
    return _readable(trace, *_span(trace, operator, start, end))


def _search(
    trace: TraceReader,
    segment: RepeatedSegment,
    operator: str | None,
    places: Sequence[_PlacedSegment],
    alone: list[CycleWindow],
) -> CycleWindow | None:
    """Find a readable period with its fill: of a segment, or else of those inside.

    Readable periods whose fill is too long are added to ``alone``.
    """
    if _is_readable(trace, *_period(segment)):
        for place in _similar_segments(trace, places, segment):
            window = _with_fill(trace, place)
            if _is_readable(trace, window.start, window.end):
                return window
        alone.append(_with_fill(trace, _PlacedSegment(segment, segment.start)))
    for child in _by_weight(trace, segment.children, operator):
        inner = _search(trace, child, operator, places, alone)
        if inner is not None:
            return inner
    return None


def _period(segment: RepeatedSegment) -> tuple[int, int]:
    return segment.start, segment.start + segment.period_cycles


def _similar_segments(
    trace: TraceReader, places: Sequence[_PlacedSegment], chosen: RepeatedSegment
) -> Iterator[_PlacedSegment]:
    """Return segments that do what the chosen one does, the earliest first, and that one last."""
    own = [place for place in places if place.segment == chosen]
    same = [place for place in places if place.segment.period_cycles == chosen.period_cycles]
    operators = _operators(trace, chosen)
    for place in same[:_TWINS]:
        if _operators(trace, place.segment) == operators:
            yield place
    yield from own


def _by_weight(
    trace: TraceReader, segments: Sequence[RepeatedSegment], operator: str | None
) -> Iterator[RepeatedSegment]:
    """Return the first segment of each period, those with most cycles in all of them first."""
    by_period: dict[int, list[RepeatedSegment]] = defaultdict(list)
    for segment in segments:
        by_period[segment.period_cycles].append(segment)
    for group in sorted(by_period.values(), key=lambda group: -sum(s.end - s.start for s in group)):
        for segment in group:
            if operator is None or operator in _operators(trace, segment):
                yield segment
                break


def _operators(trace: TraceReader, segment: RepeatedSegment) -> set[str]:
    return operators_in_window(trace, *_period(segment))


def operators_in_window(trace: TraceReader, start: int, end: int) -> set[str]:
    """Return the operators that an engine works on from cycle ``start`` up to ``end``.

    An engine that is idle or waits may have the site of a command that ended long ago.
    """
    rows = trace.account(("operator", "cause"), start, end)
    return {row.operator for row in rows if row.cause == "busy"}


def _places(segments: Sequence[RepeatedSegment], earliest: int) -> Iterator[_PlacedSegment]:
    """Return all segments from a cycle on, those that begin first before others."""
    for segment in segments:
        if segment.end > earliest:
            if segment.start >= earliest:
                yield _PlacedSegment(segment, earliest)
            yield from _places(segment.children, max(earliest, segment.start))


def _with_fill(trace: TraceReader, place: _PlacedSegment) -> CycleWindow:
    segment = place.segment
    begin, (_, end) = _begin(trace, segment, place.earliest), _period(segment)
    return CycleWindow(begin, end, segment.period_cycles, segment.repeats + 1)


def _begin(trace: TraceReader, segment: RepeatedSegment, earliest: int) -> int:
    """Return the first cycle from which only the segment's operators run."""
    operators = _operators(trace, segment)

    def is_alone(cycle: int) -> bool:
        return operators_in_window(trace, cycle, segment.start) <= operators

    return bisect_left(range(segment.start), x=True, lo=earliest, key=is_alone)


def _is_readable(trace: TraceReader, start: int, end: int) -> bool:
    rows = _ROWS_PER_EVENT * READABLE_EVENTS
    try:
        return all(
            len(trace.events(start, end, engine, at_most=rows)) <= READABLE_EVENTS
            for engine in trace.engines
        )
    except TraceError:
        return False


def _readable(trace: TraceReader, start: int, end: int) -> CycleWindow:
    unreadable = bisect_left(
        range(start + 1, end + 1), x=True, key=lambda cycle: not _is_readable(trace, start, cycle)
    )
    return CycleWindow(start, start + max(unreadable, 1))


def operator_span(trace: TraceReader, operator: str | None) -> tuple[int, int]:
    """Return the first cycle of work on an operator, and the cycle after the last."""
    return _span(trace, operator, 0, trace.cycles)


def _span(trace: TraceReader, operator: str | None, start: int, end: int) -> tuple[int, int]:
    """Return the first cycle of some that works on an operator, and the one after the last."""
    if operator is None:
        return start, end
    cycles = range(start, end)

    def has_begun(cycle: int) -> bool:
        return operator in operators_in_window(trace, start, cycle + 1)

    def is_over(cycle: int) -> bool:
        return operator not in operators_in_window(trace, cycle, end)

    return (
        start + bisect_left(cycles, x=True, key=has_begun),
        start + bisect_left(cycles, x=True, key=is_over),
    )


@dataclass(frozen=True)
class ShownWindow:
    """The part of a trace that is drawn.

    Attributes:
        window: the cycles of figures that look closely.
        whole: the first cycle of the others, and the cycle after the last one.
        engine: whose stalls are stacked.
    """

    window: CycleWindow
    whole: tuple[int, int]
    engine: str

    def cycles(self, kind: str) -> tuple[int, int]:
        """Return the first cycle that a kind of figure shows, and the cycle after the last."""
        close = kind in ("timeline", "occupancy")
        return (self.window.start, self.window.end) if close else self.whole


@dataclass(frozen=True)
class Panel:
    """An element of a figure.

    Attributes:
        title: text above it.
        height_inches: preferred height, without title and legend.
        keys: entries of its legend.
        draw: draws it into a figure.
    """

    title: str
    height_inches: float
    keys: Sequence[Artist]
    draw: Callable[[SubFigure], None]


def mark_period(axes: Axes, window: CycleWindow) -> None:
    """Draw a dashed line where the steady period of a window begins."""
    if window.times:
        begins = window.end - window.period_cycles - window.start
        axes.axvline(begins, color="#000000", linestyle="--", linewidth=0.8)


def part_text(trace: TraceReader, start: int, end: int) -> str:
    """Return which part of a run is shown, in cycles and in time."""
    hz = trace.accelerator().clock_hz
    all_cycles, time, run = (
        f"{trace.cycles:,}",
        seconds_text((end - start) / hz),
        seconds_text(trace.cycles / hz),
    )
    if (start, end) == (0, trace.cycles):
        return f"all {all_cycles} cycles ({_whole(time)})"
    part = f"cycles {start:,} to {end:,} of {all_cycles}"
    return f"{part} ({_whole(time)} of {_whole(run)})"


def _whole(text: str) -> str:
    """Keep a number and its unit on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")
