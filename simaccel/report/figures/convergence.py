"""Figure of searches: the best objective so far over the mappings evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simaccel.report.figures.axes import wrap_text
from simaccel.report.figures.style import SERIES_COLOURS, SMALL_POINTS, Figure, new_figure

_WIDTH_INCHES, _HEIGHT_INCHES = 3.3, 2.4
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
    figure = new_figure(_WIDTH_INCHES, _HEIGHT_INCHES)
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
    axes.set_title(wrap_text(title, _WIDTH_INCHES - _LABELS_INCHES), fontsize=SMALL_POINTS)
    axes.set_xlabel("mappings run")
    name = "EDP" if objective == "edp" else objective
    axes.set_ylabel(f"best {name} so far / final")
    if few:
        axes.legend(frameon=False)
    return figure
