"""The figure of a bound (Huang et al., *Mind the Gap*, ISCA 2024, figures 1, 8 and 9).

It has the ski-slope, the mesa of operational intensity and that of performance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    Axes,
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
    curves: Mapping[str, Callable[[int], float]],
    compulsory_bytes: int,
    room: int | None,
) -> Figure:
    """Draw a front's points in a panel for each of the curves, which are of the bytes moved."""
    figure = new_figure(DOUBLE_COLUMN_INCHES, _HEIGHT_INCHES, title)
    panels = figure.subplots(1, len(curves))
    effectual, least = points[-1]
    rooms = [*(room for room, _ in points), max(effectual * _BEYOND, room or 0)]
    moved = [*(n for _, n in points), least]
    for axes, (what, of) in zip(panels, curves.items(), strict=True):
        _step_line(axes, rooms, [of(n) for n in moved], what)
        if axes is panels[0]:
            style = {"color": LIMIT_COLOUR, "linestyle": ":", "linewidth": 0.8}
            axes.axhline(compulsory_bytes, label="compulsory", **style)
        label = f"maximal effectual buffer, {bytes_text(effectual)}"
        axes.axvline(effectual, color=SERIES_COLOURS[1], linestyle="--", linewidth=0.8, label=label)
        if room is not None:
            label = f"buffer of {bytes_text(room)}"
            axes.axvline(room, color=SERIES_COLOURS[2], linewidth=0.8, label=label)
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
