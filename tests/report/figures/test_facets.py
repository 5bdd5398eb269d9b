"""Series in panels: axes that panels share, ticks as in tables, crosses, steps."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from simaccel.report.figures.facets import (
    FacetPanel,
    FacetPoint,
    FigureAxis,
    draw_facets,
    draw_missing,
    draw_stacks,
)
from simaccel.report.figures.pareto import draw_convergence
from simaccel.report.figures.style import new_figure, style

LOOK = {"a": {"marker": "o"}, "b": {"linestyle": ""}}
X, Y = FigureAxis("capacity", "B"), FigureAxis("time", "s")


def panel(*ys: float | None, y: FigureAxis = Y, series: str = "a") -> FacetPanel:
    points = [FacetPoint(series, 1024 * 2**at, value) for at, value in enumerate(ys)]
    return FacetPanel(points, X, y)


def drawn(*panels: FacetPanel, sharey: bool = True) -> list[Axes]:
    with style():
        figure = new_figure(7, 2)
        axes = draw_facets(figure, panels, LOOK, sharey=sharey)
        figure.draw_without_rendering()
    return axes


def places(line: Line2D) -> list[tuple[float, float]]:
    xs, ys = np.asarray(line.get_data(), dtype=float)
    return [*zip(xs.tolist(), ys.tolist(), strict=True)]


def test_a_shared_axis_is_that_of_all_values() -> None:
    """0.5 s to 8 s are a factor of 16, 0.5 to 1 one of 2: alone the second one is linear."""
    far, near = panel(0.5, 8.0), panel(0.5, 1.0)
    assert [one.get_yscale() for one in drawn(near, far)] == ["log", "log"]
    assert [one.get_yscale() for one in drawn(near, far, sharey=False)] == ["linear", "log"]


def test_ticks_are_written_as_in_tables() -> None:
    (axes,) = drawn(panel(1e-3, 2e-3))
    assert axes.xaxis.get_major_formatter().format_ticks([0, 1536, 2**20]) == [
        *("0", "1.5 KiB", "1 MiB")
    ]
    assert axes.yaxis.get_major_formatter().format_ticks([1e-3]) == ["1 ms"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("capacity", "time")


UNITS = {"": 1.0, "B": 1024.0, "s": 1e-6, "pJ": 1e3, "mm2": 1.0}


@given(
    st.builds(
        FigureAxis,
        st.just("label"),
        st.sampled_from([*UNITS]),
        st.sampled_from([None, True, False]),
    ),
    st.integers(1, 10**6),
    st.floats(1.02, 1e6),
    st.sampled_from([1, 2, 3]),
)
@example(FigureAxis("label", "B", log=True), 20, 1.5, 1)
def test_an_axis_has_two_ticks_or_more(
    axis: FigureAxis, low: int, ratio: float, count: int
) -> None:
    """From 20 to 30 KiB there is no power of two."""
    ends = [UNITS[axis.unit] * low, UNITS[axis.unit] * low * ratio]
    facet = FacetPanel([FacetPoint("a", at, at) for at in ends], axis, axis)
    for axes in drawn(*[facet] * count, sharey=False):
        for each in (axes.xaxis, axes.yaxis):
            first, last = sorted(each.get_view_interval())
            ticks = each.get_majorticklocs()
            assert sum(first <= tick <= last for tick in ticks) >= 2


def test_numbers_stand_on_parts_from_7_percent_on() -> None:
    with style():
        axes = new_figure(3, 2).subplots()
        parts = {"a": ([6.9, 7.0, 93.4], "#FFFFFF", "")}
        draw_stacks(axes, range(3), parts, 1.0, numbered=True)
    assert [text.get_text() for text in axes.texts] == ["", "7", "93"]


def test_what_has_no_y_is_a_gap_and_a_cross_in_the_strip_of_its_series() -> None:
    y = FigureAxis("share", zero=True)
    panels = [panel(1.0, None, 3.0, y=y), panel(None, None, y=y, series="b")]
    axes = drawn(*panels)
    draw_missing(axes, panels, "does not run")
    (line,) = (one for one in axes[0].lines if one.get_label() == "a")
    _, ys = zip(*places(line), strict=True)
    assert (ys[0], ys[2], math.isnan(ys[1])) == (1.0, 3.0, True)
    crosses = [
        places(one) for each in axes for one in each.lines if one.get_label() == "does not run"
    ]
    ((first,), others) = crosses
    assert (first[0], [x for x, _ in others]) == (2048, [1024, 2048])
    strips = dict(zip(axes[0].get_yticks(), axes[0].get_yticklabels(), strict=True))
    assert strips[first[1]].get_text() == "a"
    assert {strips[at].get_text() for _, at in others} == {"b"}
    assert 0 > first[1] > others[0][1] > axes[0].get_ylim()[0]


def test_two_searches_of_one_name_are_two_steps() -> None:
    searched = [("L", ((1, 4.0), (5, 2.0)), 9), ("A", ((1, 1.0),), 1), ("L", ((2, 3.0),), 2)]
    with style():
        (axes,) = draw_convergence(searched, "cycles", "title").axes
    assert {str(one.get_label()): places(one) for one in axes.lines} == {
        "L": [(1, 2), (5, 1), (9, 1)],
        "L (2)": [(2, 1), (2, 1)],
        "A": [(1, 1), (1, 1)],
    }


@pytest.mark.parametrize("values", [(), (0.0,), (None,)])
def test_nothing_to_draw_is_a_figure(values: tuple[float | None, ...]) -> None:
    assert len(drawn(panel(*values, y=FigureAxis("energy", "pJ", zero=True)))) == 1
    assert drawn() == []
