"""The bandwidth figure: bytes per cycle of each resource, against its limit."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from simaccel.report.figures.bandwidth import BINS, ResourceRate, draw_flows, flows
from simaccel.report.figures.style import new_figure, style
from simaccel.trace import TraceReader
from tests.report.figures.painted import painted, steps

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
        assert len(cycles) == BINS


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
