"""Figure of Pareto fronts: one stepped line a dataflow (FLAT, Kao et al., ASPLOS 2023, Fig. 14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from simaccel.report.figures.axes import freeze_layout
from simaccel.report.figures.facets import Place, draw_legend, label_axis, looks, name_points
from simaccel.report.figures.style import SINGLE_COLUMN_INCHES, Figure, new_figure
from simaccel.report.pareto import FrontRow
from simaccel.report.units import figure_text
from simaccel.study.figure_table import FIGURES

_WIDTH, _HEIGHT, _ROW = 1.5 * SINGLE_COLUMN_INCHES, 2.6, 0.14
_COLUMNS: Final = 6
_NAMED: Final = 6
"""Points of a front that have figures beside them."""


def draw_pareto(rows: Sequence[FrontRow], x: str, y: str, title: str) -> Figure:
    """Draw the front of each dataflow; what lies between two points can be had at the worse one.

    ``x`` and ``y``: columns. Figures stand beside points, from end to end of a front. Call it
    inside ``style()``.
    """
    drawn = [row for row in rows if row.points]
    figure = new_figure(_WIDTH, _HEIGHT + _ROW * -(-len(drawn) // _COLUMNS), title)
    axes = figure.subplots()
    named: list[tuple[str, Place]] = []
    colours: dict[str, str] = {}
    look = looks(row.dataflow for row in rows)
    for row in drawn:
        style = look[row.dataflow]
        points = sorted((point[x] or 0, point[y] or 0) for point in row.points)
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
