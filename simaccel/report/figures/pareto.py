"""Figures of fronts and of bounds.

A front is a step a dataflow (FLAT, Kao et al., ASPLOS 2023, Fig. 14); of a bound the ski-slope, the
mesa of operational intensity and that of performance are drawn (Huang et al., *Mind the Gap*, ISCA
2024, figures 1, 8 and 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from simaccel.report.bounds import BoundReport
from simaccel.report.figures.axes import freeze_layout
from simaccel.report.figures.facets import Place, draw_legend, label_axis, looks, name_points
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SINGLE_COLUMN_INCHES,
    Axes,
    Figure,
    new_figure,
)
from simaccel.report.pareto import FrontRow
from simaccel.report.units import bytes_text, figure_text
from simaccel.study.figure_table import FIGURES

_WIDTH, _HEIGHT, _ROW = 1.5 * SINGLE_COLUMN_INCHES, 2.6, 0.14
_COLUMNS: Final = 6
_NAMED: Final = 6
"""Most points of a front with figures beside them."""


def draw_pareto(rows: Sequence[FrontRow], x: str, y: str, title: str) -> Figure:
    """Draw the front of each dataflow as steps: between two points the worse one is attained.

    ``x`` and ``y``: columns. Some points, spaced from end to end of a front, have their figures
    beside them. Call it inside ``style()``.
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


_HEIGHT_INCHES = 2.5
_BEYOND = 4
"""How far the flat end is drawn, relative to the maximal effectual buffer."""


def draw_bound(report: BoundReport, title: str) -> Figure:
    """Draw the front in two panels, or three with an accelerator. Call it inside ``style()``."""
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
    """Draw lines at the maximal effectual buffer and at the given one."""
    room = report.found.front.largest[0]
    label = f"maximal effectual buffer, {bytes_text(room)}"
    axes.axvline(room, color=SERIES_COLOURS[1], linestyle="--", linewidth=0.8, label=label)
    if report.room is not None:
        label = f"buffer of {bytes_text(report.room)}"
        axes.axvline(report.room, color=SERIES_COLOURS[2], linewidth=0.8, label=label)
