"""Figures of fronts, as steps (FLAT, Kao et al., ASPLOS 2023, Fig. 14), and of searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from simaccel.report.figures.axes import draw_legend, wrap_text
from simaccel.report.figures.facets import (
    FacetPanel,
    FacetPoint,
    FigureAxis,
    draw_facets,
    line_looks,
    name_facets,
    scale_of,
)
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
    points: list[FacetPoint] = []
    for row in drawn:
        front = sorted((point[x] or 0, point[y] or 0) for point in row.run["points"])
        last, most = len(front) - 1, min(len(front), _NAMED)
        named = {round(n * last / max(1, most - 1)) for n in range(most)}
        for at, place in enumerate(front):
            pairs = zip((x, y), place, strict=True)
            text = ", ".join(figure_text(value, FIGURES[name].unit) for name, value in pairs)
            points.append(FacetPoint(row.dataflow, *place, name=text if at in named else ""))
    # more of x is worse, unless x is gain
    step = "steps-pre" if x == "utilisation" else "steps-post"
    look = line_looks((row.dataflow for row in rows), drawstyle=step, linewidth=0.8)
    facet = FacetPanel(points, scale_of(x), scale_of(y))
    panels = draw_facets(figure, [facet], look)
    colours = {name: style["color"] for name, style in look.items()}
    name_facets(figure, panels, [facet], len(points), colours)
    return figure


_CURVES_WIDTH, _CURVES_HEIGHT = 3.3, 2.4
_LABELS_INCHES: Final = 0.6
"""Width left of the axes, at which the title begins."""
_MOST_NAMED: Final = 8
"""Most curves with names; if there are more, all are grey."""
Searched = tuple[str, tuple[tuple[int, float], ...], int]
"""Name of a search, (mappings, objective) of its improvements, and all its mappings."""


def draw_convergence(searched: Sequence[Searched], objective: str, title: str) -> Figure:
    """Draw the objective of each search as steps, relative to its final value.

    Operators of one shape are searched once and share a curve.
    """
    figure = new_figure(_CURVES_WIDTH, _CURVES_HEIGHT)
    curves: dict[tuple[tuple[int, float], ...], tuple[str, int]] = {}
    for name, curve, count in searched:
        if curve:
            curves.setdefault(curve, (name, count))
    few = len(curves) <= _MOST_NAMED
    look: dict[str, dict[str, Any]] = {}
    points, times = [], Counter[str]()
    for at, (curve, (name, count)) in enumerate(curves.items()):
        colour = SERIES_COLOURS[at % len(SERIES_COLOURS)] if few else "grey"
        times[name] += 1
        series = f"{name} ({times[name]})" if times[name] > 1 else name  # searched in several ways
        look[series] = {"drawstyle": "steps-post", "color": colour}
        last = curve[-1][1]
        ends = (max(count, curve[-1][0]), last)
        points += [FacetPoint(series, n, value / last) for n, value in (*curve, ends)]
    name = "EDP" if objective == "edp" else objective
    over = FigureAxis("mappings run", "count", log=True)
    facet = FacetPanel(points, over, FigureAxis(f"best {name} so far / final"))
    panels = draw_facets(figure, [facet], look)
    text = wrap_text(title, _CURVES_WIDTH - _LABELS_INCHES)
    panels[0].set_title(text, fontsize=SMALL_POINTS)
    if few:
        draw_legend(figure, panels)
    return figure
