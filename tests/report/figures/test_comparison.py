"""The figure of a comparison shows the figures of its rows."""

from collections.abc import Iterator
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from simaccel.report.figures.comparison import FILLED, array_shares, draw_comparison
from simaccel.report.figures.facets import looks
from simaccel.report.figures.style import CAUSE_COLOURS, CAUSE_LABELS, style
from simaccel.schedulers import DATAFLOWS
from simaccel.study.points import StudyRow


def result(cycles: int, utilisation: float, busy: int, **stalls: int) -> dict[str, Any]:
    """Give the part of a result that figures need; the rest of the cycles is idle."""
    array = {"busy": busy, "idle": cycles - busy - sum(stalls.values()), "stalls": stalls}
    return {"cycles": cycles, "utilisation": utilisation, "engines": {"array": array}}


ROWS = [
    StudyRow("naive", 512, result(1000, 0.25, 500, dram_bandwidth=200, dram_latency=100)),
    StudyRow("flat", 512, result(300, 0.75, 270, sfu=30)),
    StudyRow("naive", 1024, None, "does not fit", 2),
    StudyRow("flat", 1024, result(500, 0.5, 400, dram_bandwidth=100)),
]
RAN = [row.result for row in ROWS if row.result is not None]


@pytest.fixture
def panels() -> Iterator[tuple[Axes, Axes]]:
    """Draw the rows."""
    with style():
        figure = draw_comparison(ROWS, "title")
        figure.draw_without_rendering()
        left, right = figure.axes
        yield left, right


def bars(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def test_bars_are_utilisations(panels: tuple[Axes, Axes]) -> None:
    left, _ = panels
    assert [bar.get_width() for bar in bars(left)] == [25, 75, 50]
    texts = [text.get_text() for text in left.texts]
    assert texts == ["25.0", "75.0", "does not run", "50.0"]
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names == [f"{row.dataflow}, {row.seq_len} tokens" for row in ROWS]


def test_stacks_are_shares_of_the_cycles(panels: tuple[Axes, Axes]) -> None:
    left, right = panels
    at = [bar.get_y() for bar in bars(left)]
    handles, labels = right.get_legend_handles_labels()
    drawn = dict(zip(labels, handles, strict=True))
    causes = ["busy", "dram_bandwidth", "dram_latency", "sfu", "idle"]
    assert set(drawn) == {FILLED, *(CAUSE_LABELS[cause] for cause in causes)}
    ends = dict.fromkeys(at, 0.0)
    for cause in causes:
        shares = [array_shares(one).get(cause, 0) for one in RAN]
        container: Any = drawn[CAUSE_LABELS[cause]]
        assert [bar.get_y() for bar in container] == at
        assert [bar.get_width() for bar in container] == pytest.approx(shares)
        for bar in container:
            assert bar.get_x() == pytest.approx(ends[bar.get_y()])
            assert (bar.get_hatch() or "") == CAUSE_COLOURS[cause][1]
            ends[bar.get_y()] += bar.get_width()
    assert list(ends.values()) == pytest.approx([100] * 3)
    segments: Any = drawn[FILLED]
    assert [segment[0][0] for segment in segments.get_segments()] == [25, 75, 50]


def test_shares_are_percent_of_all_cycles() -> None:
    shares = {"busy": 50, "idle": 20, "dram_bandwidth": 20, "dram_latency": 10}
    assert array_shares(RAN[0]) == shares


def test_axes_have_units(panels: tuple[Axes, Axes]) -> None:
    assert [axes.get_xlabel() for axes in panels] == [
        "utilisation (% of peak MACs)",
        "cycles of the PE array (%)",
    ]


def test_lengths_are_left_out_where_there_is_one() -> None:
    with style():
        left = draw_comparison(ROWS[:2], "title").axes[0]
        assert [label.get_text() for label in left.get_yticklabels()] == ["naive", "flat"]


def test_nothing_that_runs_is_a_figure_that_says_so() -> None:
    with style():
        figure = draw_comparison([ROWS[2]], "title")
        figure.draw_without_rendering()
        assert [text.get_text() for text in figure.axes[0].texts] == ["does not run"]


def test_no_two_dataflows_look_the_same() -> None:
    found = looks(list(DATAFLOWS))
    assert set(found) == set(DATAFLOWS)
    assert len(set(found.values())) == len(DATAFLOWS)
    assert len({(look.colour, look.line) for look in found.values()}) > len(DATAFLOWS) // 2


def test_a_dataflow_keeps_its_colour_from_figure_to_figure() -> None:
    assert looks(["flat"])["flat"].colour == looks(["naive", "new", "flat"])["flat"].colour


def test_slices_that_are_seen_carry_their_percent_and_others_have_no_legend() -> None:
    one = result(1000, 0.5, 500, dram_bandwidth=300, dram_latency=30, noc=2)
    with style():
        figure = draw_comparison([StudyRow("flat", 512, one)], "title")
        figure.draw_without_rendering()
        right = figure.axes[1]
    assert [text.get_text() for text in right.texts if text.get_text()] == ["50", "30", "17"]
    _, labels = right.get_legend_handles_labels()
    assert CAUSE_LABELS["dram_latency"] in labels
    assert CAUSE_LABELS["noc"] not in labels
