"""Figures of an exploration: the frontier, pairs of figures, and the effect of each axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from simaccel.report.figures.axes import freeze_layout
from simaccel.report.figures.facets import (
    ACROSS,
    Place,
    draw_legend,
    draw_panels,
    label_axis,
    name_points,
    name_ticks,
    scale_axis,
)
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_MARKERS,
    Axes,
    Figure,
    new_figure,
)
from simaccel.study.explore import ExploredDesigns
from simaccel.study.figures import FRONTIER, objective_of
from simaccel.study.points import StudyRow

_EDGE: Final = {"edgecolors": LIMIT_COLOUR, "linewidths": 0.4}
_MOST_TICKS: Final = 8


def _drawable_points(explored: ExploredDesigns) -> list[StudyRow]:
    return [row for row in explored.rows if row.figures is not None]


def _value(figures: dict[str, Any], name: str) -> float:
    value = figures[name]
    return math.nan if value is None else float(value)


_MOST_NAMED = 10
"""Most designs of a frontier that have names."""


def draw_frontier(explored: ExploredDesigns, title: str) -> Figure:
    """Draw energy over time, and area over time: all designs, and the frontier."""
    return _draw_pairs(explored, [("seconds", "energy_pj"), ("seconds", "area_mm2")], title, 3.0)


def draw_pairs(explored: ExploredDesigns, title: str) -> Figure:
    """Draw each pair of the frontier's figures."""
    return _draw_pairs(explored, list(combinations(FRONTIER, 2)), title, 4.4)


_KINDS: Final[Mapping[str, dict[str, Any]]] = {
    "outside the limits": {"s": 7, "color": "#DDDDDD", "linewidths": 0},
    "within the limits": {"s": 7, "color": "#999999", "linewidths": 0},
    "frontier": {"s": 14, "color": SERIES_COLOURS[1], **_EDGE, "zorder": 3},
    "best": {"s": 30, "marker": "*", "color": SERIES_COLOURS[5], **_EDGE, "zorder": 4},
}
"""Looks of designs; those on the frontier are drawn above themselves."""


def _draw_pairs(
    explored: ExploredDesigns, pairs: Sequence[tuple[str, str]], title: str, inches: float
) -> Figure:
    figure = new_figure(DOUBLE_COLUMN_INCHES, inches, title)
    panels = draw_panels(figure, len(pairs))
    for ax, (x, y) in zip(panels, pairs, strict=True):
        _scatter(ax, explored, x, y)
        label_axis(ax.xaxis, x, *ax.dataLim.intervalx)
        label_axis(ax.yaxis, y, *ax.dataLim.intervaly)
    draw_legend(figure, panels, 4)
    freeze_layout(figure)
    for ax, (x, y) in zip(panels, pairs, strict=True):
        _name_frontier(ax, explored, x, y)
    return figure


def _scatter(ax: Axes, explored: ExploredDesigns, x: str, y: str) -> None:
    points = _drawable_points(explored)
    kinds = [[point for point in points if point.within is within] for within in (False, True)]
    on = [point for point in points if point.frontier]
    kinds += [[one for one in on if one.best is best] for best in (False, True)]
    for kind, (label, look) in zip(kinds, _KINDS.items(), strict=True):
        if kind:
            xs, ys = ([_value(one.figures or {}, name) for one in kind] for name in (x, y))
            ax.scatter(xs, ys, **look, label=label)


def _name_frontier(ax: Axes, explored: ExploredDesigns, x: str, y: str) -> None:
    """Write the settings of designs on the frontier beside them, of the best first."""
    named: list[tuple[str, Place]] = []
    for point in sorted(_drawable_points(explored), key=lambda point: not point.best):
        place = _value(point.figures or {}, x), _value(point.figures or {}, y)
        if point.frontier and all(map(math.isfinite, place)):
            named.append((", ".join(setting.text for setting in point.settings), place))
    name_points(ax, named, _MOST_NAMED)


def draw_sensitivity(exploration: ExploredDesigns, title: str) -> Figure:
    """Draw the objective at each setting of each axis: the best design, and the geometric mean.

    There is a line for each scenario, relative to its best design.
    """
    shown = [
        dimension
        for dimension in exploration.dimensions
        if dimension[0].axis.of != "workload" and len(dimension) > 1
    ]
    rows = max(1, -(-len(shown) // ACROSS))
    figure = new_figure(DOUBLE_COLUMN_INCHES, 2.0 * rows + 0.7, title)
    panels = draw_panels(figure, len(shown), sharey=True)
    for ax, dimension in zip(panels, shown, strict=True):
        _draw_axis(ax, exploration, exploration.dimensions.index(dimension))
    for ax in panels[::ACROSS]:
        objective = exploration.plan.objective
        name = objective.upper() if objective == "edp" else objective
        ax.set_ylabel(f"{name}, relative to the best")
    draw_legend(figure, panels[:1], 4)
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
    texts = {at: setting.text for at, setting in enumerate(settings)}
    name_ticks(ax, texts, _MOST_TICKS, rotation=30, ha="right")
    ax.set_xlabel(settings[0].axis.label)
    ax.grid(visible=True)
    low, high = ax.dataLim.intervaly
    scale_axis(ax.yaxis, low, high)
    ax.yaxis.set_major_formatter("{x:g}")


def _mean(values: Sequence[float]) -> float:
    if not values or min(values) <= 0:
        return math.nan
    return math.exp(sum(map(math.log, values)) / len(values))
