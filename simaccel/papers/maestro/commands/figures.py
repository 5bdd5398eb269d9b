"""The figure of a description's design space (Kwon et al., MICRO 2019, Fig. 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from simaccel.numbers import is_logarithmic
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_MARKERS,
    Figure,
    new_figure,
)
from simaccel.report.units import bytes_text

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
    for axes, xs, label in zip(
        panels, (points["area_um2"] / 1e6, n_bytes), ("area (mm2)", "all L1 and L2"), strict=True
    ):
        shown = axes.scatter(xs, points["throughput"], s=3, c=points["pes"], cmap="viridis")
        axes.set_xlabel(label)
        axes.grid(visible=True)
    if is_logarithmic(n_bytes.min(), n_bytes.max()):
        panels[1].set_xscale("log", base=2)
    panels[1].xaxis.set_major_formatter(lambda value, _: bytes_text(round(value)))
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
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
