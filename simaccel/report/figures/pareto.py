"""Figures of fronts and bounds, of a directives' design space, and of searches.

A front is a step a dataflow (FLAT, Kao et al., ASPLOS 2023, Fig. 14); of a bound the ski-slope, the
mesa of operational intensity and that of performance are drawn (Huang et al., *Mind the Gap*, ISCA
2024, figures 1, 8 and 9). The design space is MAESTRO's (Kwon et al., MICRO 2019, Fig. 13).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from simaccel.numbers import is_logarithmic
from simaccel.report.figures.axes import freeze_layout, wrap_text
from simaccel.report.figures.facets import Place, draw_legend, label_axis, looks, name_points
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_MARKERS,
    SINGLE_COLUMN_INCHES,
    SMALL_POINTS,
    Axes,
    Figure,
    new_figure,
)
from simaccel.report.units import bytes_text, figure_text
from simaccel.study.figure_table import FIGURES

if TYPE_CHECKING:
    from simaccel.report.bounds import BoundReport
    from simaccel.study.directed import DirectedDesigns
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


_HEIGHT_INCHES = 2.5
_BEYOND = 4
"""How far the flat end is drawn, relative to the maximal effectual buffer."""


def draw_bound(report: BoundReport, title: str) -> Figure:
    """Draw the front in two panels, or three with an accelerator."""
    figure = new_figure(DOUBLE_COLUMN_INCHES, _HEIGHT_INCHES, title)
    panels = figure.subplots(1, 2 + (report.accelerator is not None))
    points = report.found.front.points()
    rooms = [room for room, _ in points]
    rooms.append(max(rooms[-1] * _BEYOND, report.room or 0))
    moved = [n for _, n in points] + [points[-1][1]]
    _step_line(panels[0], rooms, [float(n) for n in moved], "bytes to and from DRAM")
    least, label = report.compulsory_bytes, "compulsory"
    panels[0].axhline(least, color=LIMIT_COLOUR, linestyle=":", linewidth=0.8, label=label)
    _step_line(panels[1], rooms, [report.intensity(n) for n in moved], "operations per byte")
    if report.accelerator is not None:
        speeds = [report.performance(n) or 0.0 for n in moved]
        _step_line(panels[2], rooms, speeds, f"operations per second on {report.accelerator.name}")
    for axes in panels:
        _mark_buffers(axes, report)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _step_line(axes: Axes, rooms: list[int], values: list[float], label: str) -> None:
    axes.step(rooms, values, where="post", color=SERIES_COLOURS[0])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("buffer")
    axes.set_ylabel(label)
    axes.xaxis.set_major_formatter(lambda value, _: bytes_text(round(value)))
    axes.tick_params(axis="x", labelrotation=30)
    axes.grid(visible=True)


def _mark_buffers(axes: Axes, report: BoundReport) -> None:
    room = report.found.front.largest[0]
    label = f"maximal effectual buffer, {bytes_text(room)}"
    axes.axvline(room, color=SERIES_COLOURS[1], linestyle="--", linewidth=0.8, label=label)
    if report.room is not None:
        label = f"buffer of {bytes_text(report.room)}"
        axes.axvline(report.room, color=SERIES_COLOURS[2], linewidth=0.8, label=label)


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
