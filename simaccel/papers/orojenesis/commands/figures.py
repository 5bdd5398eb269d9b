"""The figure of a bound (Huang et al., *Mind the Gap*, ISCA 2024, figures 1, 8 and 9).

It has the ski-slope, the mesa of operational intensity and that of performance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simaccel.report.figures.axes import draw_legend
from simaccel.report.figures.facets import FacetPanel, FacetPoint, FigureAxis, draw_facets
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    Figure,
    new_figure,
)
from simaccel.report.units import bytes_text

_HEIGHT_INCHES = 2.5
_BEYOND = 4
"""How far the flat end is drawn, relative to the maximal effectual buffer."""


def draw_bound(
    title: str,
    points: Sequence[tuple[int, int]],
    curves: Mapping[FigureAxis, Callable[[int], float]],
    compulsory_bytes: int,
    room: int | None,
) -> Figure:
    """Draw a front's points in a panel for each of the curves, which are of the bytes moved."""
    figure = new_figure(DOUBLE_COLUMN_INCHES, _HEIGHT_INCHES, title)
    effectual, least = points[-1]
    drawn = [*points, (max(effectual * _BEYOND, room or 0), least)]
    facets = [
        FacetPanel(
            [FacetPoint("", n_bytes, of(moved)) for n_bytes, moved in drawn],
            FigureAxis("buffer", "B", log=True),
            scale,
        )
        for scale, of in curves.items()
    ]
    look = {"": {"drawstyle": "steps-post", "color": SERIES_COLOURS[0]}}
    panels = draw_facets(figure, facets, look, sharey=False)
    style: dict[str, Any] = {"color": LIMIT_COLOUR, "linestyle": ":", "linewidth": 0.8}
    panels[0].axhline(compulsory_bytes, label="compulsory", **style)
    for axes in panels:
        label = f"maximal effectual buffer, {bytes_text(effectual)}"
        axes.axvline(effectual, color=SERIES_COLOURS[1], linestyle="--", linewidth=0.8, label=label)
        if room is not None:
            label = f"buffer of {bytes_text(room)}"
            axes.axvline(room, color=SERIES_COLOURS[2], linewidth=0.8, label=label)
    draw_legend(figure, panels)
    return figure
