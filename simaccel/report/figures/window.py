"""Which cycles a figure shows when nobody says: one steady period with the fill before it.

A trace knows what repeats: its segments. The segments of one period in which the run spends most
of its cycles are its steady state. If one of their periods, with all that comes before it since
the operator began, is more than an eye can part, the period inside it is looked at, and so on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from simaccel.errors import Fault, InputError, suggest
from simaccel.trace import Stretch, Trace, TraceError

READABLE_EVENTS: Final = 400
"""Events of one engine that can be told apart in a figure of two columns."""
_ROWS_PER_EVENT: Final = 8
"""A window may have more stored rows than events, as rows that say the same are one event."""
_TWINS: Final = 8
"""So many segments of one period are tried, the earliest first."""


@dataclass(frozen=True)
class Window:
    """The cycles from ``start`` up to ``end``; the last ``period_cycles`` may be a steady period.

    ``times``: how often the run does that period in a row; 0 where there is none.
    """

    start: int
    end: int
    period_cycles: int = 0
    times: int = 0


@dataclass(frozen=True)
class _Place:
    """A segment, and the cycle from which on what comes before it is its fill."""

    segment: Stretch
    fill_start: int

    @property
    def window(self) -> Window:
        """One period with its fill."""
        first, period = self.segment.start, self.segment.period_cycles
        return Window(self.fill_start, first + period, period, self.segment.repeats + 1)


def asked_window(
    trace: Trace, start: int | None, end: int | None, operator: str | None = None
) -> Window:
    """Give the window from ``start`` up to ``end``, or where both are None the default one.

    Raises:
        InputError: it is no part of the run, or the trace has no such operator.

    """
    if operator is not None:
        require_operator(trace, operator)
    if start is None and end is None:
        return default_window(trace, operator)
    first = 0 if start is None else start
    last = trace.cycles if end is None else end
    where = str(trace.path)
    faults = []
    if not 0 <= first < trace.cycles:
        allowed = f"a cycle of the run, 0 to {trace.cycles - 1}"
        faults.append(Fault(where, "first cycle", first, allowed))
    if not max(first, 0) < last <= trace.cycles:
        allowed = f"a cycle after the first one, up to {trace.cycles}"
        faults.append(Fault(where, "last cycle", last, allowed))
    if faults:
        raise InputError(faults)
    return Window(first, last)


def require_operator(trace: Trace, operator: str) -> None:
    """Refuse an operator that the trace does not have.

    Raises:
        InputError: it names those that there are.

    """
    known = {site.operator for site in trace.header.sites.values()}
    if operator not in known:
        allowed = suggest(operator, sorted(known))
        raise InputError([Fault(str(trace.path), "operator", operator, allowed)])


def default_window(trace: Trace, operator: str | None = None) -> Window:
    """Choose the window: the steady period with most cycles that is readable, and its fill.

    ``operator`` asks for a period that has something of that operator.
    """
    roots = list(trace.segments())
    root = _heaviest(trace, roots, operator)
    if root is None:
        return _readable(trace, Window(*operator_span(trace, operator)))
    fill_start = _fill_start(trace, root)
    places = list(_places(roots, fill_start))
    chosen: Stretch | None = root
    while chosen is not None:
        last = chosen
        twins = [p for p in places if p.segment.period_cycles == chosen.period_cycles]
        own = [p for p in twins if p.segment == chosen]
        for place in [*twins[:_TWINS], *own]:
            if _is_readable(trace, place.window):
                return place.window
        chosen = _heaviest(trace, chosen.children, operator)
    alone = Window(
        last.start, last.start + last.period_cycles, last.period_cycles, last.repeats + 1
    )
    return _readable(trace, alone)


def _heaviest(trace: Trace, segments: Sequence[Stretch], operator: str | None) -> Stretch | None:
    """Give the first of the segments whose period has most cycles in all of them."""
    by_period: dict[int, list[Stretch]] = defaultdict(list)
    for segment in segments:
        by_period[segment.period_cycles].append(segment)
    groups = sorted(by_period.values(), key=lambda group: -sum(s.end - s.start for s in group))
    for group in groups:
        for segment in group:
            if operator is None or operator in _operators(trace, segment):
                return segment
    return None


def _operators(trace: Trace, segment: Stretch) -> set[str]:
    return worked_on(trace, segment.start, segment.start + segment.period_cycles)


def worked_on(trace: Trace, start: int, end: int) -> set[str]:
    """Give the operators that an engine works on from cycle ``start`` up to ``end``.

    An engine that idles or waits may have the site of a command that is long done.
    """
    rows = trace.account(("operator", "cause"), start, end)
    return {row.operator for row in rows if row.cause == "busy"}


def _places(segments: Sequence[Stretch], fill_start: int) -> Iterator[_Place]:
    """Give all segments from a cycle on, those that begin first before others."""
    for segment in segments:
        if segment.end > fill_start:
            if segment.start >= fill_start:
                yield _Place(segment, fill_start)
            yield from _places(segment.children, max(fill_start, segment.start))


def _fill_start(trace: Trace, segment: Stretch) -> int:
    """Give the cycle from which on nothing but a segment's operators is worked on before it."""
    operators = _operators(trace, segment)

    def alone(cycle: int) -> bool:
        return worked_on(trace, cycle, segment.start) <= operators

    return bisect_left(range(segment.start), x=True, key=alone)


def _is_readable(trace: Trace, window: Window) -> bool:
    rows = _ROWS_PER_EVENT * READABLE_EVENTS
    try:
        return all(
            len(trace.events(window.start, window.end, engine, at_most=rows)) <= READABLE_EVENTS
            for engine in trace.engines
        )
    except TraceError:
        return False


def _readable(trace: Trace, window: Window) -> Window:
    """Cut a window off behind what is readable."""
    if _is_readable(trace, window):
        return window
    low, high = window.start + 1, window.end
    while low < high:
        middle = (low + high + 1) // 2
        if _is_readable(trace, Window(window.start, middle)):
            low = middle
        else:
            high = middle - 1
    return Window(window.start, low)


def operator_span(trace: Trace, operator: str | None) -> tuple[int, int]:
    """Give the first cycle that works on an operator, and the cycle after the last one."""
    if operator is None:
        return 0, trace.cycles
    cycles = range(trace.cycles)

    def begun(cycle: int) -> bool:
        return operator in worked_on(trace, 0, cycle + 1)

    def over(cycle: int) -> bool:
        return operator not in worked_on(trace, cycle, trace.cycles)

    return bisect_left(cycles, x=True, key=begun), bisect_left(cycles, x=True, key=over)
