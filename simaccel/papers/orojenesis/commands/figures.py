"""The figure of a bound (Huang et al., *Mind the Gap*, ISCA 2024, figures 1, 8 and 9).

It has the ski-slope, the mesa of operational intensity and that of performance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    Axes,
    Figure,
    new_figure,
)
from simaccel.report.units import bytes_text

if TYPE_CHECKING:
    from simaccel.papers.orojenesis.commands.tables import BoundReport

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
