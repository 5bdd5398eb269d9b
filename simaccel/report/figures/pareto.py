"""Figures of fronts, as steps (FLAT, Kao et al., ASPLOS 2023, Fig. 14), and of searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from simaccel.report.figures.axes import freeze_layout, wrap_text
from simaccel.report.figures.facets import Place, draw_legend, label_axis, looks, name_points
from simaccel.report.figures.style import (
    SERIES_COLOURS,
    SINGLE_COLUMN_INCHES,
    SMALL_POINTS,
    Figure,
    new_figure,
)
from simaccel.report.units import figure_text
from simaccel.study.figure_table import FIGURES

if TYPE_CHECKING:
    from simaccel.study.points import StudyRow

_WIDTH, _HEIGHT, _ROW = 1.5 * SINGLE_COLUMN_INCHES, 2.6, 0.14
_COLUMNS: Final = 6
_NAMED: Final = 6
"""Most points of a front with figures beside them."""


def draw_pareto(rows: Sequence[StudyRow], x: str, y: str, title: str) -> Figure:
    """Draw the front of each dataflow as steps: between two points the worse one is attained.

    ``x`` and ``y``: columns. Some points, spaced from end to end of a front, have their figures
    beside them.
    """
    drawn = [row for row in rows if row.result]
    figure = new_figure(_WIDTH, _HEIGHT + _ROW * -(-len(drawn) // _COLUMNS), title)
    axes = figure.subplots()
    named: list[tuple[str, Place]] = []
    colours: dict[str, str] = {}
    look = looks(row.dataflow for row in rows)
    for row in drawn:
        style = look[row.dataflow]
        points = sorted((point[x] or 0, point[y] or 0) for point in row.run["points"])
        xs, ys = zip(*points, strict=True)
        # more of x is worse, unless x is gain
        side: Literal["pre", "post"] = "pre" if x == "utilisation" else "post"
        axes.step(xs, ys, where=side, color=style.colour, linestyle=style.line, linewidth=0.8)
        axes.plot(xs, ys, **style.marker_look, linewidth=0, label=row.dataflow)
        most = min(len(points), _NAMED)
        for at in sorted({round(n * (len(points) - 1) / max(1, most - 1)) for n in range(most)}):
            pairs = zip((x, y), points[at], strict=True)
            text = ", ".join(figure_text(value, FIGURES[name].unit) for name, value in pairs)
            named.append((text, points[at]))
            colours[text] = style.colour
    for axis, ends, name in (
        (axes.xaxis, axes.dataLim.intervalx, x),
        (axes.yaxis, axes.dataLim.intervaly, y),
    ):
        label_axis(axis, name, *ends)
    draw_legend(figure, [axes], _COLUMNS)
    freeze_layout(figure)
    name_points(axes, named, len(named), colours)
    return figure


_CURVES_WIDTH, _CURVES_HEIGHT = 3.3, 2.4
_LABELS_INCHES: Final = 0.6
"""Width left of the axes, at which the title begins."""
_MOST_LINEAR: Final = 3
"""Largest ratio of objectives with a linear axis."""
_MOST_NAMED: Final = 8
"""Most curves with names; if there are more, all are grey."""
Searched = tuple[str, tuple[tuple[int, float], ...], int]
"""Name of a search, (mappings, objective) of its improvements, and all its mappings."""


def draw_convergence(searched: Sequence[Searched], objective: str, title: str) -> Figure:
    """Draw the objective of each search as steps, relative to its final value.

    Operators of one shape are searched once and share a curve.
    """
    figure = new_figure(_CURVES_WIDTH, _CURVES_HEIGHT)
    axes = figure.subplots()
    curves: dict[tuple[tuple[int, float], ...], tuple[str, int]] = {}
    for name, curve, count in searched:
        if curve:
            curves.setdefault(curve, (name, count))
    few = len(curves) <= _MOST_NAMED
    for at, (curve, (name, count)) in enumerate(curves.items()):
        counts = [*(n for n, _ in curve), max(count, curve[-1][0])]
        values = [value / curve[-1][1] for _, value in (*curve, curve[-1])]
        colour = SERIES_COLOURS[at % len(SERIES_COLOURS)] if few else "grey"
        axes.step(counts, values, where="post", color=colour, label=name if few else None)
    axes.set(xscale="log")
    most = max((curve[0][1] / curve[-1][1] for curve in curves), default=1.0)
    if most > _MOST_LINEAR:
        axes.set(yscale="log")
    else:
        axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_title(wrap_text(title, _CURVES_WIDTH - _LABELS_INCHES), fontsize=SMALL_POINTS)
    axes.set_xlabel("mappings run")
    name = "EDP" if objective == "edp" else objective
    axes.set_ylabel(f"best {name} so far / final")
    if few:
        axes.legend(frameon=False)
    return figure
