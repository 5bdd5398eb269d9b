"""Figures of an exploration: the frontier, pairs of figures, and what each axis does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from simaccel.report.figures.point_names import Place, axes_place, name_points
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_MARKERS,
    new_figure,
)
from simaccel.report.units import bytes_text, energy_text, seconds_text
from simaccel.study.explore import ExploredDesigns
from simaccel.study.figures import FRONTIER, objective_of
from simaccel.study.points import StudyRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_LABELS: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "seconds": ("time", seconds_text),
    "energy_pj": ("energy", energy_text),
    "area_mm2": ("area (mm2)", lambda mm2: f"{mm2:g}"),
    "footprint_bytes": ("footprint", bytes_text),
}
"""What people read for a figure, and how its values are written."""
_LOG_TICKS: Final = ((1.0, (1.0, 2.0, 5.0)), (2.5, (1.0, 3.0)), (math.inf, (1.0,)))
"""Up to so many decades: the ticks in each."""
_INTERVALS: Final = 4
"""Of a linear axis, about."""
_LIGHT, _GREY, _ON = "#DDDDDD", "#999999", SERIES_COLOURS[1]
_LOG_RATIO: Final = 8
_ACROSS: Final = 3
_MOST_TICKS: Final = 8


def _drawable_points(explored: ExploredDesigns) -> list[StudyRow]:
    return [one for one in explored.rows if one.figures is not None]


def _value(figures: dict[str, Any], name: str) -> float:
    value = figures[name]
    return math.nan if value is None else float(value)


_MOST_NAMED = 10
"""Designs of a frontier that are named where they lie."""


def draw_frontier(explored: ExploredDesigns, title: str) -> Figure:
    """Draw energy over time, and area over time: all designs, and the frontier.

    Call it inside ``style()``.
    """
    figure = new_figure(DOUBLE_COLUMN_INCHES, 3.0)
    axes = figure.subplots(1, 2)
    for ax, name in zip(axes, ("energy_pj", "area_mm2"), strict=True):
        _scatter(ax, explored, "seconds", name)
        _draw_on(ax, [point for point in explored.rows if point.frontier], "seconds", name)
    _finish(figure, axes, title)
    for ax, name in zip(axes, ("energy_pj", "area_mm2"), strict=True):
        _name_frontier(ax, explored, "seconds", name)
    return figure


def draw_pairs(explored: ExploredDesigns, title: str) -> Figure:
    """Draw each two figures of the frontier against each other. Call it inside ``style()``."""
    pairs = list(combinations(FRONTIER, 2))
    figure = new_figure(DOUBLE_COLUMN_INCHES, 4.4)
    axes = list(figure.subplots(2, 3).flat)
    for ax, (x, y) in zip(axes, pairs, strict=True):
        _scatter(ax, explored, x, y)
        _draw_on(ax, [point for point in explored.rows if point.frontier], x, y)
    _finish(figure, axes, title)
    for ax, (x, y) in zip(axes, pairs, strict=True):
        _name_frontier(ax, explored, x, y)
    return figure


def _scatter(ax: Axes, explored: ExploredDesigns, x: str, y: str) -> None:
    """Draw all designs, those outside the limits lighter."""
    for within, colour, label in (
        (False, "#DDDDDD", "outside the limits"),
        (True, _GREY, "within the limits"),
    ):
        some = [one.figures or {} for one in _drawable_points(explored) if one.within is within]
        if some:
            xs, ys = ([_value(one, name) for one in some] for name in (x, y))
            ax.scatter(xs, ys, s=7, color=colour, linewidths=0, label=label)
    for axis, name in ((ax.xaxis, x), (ax.yaxis, y)):
        _write(axis, *_LABELS[name])


def _write(axis: Axis, label: str, write: Callable[[float], str]) -> None:
    """Name an axis, and write its ticks as tables do, without zeros at the end."""

    def tick(value: float, _at: object) -> str:
        number, _, unit = write(value).partition(" ")
        return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}".strip()

    axis.set_label_text(label)
    axis.set_major_formatter(lambda value, at: tick(value, at) if value >= 0 else "")


def _set_log_scale(axis: Axis, low: float, high: float, *, of_bytes: bool) -> None:
    """Let an axis be logarithmic where values are far from each other, with few ticks.

    Those of bytes are powers of two.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, MultipleLocator, NullLocator

    write = axis.get_major_formatter()
    if 0 < low * _LOG_RATIO <= high < math.inf:
        (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
        decades = math.log10(high / low)
        ticks = next(ticks for most, ticks in _LOG_TICKS if decades <= most)
        base, subs = (2, (1.0,)) if of_bytes else (10, ticks)
        axis.set_major_locator(LogLocator(base, subs=subs, numticks=6))
        axis.set_minor_locator(NullLocator())
    elif of_bytes and 0 <= low < high < math.inf:
        step = 2 ** math.ceil(math.log2((high - low) / _INTERVALS))
        axis.set_major_locator(MultipleLocator(step))
    else:
        axis.set_major_locator(MaxNLocator(_INTERVALS))
    axis.set_major_formatter(write)


def _draw_on(ax: Axes, points: Sequence[StudyRow], x: str, y: str) -> None:
    """Draw the frontier, the best marked."""
    for point in points:
        figures = point.figures or {}
        ax.scatter(
            [_value(figures, x)],
            [_value(figures, y)],
            s=30 if point.best else 14,
            marker="*" if point.best else "o",
            color=SERIES_COLOURS[5] if point.best else _ON,
            edgecolors=LIMIT_COLOUR,
            linewidths=0.4,
            zorder=4 if point.best else 3,
            label="best" if point.best else "frontier",
        )


def _name_frontier(ax: Axes, explored: ExploredDesigns, x: str, y: str) -> None:
    """Write the settings of designs on the frontier beside them, of the best first."""
    ax.autoscale_view()
    named: list[tuple[str, Place]] = []
    others: list[Place] = []
    for point in sorted(_drawable_points(explored), key=lambda point: not point.best):
        values = [_value(point.figures or {}, name) for name in (x, y)]
        if not all(map(math.isfinite, values)):
            continue
        if point.frontier:
            text = ", ".join(setting.text for setting in point.settings)
            named.append((text, axes_place(ax, *values)))
        else:
            others.append(axes_place(ax, *values))
    name_points(ax, named, others, _MOST_NAMED)


def _finish(figure: Figure, axes: Sequence[Axes], title: str) -> None:
    for ax in axes:
        ax.grid(visible=True, linewidth=0.3, alpha=0.6)
        for axis, ends in ((ax.xaxis, ax.dataLim.intervalx), (ax.yaxis, ax.dataLim.intervaly)):
            _set_log_scale(
                axis, *ends, of_bytes=axis.get_label_text() == _LABELS["footprint_bytes"][0]
            )
    named: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    figure.suptitle(title, fontsize="medium", x=0.01, ha="left")
    if named:
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=4)


def draw_sensitivity(exploration: ExploredDesigns, title: str) -> Figure:
    """Draw the objective at each setting of each axis: the best design, and the geometric mean.

    A line for each scenario; relative to the best design of its scenario. Call it inside
    ``style()``.
    """
    shown = [
        dimension
        for dimension in exploration.dimensions
        if dimension[0].axis.of != "workload" and len(dimension) > 1
    ]
    across = max(1, min(len(shown), _ACROSS))
    rows = max(1, -(-len(shown) // across))
    figure = new_figure(DOUBLE_COLUMN_INCHES, 2.0 * rows + 0.7)
    grid = figure.subplots(rows, across, squeeze=False, sharey=True)
    for ax, dimension in zip(grid.flat, shown, strict=False):
        _draw_axis(ax, exploration, exploration.dimensions.index(dimension))
    for ax in [*grid.flat][len(shown) :]:
        ax.set_axis_off()
    for ax in grid[:, 0]:
        objective = exploration.plan.objective
        name = objective.upper() if objective == "edp" else objective
        ax.set_ylabel(f"{name}, relative to the best")
    handles, labels = grid.flat[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    figure.suptitle(title, fontsize="medium", x=0.01, ha="left")
    return figure


def _draw_axis(ax: Axes, exploration: ExploredDesigns, number: int) -> None:
    settings = exploration.dimensions[number]
    groups: dict[tuple[str, ...], list[StudyRow]] = {}
    for point in _drawable_points(exploration):
        if point.within:
            groups.setdefault(point.scenario, []).append(point)
    for (scenario, group), colour, marker in zip(
        groups.items(), SERIES_COLOURS, SERIES_MARKERS, strict=False
    ):
        values: dict[str, list[float]] = {setting.text: [] for setting in settings}
        for point in group:
            objective = objective_of(point.figures or {}, exploration.plan.objective)
            values[point.settings[number].text].append(objective)
        least = min((v for many in values.values() for v in many if v > 0), default=math.nan)
        name = ", ".join(scenario)
        lines = {
            "best": ([min(v, default=math.nan) / least for v in values.values()], "-"),
            "mean": ([_mean(v) / least for v in values.values()], ":"),
        }
        for what, (ys, line) in lines.items():
            label = f"{what} at {name}" if name else what
            ax.plot(
                range(len(settings)),
                ys,
                line,
                color=colour,
                marker=marker,
                markersize=3,
                label=label,
            )
    every = max(1, -(-len(settings) // _MOST_TICKS))
    ticks = range(0, len(settings), every)
    ax.set_xticks(list(ticks), [settings[at].text for at in ticks], rotation=30, ha="right")
    ax.set_xlabel(settings[0].axis.label)
    ax.grid(visible=True, linewidth=0.3, alpha=0.6)
    low, high = ax.dataLim.intervaly
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _set_log_scale(ax.yaxis, low, high, of_bytes=False)


def _mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    if not values or min(values) <= 0:
        return math.nan
    return math.exp(sum(map(math.log, values)) / len(values))
