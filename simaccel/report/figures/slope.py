"""Bytes to and from DRAM against the memory on chip: what runs moved, above what bounds allow.

Figure 24 of Huang et al., *Mind the Gap* (ISCA 2024), with simaccel's machine in the place of GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from simaccel.report.figures.facets import SeriesStyle
from simaccel.report.figures.style import LIMIT_COLOUR, Axes
from simaccel.report.units import bytes_text
from simaccel.study.figure_table import total_of
from simaccel.study.points import StudyRow

DRAM: Final = "bytes to and from DRAM"
ON_CHIP: Final = "memory on chip"
_LINES: Final = ("-", "--", "-.")
_BEYOND: Final = 2.0
"""How far slopes go on beside the measured points."""


@dataclass(frozen=True)
class SlopeSeries:
    """Points (bytes kept on chip, bytes moved) of a bound, and its name."""

    label: str
    points: tuple[tuple[int, int], ...]


def draw_slopes(
    axes: Axes,
    rows: Sequence[StudyRow],
    look: dict[str, SeriesStyle],
    slopes: Sequence[SlopeSeries],
) -> None:
    """Draw what each dataflow moved as points, and below it the slopes."""
    rooms = [room for row in rows if (room := _room(row)) is not None]
    for name, style in look.items():
        ran = [(_room(row), row.result) for row in rows if row.dataflow == name]
        known = [(room, total_of(run["bytes"]["dram"])) for room, run in ran if room and run]
        axes.plot(
            [room for room, _ in known],
            [moved for _, moved in known],
            **style.marker_look,
            linestyle="",
            label=name,
        )
    if rooms:
        low, high = min(rooms) / _BEYOND, max(rooms) * _BEYOND
        for slope, line in zip(slopes, _LINES, strict=False):
            _draw_slope(axes, slope, line, (low, high))
        axes.set_xlim(low, high)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: bytes_text(round(value)))
    axes.set_xlabel(ON_CHIP)
    axes.grid(visible=True)


def _room(row: StudyRow) -> int | None:
    """Return the memory on chip of a run, of its PEs too."""
    found: dict[str, Any] = {} if row.result is None else row.result["dram_bound"]
    return found.get("on_chip_bytes")


def _draw_slope(axes: Axes, slope: SlopeSeries, line: str, window: tuple[float, float]) -> None:
    """Draw the part of a slope that is in the window: from its last point before it on."""
    low, high = window
    before = [moved for room, moved in slope.points if room <= low]
    inside = [(room, moved) for room, moved in slope.points if low < room < high]
    steps = [*([(low, before[-1])] if before else []), *inside]
    if not steps:
        return
    steps.append((high, steps[-1][1]))
    axes.step(
        [room for room, _ in steps],
        [moved for _, moved in steps],
        where="post",
        color=LIMIT_COLOUR,
        linestyle=line,
        linewidth=0.8,
        label=slope.label,
    )
