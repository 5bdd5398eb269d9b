"""The timeline draws the events of the window, all of them and nothing else."""

import itertools
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from simaccel.report.figures.style import CAUSE_COLOURS, new_figure, style
from simaccel.report.figures.timeline import (
    BINS,
    BinnedTimeline,
    EngineLane,
    Timeline,
    draw_timeline,
    timeline,
)
from simaccel.trace import TraceReader
from tests.report.figures.painted import painted, steps

HEIGHT = 0.8


def window_of(trace: TraceReader) -> tuple[int, int]:
    """A window that cuts events at both ends."""
    return 17, min(trace.cycles, 40_000) - 13


def test_bars_paint_every_cycle_as_the_events_do(trace: TraceReader) -> None:
    start, end = window_of(trace)
    drawn = timeline(trace, start, end)
    assert isinstance(drawn, Timeline)
    assert [lane.name for lane in drawn.lanes] == list(trace.engines)
    for lane in drawn.lanes:
        found = np.full(end - start, -1)
        for cause, bars in lane.bars.items():
            for first, length in bars:
                assert length > 0
                found[first - start : first - start + length] = trace.tables["causes"].index(cause)
        np.testing.assert_array_equal(found, painted(trace, start, end, lane.name))
        n_bars = sum(map(len, lane.bars.values()))
        assert n_bars == len(trace.events(start, end, lane.name))


def bars_of(axes: Axes) -> set[tuple[str, int, int, str]]:
    """What is drawn: lane, first cycle, cycle after the last one, colour."""
    found = set()
    names = [label.get_text() for label in axes.get_yticklabels()]
    for collection in axes.collections:
        assert isinstance(collection, PolyCollection)
        (colour,) = np.asarray(collection.get_facecolor())
        for path in collection.get_paths():
            corners = np.asarray(path.vertices)
            (left, low), (right, high) = corners.min(axis=0), corners.max(axis=0)
            assert high - low == pytest.approx(HEIGHT)
            shade = "#" + "".join(f"{round(255 * float(part)):02X}" for part in colour[:3])
            found.add((names[round((low + high) / 2)], round(left), round(right), shade))
    return found


def test_the_artists_are_the_events(trace: TraceReader) -> None:
    start, end = window_of(trace)
    with style():
        axes = new_figure(7, 3).subplots()
        draw_timeline(axes, timeline(trace, start, end))
    expected = {
        (
            name,
            max(event.start, start) - start,
            min(event.end, end) - start,
            CAUSE_COLOURS[event.cause][0],
        )
        for name in trace.engines
        for event in trace.decode(trace.events(start, end, name))
    }
    assert bars_of(axes) == expected
    assert axes.get_xlim() == (0, end - start)
    assert axes.get_xlabel() == f"time (cycles after cycle {start})"
    assert axes.get_ylabel() == "engine"


def test_a_lane_lies_on_the_colour_that_it_has_most_of() -> None:
    even = {"busy": np.array([[0, 40], [90, 10]]), "sfu": np.array([[40, 50]])}
    more = {"busy": np.array([[0, 39], [90, 10]]), "sfu": np.array([[39, 51]])}
    with style():
        axes = new_figure(7, 3).subplots()
        draw_timeline(axes, Timeline(0, 100, (EngineLane("array", even), EngineLane("dma", more))))
    bars = [one for one in axes.patches if isinstance(one, Rectangle)]
    below = [(one.get_x(), one.get_width(), to_hex(one.get_facecolor())) for one in bars]
    shades = [CAUSE_COLOURS[cause][0].lower() for cause in ("busy", "sfu")]
    assert below == [(0, 100, shade) for shade in shades]


def test_narrow_bars_have_no_hatch() -> None:
    """0.02 in of 7 in are 10 of 3,500 cycles."""
    waits = {"sfu": np.array([[100, 9], [200, 10], [300, 500]])}
    with style():
        axes = new_figure(7, 3).subplots()
        draw_timeline(axes, Timeline(0, 3500, (EngineLane("array", waits),)))
    hatched, plain = axes.collections
    assert hatched.get_hatch() == CAUSE_COLOURS["sfu"][1]
    assert not plain.get_hatch()
    assert [len(one.get_paths()) for one in (hatched, plain)] == [2, 1]


def test_more_bars_than_asked_for_are_bins(toy: TraceReader) -> None:
    most = max(len(toy.events(lane=engine)) for engine in toy.engines)
    assert isinstance(timeline(toy, 0, toy.cycles, most_bars=2 * most), Timeline)
    assert isinstance(timeline(toy, 0, toy.cycles, most_bars=most - 1), BinnedTimeline)


def test_bins_hold_the_share_of_their_cycles(toy: TraceReader) -> None:
    start, end = 3, toy.cycles
    drawn = timeline(toy, start, end, most_bars=1)
    assert isinstance(drawn, BinnedTimeline)
    assert (drawn.start, drawn.end) == (start, end)
    edges = drawn.utilisation.edges
    assert len(edges) == BINS + 1
    with style():
        axes = new_figure(7, 3).subplots()
        draw_timeline(axes, drawn)
    for at, engine in enumerate(toy.engines):
        cycles = painted(toy, start, end, engine)
        for number, cause in enumerate(toy.tables["causes"]):
            expected = [
                np.mean(cycles[a - start : b - start] == number)
                for a, b in itertools.pairwise(edges)
            ]
            found = [
                data
                for label, data in steps(axes)
                if label == cause and abs(data.values.max() - at) < 0.5
            ]
            assert len(found) == any(expected)
            for data in found:
                np.testing.assert_allclose((data.baseline - data.values) / HEIGHT, expected)
                np.testing.assert_array_equal(data.edges, edges - start)


def test_bins_fill_their_lanes(toy: TraceReader) -> None:
    """Busy stands on the lane's lower edge, and the causes together reach the upper one."""
    with style():
        axes = new_figure(7, 3).subplots()
        draw_timeline(axes, timeline(toy, 0, toy.cycles, most_bars=1))
    levels: dict[int, list[Any]] = {}
    for _, data in steps(axes):
        lane = round(float(data.values.mean()))
        levels.setdefault(lane, []).append(data)
    for lane, stack in levels.items():
        np.testing.assert_allclose(stack[0].baseline, lane + HEIGHT / 2)
        np.testing.assert_allclose(stack[-1].values, lane - HEIGHT / 2)
        for lower, upper in itertools.pairwise(stack):
            np.testing.assert_array_equal(lower.values, upper.baseline)


def test_a_long_run_is_bins_and_expands_nothing(edge: TraceReader) -> None:
    drawn = timeline(edge, 0, edge.cycles)
    assert isinstance(drawn, BinnedTimeline)
    array = drawn.utilisation.cycles[edge.engines.index("array")]
    busy = array[edge.tables["causes"].index("busy")].sum()
    assert busy == edge.totals["array"].busy
    assert drawn.causes[0] == "busy"
