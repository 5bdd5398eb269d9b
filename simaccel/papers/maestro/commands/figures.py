"""The figure of a description's design space (Kwon et al., MICRO 2019, Fig. 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from simaccel.report.figures.axes import draw_legend
from simaccel.report.figures.facets import FigureAxis, set_scale
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_MARKERS,
    Figure,
    new_figure,
)

if TYPE_CHECKING:
    from simaccel.papers.maestro.commands.design_space import DirectedDesigns

MOST_POINTS: Final = 20_000
"""Most designs drawn; of more, evenly spaced ones."""


def draw_designs(directed_designs: DirectedDesigns, title: str) -> Figure:
    """Draw the designs within the limits, coloured by PEs, and the best by each objective."""
    designs = directed_designs.designs
    places = np.nonzero(designs.is_valid)
    every = max(1, -(-len(places[0]) // MOST_POINTS))
    points = designs.columns(tuple(at[::every] for at in places))
    note = f" (one of {every:,} drawn)" if every > 1 else ""
    figure = new_figure(DOUBLE_COLUMN_INCHES, 2.8, title + note)
    panels = figure.subplots(1, 2, sharey=True)
    n_bytes = points["pes"] * points["l1_bytes"] + points["l2_bytes"]
    shown = None
    for axes, xs, over in zip(
        panels,
        (points["area_um2"] / 1e6, n_bytes),
        (FigureAxis("area", "mm2", log=False), FigureAxis("all L1 and L2", "B")),
        strict=True,
    ):
        shown = axes.scatter(xs, points["throughput"], s=3, c=points["pes"], cmap="viridis")
        set_scale(axes.xaxis, over, xs)
        axes.grid(visible=True)
    for number, best in enumerate(best for best in directed_designs.best if best["rank"] == 1):
        design = best["design"]
        for axes, x in zip(panels, (design.area_um2 / 1e6, design.buffer_bytes), strict=True):
            axes.plot(
                x,
                design.throughput,
                SERIES_MARKERS[number],
                markersize=9 - 2 * number,
                markerfacecolor="none",
                markeredgecolor=(SERIES_COLOURS[5], LIMIT_COLOUR, SERIES_COLOURS[3])[number],
                label=f"best by {best['objective']}",
            )
    panels[0].set_ylabel("MACs per cycle")
    if shown is not None:
        figure.colorbar(shown, ax=panels, label="PEs")
    draw_legend(figure, panels)
    return figure
