"""The figures of a sweep and of a comparison show the figures of their rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simaccel.report.figures.comparison import FILLED, array_shares, draw_comparison, draw_metric
from simaccel.report.figures.facets import looks
from simaccel.report.figures.style import CAUSE_COLOURS, CAUSE_LABELS, style
from simaccel.report.figures.sweep import DRAM, draw_sweep
from simaccel.schedulers import DATAFLOWS
from simaccel.study.figure_table import METRICS
from simaccel.study.points import Axis, Setting, StudyRow

BUFFER = Axis("buffer", "buffer_bytes", "buffer capacity", log=True)
LENGTH = Axis("seq-len", "seq_len", "sequence length (tokens)")
NAMES = ("flex", "flat", "flash")


def point(place: int, axis: Axis = BUFFER) -> Setting:
    return Setting(axis, place, f"{place} B", place=place)


def result(utilisation: float) -> dict[str, Any]:
    """Give the part of a result that figures need: half of the rest is DRAM, half idle."""
    busy = round(1000 * utilisation) + 100
    rest = 1000 - busy
    array = {"busy": busy, "idle": rest // 2, "stalls": {"dram_latency": rest - rest // 2}}
    return {"cycles": 1000, "utilisation": utilisation, "engines": {"array": array}}


def rows(
    places: list[int], axis: Axis = BUFFER, length: int | None = 512, fails: int = 0
) -> list[StudyRow]:
    """Let each dataflow but the first fail at the first ``fails`` points."""
    found = []
    for index, place in enumerate(places):
        for number, name in enumerate(NAMES):
            runs = number == 0 or index >= fails
            share = (index + number) / (len(places) + 4)
            one = result(share) if runs else None
            found.append(
                StudyRow(name, length, one, "" if runs else "no", settings=(point(place, axis),))
            )
    return found


def drawn(given: list[StudyRow]) -> Figure:
    with style():
        figure = draw_sweep(given, "title")
        figure.draw_without_rendering()
    return figure


@pytest.fixture(scope="module")
def three() -> Figure:
    """Draw rows of three points, once for all tests: they look at it and change nothing."""
    return drawn(rows([1024, 2048, 4096]))


def numbers(line: Line2D) -> tuple[list[float], list[float]]:
    x, y = np.asarray(line.get_data(), dtype=float)
    return list(x), list(y)


def line(axes: Axes, label: str) -> tuple[list[float], list[float]]:
    (found,) = [one for one in axes.lines if one.get_label() == label]
    return numbers(found)


def test_lines_are_the_rows(three: Figure) -> None:
    given, axes = rows([1024, 2048, 4096]), three.axes[0]
    for name in NAMES:
        mine = [row for row in given if row.dataflow == name]
        x, y = line(axes, name)
        assert x == [row.settings[0].place for row in mine]
        assert y == [100 * row.result["utilisation"] for row in mine if row.result]
    looks = {(one.get_color(), one.get_marker()) for one in axes.lines}
    assert len(looks) == len(axes.lines) == len(NAMES)


def test_a_list_in_any_order_is_a_line_from_left_to_right() -> None:
    x, y = line(drawn(rows([4096, 1024, 2048])).axes[0], "flex")
    assert x == [1024, 2048, 4096]
    assert y == pytest.approx([100 / 7, 200 / 7, 0])


def test_stacks_are_shares_with_nothing_where_nothing_ran() -> None:
    given = rows([1024, 2048, 4096], fails=1)
    _, *stacks = drawn(given).axes
    assert [axes.get_title(loc="left") for axes in stacks] == list(NAMES)
    for axes, name in zip(stacks, NAMES, strict=True):
        mine = [row.result for row in given if row.dataflow == name]
        bars: list[Any] = axes.containers
        for part, cause in zip(bars, ("busy", "dram_latency", "idle"), strict=True):
            assert [(bar.get_x(), bar.get_width()) for bar in part] == [
                (-0.5, 1.0),
                (0.5, 1.0),
                (1.5, 1.0),
            ]
            shares = [array_shares(one)[cause] if one else 0.0 for one in mine]
            assert [bar.get_height() for bar in part] == pytest.approx(shares)
        ends = [bar.get_y() + bar.get_height() for bar in bars[-1]]
        assert ends == pytest.approx([100.0 if one else 0.0 for one in mine])


def test_what_multiplies_lies_on_a_logarithmic_axis(three: Figure) -> None:
    axes = three.axes[0]
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1024 B", "2048 B", "4096 B"]
    assert axes.get_xlabel() == "buffer capacity"
    assert axes.get_ylabel() == "utilisation (% of peak MACs)"
    assert drawn(rows([0, 50, 100], Axis("a", "a", "a"))).axes[0].get_xscale() == "linear"


def test_a_length_has_a_panel() -> None:
    given = rows([1024, 2048]) + rows([1024, 2048], length=4096)
    figure = drawn(given)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        *("512 tokens", "4096 tokens"),
        *(f"{name}, {n} tokens" for n in (512, 4096) for name in NAMES),
    ]


def test_swept_lengths_are_one_panel() -> None:
    given = [row for n in (4, 8, 16) for row in rows([n], LENGTH, length=n)]
    axes = drawn(given).axes[0]
    assert line(axes, "flex")[0] == [4, 8, 16]
    assert axes.get_title(loc="left") == ""


@pytest.mark.parametrize("is_swept", [True, False])
def test_a_metric_over_lengths_is_a_line_for_each_dataflow(is_swept: bool) -> None:  # noqa: FBT001
    """The length, of a sweep or a list, is on the axis, so it is no part of a line's name."""
    lengths = [64, 128, 256]
    swept = [
        replace(row, seq_len=length, figures={"cycles": 10 * length + at})
        for length in lengths
        for at, row in enumerate(rows([length], LENGTH))
    ]
    given = swept if is_swept else [replace(row, settings=()) for row in swept]
    with style():
        axes = draw_metric(given, "title", METRICS["cycles"]).axes[0]
    for at, name in enumerate(NAMES):
        assert line(axes, name) == (lengths, [10 * length + at for length in lengths])


def test_points_at_one_place_stand_in_a_row() -> None:
    axis = Axis("array", "array", "PE array (rows x columns)")
    points = [Setting(axis, text, text, place=64) for text in ("8x8", "4x16")]
    given = [StudyRow("flat", 512, result(0.5), settings=(one,)) for one in points]
    axes = drawn(given).axes[0]
    assert line(axes, "flat")[0] == [0, 1]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8x8", "4x16"]


@pytest.mark.parametrize("count", [1, 40])
def test_any_number_of_points_has_few_ticks(count: int) -> None:
    axes = drawn(rows([1024 + 8 * i for i in range(count)], Axis("a", "a", "a"))).axes[0]
    assert len(line(axes, "flat")[0]) == count
    assert 1 <= len(axes.get_xticks()) <= 12


def test_one_point_and_nothing_that_runs_are_figures() -> None:
    assert len(drawn(rows([1024])).axes) == 1 + len(NAMES)
    failed = [row for row in rows([1024], fails=1) if row.result is None]
    assert [text.get_text() for text in drawn(failed).axes[0].get_yticklabels()][-2:] == [
        *("flat", "flash")
    ]


def test_more_stacks_than_fit_a_page_are_left_out() -> None:
    given = [row for n in range(1, 8) for row in rows([1024, 2048], length=n)]
    titles = [axes.get_title(loc="left") for axes in drawn(given).axes if axes.axison]
    assert titles == [f"{n} tokens" for n in range(1, 8)]


def test_a_legend_names_the_lines(three: Figure) -> None:
    (upper, *_) = three.subfigs
    (legend,) = upper.legends
    looks = {line.get_label(): line.get_color() for line in three.axes[0].lines}
    shown = zip(legend.get_lines(), legend.get_texts(), strict=True)
    assert {text.get_text(): line.get_color() for line, text in shown} == looks
    assert {*looks} == {*NAMES}


def test_slices_carry_their_percent(three: Figure) -> None:
    busy = [round(100 * (index + 0) / 7) + 10 for index in range(3)]  # flex, as rows() makes it
    texts = [text.get_text() for text in three.axes[1].texts]
    assert texts[:3] == [f"{n}" for n in busy]
    crowded = drawn(rows([1024 * n for n in range(1, 9)]))
    assert not crowded.axes[1].texts


def test_what_was_moved_stands_above_the_slopes() -> None:
    """A point where each run is, the slope from the left edge to the right one."""
    given = rows([1024, 4096], fails=1)
    for number, row in enumerate(given):
        if row.result is not None:
            moved = {"dram": {"read": {"A": 5000 + number}, "write": {"B": 7}}}
            on_chip = {"on_chip_bytes": row.settings[0].place}
            row.result.update({"bytes": moved, "dram_bound": on_chip})
    slope = ("bound", [(256, 9000), (2048, 4000), (10**6, 1)])
    with style():
        figure = draw_sweep(given, "title", {512: [slope]})
        figure.draw_without_rendering()
    (axes,) = [one for one in figure.axes if one.get_ylabel() == DRAM]
    for name in NAMES:
        mine = [row for row in given if row.dataflow == name and row.result]
        x, y = line(axes, name)
        assert x == [row.settings[0].place for row in mine]
        assert y == [5007 + given.index(row) for row in mine if row.result]
    assert line(axes, "bound") == ([512, 2048, 8192], [9000, 4000, 4000])
    plain = drawn(given)
    assert not [one for one in plain.axes if one.get_ylabel() == DRAM]


def compared(cycles: int, utilisation: float, busy: int, **stalls: int) -> dict[str, Any]:
    """Give the part of a compared that figures need; the rest of the cycles is idle."""
    array = {"busy": busy, "idle": cycles - busy - sum(stalls.values()), "stalls": stalls}
    return {"cycles": cycles, "utilisation": utilisation, "engines": {"array": array}}


ROWS = [
    StudyRow("naive", 512, compared(1000, 0.25, 500, dram_bandwidth=200, dram_latency=100)),
    StudyRow("flat", 512, compared(300, 0.75, 270, sfu=30)),
    StudyRow("naive", 1024, None, "does not fit", 2),
    StudyRow("flat", 1024, compared(500, 0.5, 400, dram_bandwidth=100)),
]
RAN = [row.result for row in ROWS if row.result is not None]


@pytest.fixture(scope="module")
def bars() -> Axes:
    """Draw the rows."""
    with style():
        figure = draw_comparison(ROWS, "title")
        figure.draw_without_rendering()
    (axes,) = figure.axes
    return axes


def test_each_bar_has_its_name_and_its_utilisation(bars: Axes) -> None:
    texts = [text for text in bars.texts if text.get_position()[0] in (1.0, 101.0)]
    *runs, heading = [text.get_text() for text in texts]
    assert (runs, heading) == (["25.0", "75.0", "does not run", "50.0"], "util.\n(%)")
    names = [label.get_text() for label in bars.get_yticklabels()]
    assert names == [f"{row.dataflow}, {row.seq_len} tokens" for row in ROWS]


def test_stacks_are_shares_of_the_cycles(bars: Axes) -> None:
    handles, labels = bars.get_legend_handles_labels()
    parts = dict(zip(labels, handles, strict=True))
    first: Any = parts[CAUSE_LABELS["busy"]]
    at = [bar.get_y() for bar in first]
    assert [bar.get_width() for bar in first] == pytest.approx([50, 90, 0, 80])
    causes = ["busy", "dram_bandwidth", "dram_latency", "sfu", "idle"]
    assert set(parts) == {FILLED, *(CAUSE_LABELS[cause] for cause in causes)}
    ends = dict.fromkeys(at, 0.0)
    for cause in causes:
        shares = [array_shares(row.result).get(cause, 0) if row.result else 0 for row in ROWS]
        container: Any = parts[CAUSE_LABELS[cause]]
        assert [bar.get_y() for bar in container] == at
        assert [bar.get_width() for bar in container] == pytest.approx(shares)
        for bar in container:
            assert bar.get_x() == pytest.approx(ends[bar.get_y()])
            assert (bar.get_hatch() or "") == CAUSE_COLOURS[cause][1]
            ends[bar.get_y()] += bar.get_width()
    assert list(ends.values()) == pytest.approx([100, 100, 0, 100])
    segments: Any = parts[FILLED]
    assert [segment[0][0] for segment in segments.get_segments()] == [25, 75, 50]


def test_shares_are_percent_of_all_cycles() -> None:
    shares = {"busy": 50, "idle": 20, "dram_bandwidth": 20, "dram_latency": 10}
    assert array_shares(RAN[0]) == shares


def test_the_axis_has_a_unit(bars: Axes) -> None:
    assert bars.get_xlabel() == "cycles of the PE array (%)"


def test_lengths_are_left_out_where_there_is_one() -> None:
    with style():
        (axes,) = draw_comparison(ROWS[:2], "title").axes
        assert [label.get_text() for label in axes.get_yticklabels()] == ["naive", "flat"]


def test_nothing_that_runs_is_a_figure_that_says_so() -> None:
    with style():
        figure = draw_comparison([ROWS[2]], "title")
        figure.draw_without_rendering()
        assert figure.axes[0].texts[0].get_text() == "does not run"


def test_no_two_dataflows_look_the_same() -> None:
    found = looks(list(DATAFLOWS))
    assert set(found) == set(DATAFLOWS)
    assert len(set(found.values())) == len(DATAFLOWS)
    assert len({(look.colour, look.line) for look in found.values()}) > len(DATAFLOWS) // 2


def test_a_dataflow_keeps_its_colour_from_figure_to_figure() -> None:
    assert looks(["flat"])["flat"].colour == looks(["naive", "new", "flat"])["flat"].colour


def test_slices_that_are_seen_carry_their_percent_and_others_have_no_legend() -> None:
    one = compared(1000, 0.5, 500, dram_bandwidth=300, dram_latency=30, noc=2)
    with style():
        figure = draw_comparison([StudyRow("flat", 512, one)], "title")
        figure.draw_without_rendering()
        (axes,) = figure.axes
    texts = [text.get_text() for text in axes.texts if text.get_text()]
    assert texts == ["50", "30", "17", "50.0", "util.\n(%)"]
    _, labels = axes.get_legend_handles_labels()
    assert CAUSE_LABELS["dram_latency"] in labels
    assert CAUSE_LABELS["noc"] not in labels
