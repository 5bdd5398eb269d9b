"""The default window: one steady period that can be read, and the fill before it."""

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

from simaccel.errors import InputError
from simaccel.report.figures.window import (
    READABLE_EVENTS,
    CycleWindow,
    default_window,
    operator_span,
    operators_in_window,
    selected_window,
)
from simaccel.trace import CommandSite, RepeatedSegment, Stall, TraceError, TraceReader


@dataclass
class Plain:
    """A trace of one engine that is never unrolled: what a window asks of a trace, by hand.

    ``work`` lists the operators in order of time, each with its first cycle. An event of the
    engine begins every ``event_cycles``.
    """

    cycles: int
    stretches: list[RepeatedSegment]
    event_cycles: int = 10
    work: dict[str, int] = field(default_factory=lambda: {"X": 0})
    engines: tuple[str, ...] = ("array",)
    path: str = "plain.h5"

    @property
    def header(self) -> "Plain":
        """Where the sites are: here."""
        return self

    @property
    def sites(self) -> dict[int, CommandSite]:
        """One command of each operator."""
        return dict(enumerate(CommandSite(name, "") for name in self.work))

    def segments(self) -> list[RepeatedSegment]:
        """What repeats."""
        return self.stretches

    def events(self, start: int, end: int, lane: str, at_most: int) -> np.ndarray:
        """As many events as begin or go on in a window."""
        assert lane in self.engines
        n = -(-end // self.event_cycles) - start // self.event_cycles
        if n > at_most:
            raise TraceError(cast("Any", self.path), "too many", "fewer")
        return np.zeros(n)

    def account(self, by: tuple[str, ...], start: int, end: int) -> list[Stall]:
        """Whose work overlaps a window."""
        assert by == ("operator", "cause")
        assert 0 <= start < end <= self.cycles
        firsts = [*self.work.values(), self.cycles]
        return [
            Stall("", name, "busy", "", "", "", 1)
            for name, first, last in zip(self.work, firsts[:-1], firsts[1:], strict=True)
            if first < end and start < last
        ]


def default_of(plain: Plain, operator: str | None = None) -> CycleWindow:
    return default_window(cast("TraceReader", plain), operator)


def stretch(start: int, period: int, times: int, *children: RepeatedSegment) -> RepeatedSegment:
    return RepeatedSegment(start, start + period * times, period, times - 1, children)


def test_a_steady_period_and_all_before_it() -> None:
    plain = Plain(100_000, [stretch(700, 300, 300)])
    assert default_of(plain) == CycleWindow(0, 1000, 300, 300)


def test_the_fill_begins_where_its_operator_begins() -> None:
    plain = Plain(100_000, [stretch(50_700, 300, 100)], work={"X": 0, "Y": 50_123})
    assert default_of(plain) == CycleWindow(50_123, 51_000, 300, 100)


def test_the_period_with_most_cycles_wins() -> None:
    short, long = stretch(500, 100, 10), stretch(5000, 100, 20)
    other = stretch(10_000, 400, 5)
    # Periods of 100 have 3,000 cycles together, that of 400 has 2,000: too far away for its fill.
    assert default_of(Plain(12_000, [short, long, other])) == CycleWindow(0, 600, 100, 10)
    assert default_of(Plain(12_000, [short, other])) == CycleWindow(10_000, 10_400, 400, 5)


def test_a_period_that_nobody_can_read_gives_way_to_the_one_inside() -> None:
    """4,000 cycles are 400 events: the outer period is too long, with its fill even more."""
    inner = stretch(60_300, 200, 30)
    plain = Plain(10**12, [stretch(60_000, 10_000, 90_000_000, inner)])
    assert default_of(plain) == CycleWindow(60_000, 60_500, 200, 30)


def test_the_same_period_earlier_in_the_fill_shows_the_start_as_well() -> None:
    inner, early = stretch(60_300, 200, 30), stretch(800, 200, 30)
    plain = Plain(10**12, [early, stretch(60_000, 10_000, 90_000_000, inner)])
    assert default_of(plain) == CycleWindow(0, 1000, 200, 30)


def test_the_fill_inside_of_a_long_period_begins_with_the_operator() -> None:
    """A period is X and Y once each; Y has its own beginning in it."""
    inner = stretch(70_300, 200, 30)
    layers = stretch(60_000, 100_000, 10**6, inner)
    plain = Plain(10**12, [layers], work={"W": 0, "X": 60_000, "Y": 70_100})
    assert default_of(plain) == CycleWindow(70_100, 70_500, 200, 30)


@pytest.mark.parametrize(("n", "readable"), [(READABLE_EVENTS, True), (READABLE_EVENTS + 1, False)])
def test_what_can_be_read(n: int, readable: bool) -> None:  # noqa: FBT001 - a parameter
    """A window of ``n`` events, of which the period is ten; then its first period stands alone."""
    first = 10 * n - 100
    plain = Plain(10**6, [stretch(first, 100, 50)])
    whole, alone = CycleWindow(0, first + 100, 100, 50), CycleWindow(first, first + 100, 100, 50)
    assert default_of(plain) == (whole if readable else alone)


def test_without_any_repetition_the_beginning_is_shown() -> None:
    assert default_of(Plain(3000, [])) == CycleWindow(0, 3000)
    assert default_of(Plain(10**12, [])) == CycleWindow(0, 10 * READABLE_EVENTS)


def test_an_endless_period_without_another_inside_is_cut() -> None:
    plain = Plain(10**12, [stretch(1000, 10**10, 50)])
    assert default_of(plain) == CycleWindow(1000, 1000 + 10 * READABLE_EVENTS)


def test_an_operator_has_its_own_period() -> None:
    plain = Plain(
        10**6, [stretch(700, 300, 3000), stretch(950_000, 50, 200)], work={"X": 0, "Y": 949_000}
    )
    assert default_of(plain) == default_of(plain, "X") == CycleWindow(0, 1000, 300, 3000)
    assert default_of(plain, "Y") == CycleWindow(949_000, 950_050, 50, 200)


def test_a_twin_does_what_the_chosen_period_does() -> None:
    """X has a period of the same length; the one of Y is asked for."""
    inner = stretch(70_300, 200, 30)
    plain = Plain(
        10**12,
        [stretch(800, 200, 30), stretch(60_000, 10_000_000, 90_000, inner)],
        work={"X": 0, "Y": 70_100},
    )
    assert default_of(plain, "Y") == CycleWindow(70_100, 70_500, 200, 30)
    assert default_of(plain, "X") == CycleWindow(0, 1000, 200, 30)


def test_an_operator_deep_in_an_unreadable_period_is_shown_from_where_it_begins() -> None:
    plain = Plain(10**12, [stretch(1000, 10**6, 9)], work={"X": 0, "Y": 500_000})
    assert default_of(plain, "Y") == CycleWindow(500_000, 500_000 + 10 * READABLE_EVENTS)
    assert default_of(plain, "X") == CycleWindow(1000, 1000 + 10 * READABLE_EVENTS)
    plain.work = {"X": 0, "Y": 500_000, "Z": 500_700}
    assert default_of(plain, "Y") == CycleWindow(500_000, 500_700)


def test_a_lighter_period_that_can_be_read_comes_before_a_heavy_one_that_cannot() -> None:
    plain = Plain(10**12, [stretch(800, 200, 30), stretch(60_000, 10_000_000, 90_000)])
    assert default_of(plain) == CycleWindow(0, 1000, 200, 30)


def test_an_operator_that_does_not_repeat_is_shown_from_its_beginning() -> None:
    plain = Plain(10**6, [stretch(700, 300, 2000)], work={"X": 0, "Y": 949_000, "Z": 949_600})
    assert default_of(plain, "Y") == CycleWindow(949_000, 949_600)
    assert default_of(plain, "Z") == CycleWindow(949_600, 949_600 + 10 * READABLE_EVENTS)


def test_the_edge_trace_shows_its_fill_and_one_of_764_periods(edge: TraceReader) -> None:
    """By the file: one stretch of 33,266 cycles from cycle 34,733 on, in the only operator."""
    longest = max(edge.segments(), key=lambda one: one.end - one.start)
    assert (longest.start, longest.period_cycles, longest.repeats) == (34_733, 33_266, 763)
    assert default_window(edge) == CycleWindow(0, 34_733 + 33_266, 33_266, 764)
    assert default_window(edge, "L+softmax+A") == default_window(edge)


def test_a_toy_is_shown_whole(toy: TraceReader) -> None:
    assert default_window(toy) == CycleWindow(0, toy.cycles)


def test_an_operator_is_worked_on_from_its_first_busy_cycle_to_its_last(trace: TraceReader) -> None:
    (name,) = {site.operator for site in trace.header.sites.values()}
    events = [one for one in trace.decode(trace.events(0, 20_000)) if one.cause == "busy"]
    first, last = operator_span(trace, name)
    assert first == min(one.start for one in events)
    tail = trace.decode(trace.events(max(0, trace.cycles - 20_000), trace.cycles))
    assert last == max(one.end for one in tail if one.cause == "busy")
    assert operators_in_window(trace, first, last) == {name}
    assert operator_span(trace, None) == (0, trace.cycles)


@pytest.mark.parametrize(("start", "end"), [(-1, None), (469, None), (None, 470), (7, 7), (-5, 0)])
def test_a_window_outside_of_the_run_is_refused(
    toy: TraceReader, start: int | None, end: int | None
) -> None:
    last = toy.cycles if end is None else end
    fault = rf"_flat.h5: cycles {start or 0} to {last}; allowed: a part of cycles 0 to 469"
    with pytest.raises(TraceError, match=fault):
        selected_window(toy, start, end)


def test_an_open_window_goes_to_the_border_of_the_run(toy: TraceReader) -> None:
    assert selected_window(toy, 460, None) == CycleWindow(460, toy.cycles)
    assert selected_window(toy, None, 1) == CycleWindow(0, 1)
    with pytest.raises(InputError, match=r"operator: got 'L\+sofmax'; did you mean 'L\+"):
        selected_window(toy, None, None, "L+sofmax")
