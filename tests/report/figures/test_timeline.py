"""Timelines, bandwidths and occupancy of a window: all events, and names where they fit."""

import itertools
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox

from simaccel.importers.accelerators import load_accelerator
from simaccel.report.figures.bandwidth import BINS as BANDWIDTH_BINS
from simaccel.report.figures.bandwidth import ResourceRate, draw_flows, flows
from simaccel.report.figures.names import Name, name_places
from simaccel.report.figures.occupancy import BINS as OCCUPANCY_BINS
from simaccel.report.figures.occupancy import (
    MOST_TILES,
    BufferOccupancy,
    draw_occupied,
    occupancy_panel,
    occupied_bytes,
)
from simaccel.report.figures.style import CAUSE_COLOURS, new_figure, style
from simaccel.report.figures.timeline import BINS, Timeline, draw_timeline, timeline
from simaccel.report.figures.window import CycleWindow, ShownWindow
from simaccel.study.recording import record
from simaccel.trace import TraceReader, UtilisationSeries
from simaccel.workload import gemm
from tests.report.figures.painted import Cycles, painted, steps

HEIGHT = 0.8


def window_of(trace: TraceReader) -> tuple[int, int]:
    """A window that cuts events at both ends."""
    return 17, min(trace.cycles, 40_000) - 13


def test_bars_paint_every_cycle_as_the_events_do(trace: TraceReader) -> None:
    start, end = window_of(trace)
    drawn = timeline(trace, start, end)
    assert isinstance(drawn, Timeline)
    assert list(drawn.lanes) == list(trace.engines)
    for name, lane in drawn.lanes.items():
        found = np.full(end - start, -1)
        for cause, bars in lane.items():
            for first, length in bars:
                assert length > 0
                found[first - start : first - start + length] = trace.tables["causes"].index(cause)
        np.testing.assert_array_equal(found, painted(trace, start, end, name))
        n_bars = sum(map(len, lane.values()))
        assert n_bars == len(trace.events(start, end, name))


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
        draw_timeline(axes, Timeline(0, 100, {"array": even, "dma": more}))
    bars = [one for one in axes.patches if isinstance(one, Rectangle)]
    below = [(one.get_x(), one.get_width(), to_hex(one.get_facecolor())) for one in bars]
    shades = [CAUSE_COLOURS[cause][0].lower() for cause in ("busy", "sfu")]
    assert below == [(0, 100, shade) for shade in shades]


def test_narrow_bars_have_no_hatch() -> None:
    """0.02 in of 7 in are 10 of 3,500 cycles."""
    waits = {"sfu": np.array([[100, 9], [200, 10], [300, 500]])}
    with style():
        axes = new_figure(7, 3).subplots()
        draw_timeline(axes, Timeline(0, 3500, {"array": waits}))
    hatched, plain = axes.collections
    assert hatched.get_hatch() == CAUSE_COLOURS["sfu"][1]
    assert not plain.get_hatch()
    assert [len(one.get_paths()) for one in (hatched, plain)] == [2, 1]


def test_more_bars_than_asked_for_are_bins(toy: TraceReader) -> None:
    most = max(len(toy.events(lane=engine)) for engine in toy.engines)
    assert isinstance(timeline(toy, 0, toy.cycles, most_bars=2 * most), Timeline)
    assert isinstance(timeline(toy, 0, toy.cycles, most_bars=most - 1), UtilisationSeries)


def test_bins_hold_the_share_of_their_cycles(toy: TraceReader) -> None:
    start, end = 3, toy.cycles
    drawn = timeline(toy, start, end, most_bars=1)
    assert isinstance(drawn, UtilisationSeries)
    edges = drawn.edges
    assert (edges[0], edges[-1]) == (start, end)
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
    assert isinstance(drawn, UtilisationSeries)
    array = drawn.cycles[edge.engines.index("array")]
    busy = array[edge.tables["causes"].index("busy")].sum()
    assert busy == edge.totals["array"].busy


_INCHES = (6.3, 3.2)


def _named(points: list[tuple[str, tuple[float, float]]]) -> Axes:
    with style():
        axes = Figure(figsize=_INCHES, dpi=200).add_axes((0.08, 0.18, 0.84, 0.75))
        axes.set(xlim=(0, 1), ylim=(0, 1))
        xs, ys = zip(*(place for _, place in points), strict=True)
        axes.scatter(xs, ys, s=4)
        name_places(axes, [Name(*point) for point in points], len(points))
    return axes


def _boxes(axes: Axes) -> dict[str, Bbox]:
    with style():
        return {text.get_text(): text.get_window_extent() for text in axes.texts}


@pytest.mark.parametrize("seed", range(5))
def test_names_lie_on_no_other_name_and_inside_of_the_axes(seed: int) -> None:
    draw = np.random.default_rng(seed)
    points = [(f"layer{at}", (draw.uniform(0.2, 0.9), draw.choice([0.7, 0.3]))) for at in range(12)]
    axes = _named(points)
    boxes = _boxes(axes)
    assert len(boxes) >= 6
    whole = axes.get_window_extent()
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 for box in boxes.values())
    pairs = itertools.combinations(boxes.values(), 2)
    assert not any(one.overlaps(other) for one, other in pairs)
    marks = axes.transData.transform([place for _, place in points])
    assert not any(box.contains(x, y) for box in boxes.values() for x, y in marks)


def test_points_at_one_place_have_one_name_and_a_crowded_one_has_a_line() -> None:
    crowd = [
        ("Q", (0.5, 0.5)),
        ("K", (0.501, 0.5)),
        ("FF1", (0.53, 0.5)),
        ("FF2", (0.56, 0.5)),
        ("alone", (0.9, 0.1)),
    ]
    axes = _named([*crowd, ("alone", (0.9, 0.1))])
    assert sorted(_boxes(axes)) == ["FF1", "FF2", "Q, K", "alone"]
    assert len(axes.lines) == 1  # FF1, with points on both sides, has no room right beside it


RESOURCES = ["dram", "buffer_read", "buffer_write", "noc_distribution", "noc_collection"]


def test_flows_sum_to_the_bytes_that_the_run_moved(trace: TraceReader) -> None:
    found = flows(trace, 0, trace.cycles)
    assert [flow.name for flow in found] == RESOURCES
    moved = trace.figures["bytes"]
    for flow in found:
        level, _, way = flow.name.partition("_")
        ways = [way] if way else ["read", "write"]
        expected = sum(sum(moved[level][each].values()) for each in ways)
        cycles = np.diff(flow.edges)
        assert (flow.bytes_per_cycle * cycles).sum() == pytest.approx(expected, rel=1e-12)
        assert len(cycles) == BANDWIDTH_BINS


def test_a_flow_follows_the_service_of_its_channel(toy: TraceReader) -> None:
    """Where a channel is used, and only there, bytes move: bins of 5 cycles or 6, one by one."""
    for flow in flows(toy, 0, toy.cycles, bins=toy.cycles // 5):
        lane = "dram0" if flow.name == "dram" else flow.name
        events = toy.decode(toy.events(lane=lane))
        used = painted(toy, 0, toy.cycles, lane) == toy.tables["causes"].index("busy")
        per_bin = np.add.reduceat(used.astype(int), flow.edges[:-1])
        assert sum(event.served for event in events) <= used.sum()
        assert (flow.bytes_per_cycle[per_bin == 0] == 0).all()
        # A bin may hold the one or two cycles in which a channel turns around.
        assert (flow.bytes_per_cycle[per_bin > 3] > 0).all()


def test_limits_are_those_of_the_accelerator(edge: TraceReader) -> None:
    """50 GB/s and 1 TB/s at 720 MHz; 32 links of 4 bytes."""
    found = {flow.name: flow.limit for flow in flows(edge, 0, edge.cycles)}
    assert found == {
        "dram": pytest.approx(50e9 / 720e6),
        "buffer_read": pytest.approx(1e12 / 720e6),
        "buffer_write": pytest.approx(1e12 / 720e6),
        "noc_distribution": 128,
        "noc_collection": 128,
    }
    for flow in flows(edge, 0, edge.cycles):
        assert flow.limit is not None
        assert flow.bytes_per_cycle.max() <= flow.limit * (1 + 1e-9)


def test_a_plot_that_is_nearly_empty_is_lower() -> None:
    """1.5 of 8 bytes per cycle is less than a fifth, 1.7 is more."""
    edges = np.array([0, 10, 40])
    low, high = (ResourceRate("dram", edges, np.array([1.0, peak]), 8.0) for peak in (1.5, 1.7))
    unlimited = ResourceRate("dram", edges, low.bytes_per_cycle, None)
    assert [flow.is_low for flow in (low, high, unlimited)] == [True, False, False]
    assert low.height_inches < high.height_inches == unlimited.height_inches
    figure = Figure(figsize=(5, 3))
    draw_flows(figure, [low, high], 10**9)
    heights = [axes.get_position().height for axes in figure.axes]
    assert heights[0] / heights[1] == pytest.approx(low.height_inches / high.height_inches)


def test_the_text_says_peak_and_mean() -> None:
    """Ten cycles at 1, thirty at 5 bytes per cycle: 4 on average."""
    edges, rates = np.array([0, 10, 40]), np.array([1.0, 5.0])
    assert ResourceRate("dram", edges, rates, 8.0).text == "DRAM: peak 62%, mean 50% of 8 B/cycle"
    assert ResourceRate("new", edges, rates, 20_000.0).text.endswith("mean 0.0% of 20,000 B/cycle")
    assert ResourceRate("new", edges, rates, None).text == "new memory: unlimited, takes no cycles"


@pytest.fixture
def figure() -> Figure:
    """Two resources, one of which is unlimited, over cycles 100 to 140 at 2 GHz."""
    edges = np.array([100, 110, 140])
    drawn = [
        ResourceRate("dram", edges, np.array([1.0, 5.0]), 8.0),
        ResourceRate("buffer_read", edges, np.array([3.0, 0.0]), None),
    ]
    with style():
        made = new_figure(3.3, 2)
        draw_flows(made, drawn, 2_000_000_000)
        made.draw_without_rendering()
    return made


def test_the_artists_hold_the_rates_and_the_limit(figure: Figure) -> None:
    dram, read = figure.axes
    ((_, data),) = steps(dram)
    np.testing.assert_array_equal(data.values, [1, 5])
    np.testing.assert_array_equal(data.edges, [0, 10, 40])
    (limit,) = dram.lines
    np.testing.assert_array_equal(limit.get_ydata(), 8.0)
    assert dram.get_ylim()[1] > 8
    assert len(read.lines) == 0


def test_axes_have_units_on_both_sides(figure: Figure) -> None:
    dram, read = figure.axes
    assert figure.get_supylabel() == "bytes per cycle"
    assert read.get_xlabel() == "time (cycles after cycle 100)"
    assert {dram.child_axes[0].get_ylabel(), read.child_axes[0].get_ylabel()} == {"", "GB/s"}
    right = dram.child_axes[0].get_ylim()
    assert right == pytest.approx([2 * level for level in dram.get_ylim()])


def held(trace: TraceReader, start: int, end: int) -> dict[str, Cycles]:
    """Bytes by tile in each cycle."""
    return {
        tile.removeprefix("tile "): painted(trace, start, end, tile, "held") for tile in trace.tiles
    }


def test_steps_are_exact_in_every_cycle(trace: TraceReader) -> None:
    start, end = 11, min(trace.cycles, 40_000) - 7
    found = occupied_bytes(trace, start, end)
    assert found.exact
    assert (found.edges[0], found.edges[-1]) == (start, end)
    expected = {tile: n_bytes for tile, n_bytes in held(trace, start, end).items() if n_bytes.any()}
    assert set(found.tiles) == set(expected)
    for tile, n_bytes in zip(found.tiles, found.n_bytes, strict=True):
        np.testing.assert_array_equal(np.repeat(n_bytes, np.diff(found.edges)), expected[tile])


def test_the_highest_step_is_the_peak_of_the_run(toy: TraceReader) -> None:
    found = occupied_bytes(toy, 0, toy.cycles)
    assert found.n_bytes.sum(axis=0).max() == toy.figures["peak_buffer_bytes"]


def test_cores_have_a_buffer_each(tmp_path: Path) -> None:
    path = tmp_path / "cores.h5"
    record(path, gemm(m=64, k=64, n=64), load_accelerator("edge", ["cores.count=2"]), "flex")
    with TraceReader.open(path) as trace:
        window = CycleWindow(0, trace.cycles)
        panel = occupancy_panel(trace, ShownWindow(window, (0, trace.cycles), "array"))
    assert str(panel.keys[0].get_label()).startswith("capacity 2 x 512 KiB")


def test_more_changes_than_asked_for_are_means_of_bins(toy: TraceReader) -> None:
    found = occupied_bytes(toy, 5, toy.cycles, most_steps=1)
    assert not found.exact
    assert len(found.edges) == OCCUPANCY_BINS + 1
    expected = held(toy, 5, toy.cycles)
    for tile, means in zip(found.tiles, found.n_bytes, strict=True):
        by_bin = [expected[tile][a - 5 : b - 5].mean() for a, b in pairwise(found.edges)]
        np.testing.assert_allclose(means, by_bin)


def test_a_long_run_is_bins(edge: TraceReader) -> None:
    found = occupied_bytes(edge, 0, edge.cycles)
    assert not found.exact
    room = edge.accelerator().buffer.capacity_bytes
    assert room is not None
    assert 0 < found.n_bytes.sum(axis=0).max() <= room


class Many:
    """A trace of many tiles: tile ``t`` holds ``t`` bytes in all of its ten cycles."""

    tiles = tuple(f"tile {number}" for number in range(20))

    def events(self, start: int, end: int, lane: str, at_most: int) -> np.ndarray:
        """One event: nothing changes."""
        assert (start, end) == (0, 10)
        assert at_most > 0
        row = (0, 10, int(lane.removeprefix("tile ")))
        return np.array([row], dtype=[("start", "i8"), ("end", "i8"), ("held", "i8")])


def test_many_tiles_are_the_largest_and_the_others() -> None:
    """20 tiles, of which one holds nothing: the 11 largest, 9 to 19, and 8 others."""
    found = occupied_bytes(Many(), 0, 10)  # type: ignore[arg-type]
    assert found.tiles == (*(str(number) for number in range(9, 20)), "8 others")
    assert len(found.tiles) == MOST_TILES + 1
    np.testing.assert_array_equal(found.n_bytes[:, 0], [*range(9, 20), sum(range(9))])
    with style():
        axes = new_figure(7, 2).subplots()
        draw_occupied(axes, found, None)
    looks = [(to_hex(patch.get_facecolor()), patch.get_hatch() or "") for patch in axes.patches]
    assert looks[-1] == ("#bbbbbb", "")
    assert len(set(looks)) == MOST_TILES + 1


@pytest.mark.parametrize("capacity", [4096, None, 1 << 20])
def test_the_artists_are_stacked(capacity: int | None) -> None:
    edges = np.array([10, 20, 50])
    drawn = BufferOccupancy(edges, ("K", "V"), np.array([[1024.0, 0], [2048, 2048]]), exact=True)
    with style():
        axes = new_figure(3.3, 2).subplots()
        draw_occupied(axes, drawn, capacity)
    (one, lower), (other, upper) = steps(axes)
    assert (one, other) == ("K", "V")
    np.testing.assert_array_equal(lower.baseline, [0, 0])
    np.testing.assert_array_equal(lower.values, [1024, 0])
    np.testing.assert_array_equal(upper.baseline, [1024, 0])
    np.testing.assert_array_equal(upper.values, [3072, 2048])
    np.testing.assert_array_equal(upper.edges, [0, 10, 40])
    assert axes.get_ylabel() == "bytes held"
    ticks = axes.yaxis.get_major_formatter().format_ticks([0, 1024, 2048])
    assert ticks == ["0", "1 KiB", "2 KiB"]
    top = axes.get_ylim()[1] / 1024
    assert top > 4 if capacity == 4096 else 3 < top < 4
    assert len(axes.lines) == (capacity is not None)
    for line in axes.lines:
        np.testing.assert_array_equal(line.get_ydata(), capacity or 0)
