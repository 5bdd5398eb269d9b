"""The roofline: what groups of operators reach, under the roofs of memory and array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from simaccel.hardware import Accelerator, ArraySpec
from simaccel.numbers import BITS, BYTE
from simaccel.report.exhibits import Row, peak_bytes_per_cycle
from simaccel.report.figures.axes import freeze_layout
from simaccel.report.figures.facets import draw_legend, looks
from simaccel.report.figures.point_names import name_points
from simaccel.report.figures.style import (
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SINGLE_COLUMN_INCHES,
    Axes,
    Figure,
    new_figure,
)
from simaccel.report.units import rate_text

_WIDTH: Final = 1.8 * SINGLE_COLUMN_INCHES
_HEIGHT: Final = 3.2
_MOST_NAMES: Final = 20
_TERA: Final = 1e12
_MINOR: Final = (2, 5)
_ABOVE, _BELOW = 0.65, 0.4
"""Places of a roof's name along it."""


def draw_roofline(rows: Sequence[Row], title: str, accelerator: Accelerator) -> Figure:
    """Draw MACs per second over MACs per byte, and names, of those first that lose most cycles.

    A second axis counts operations. Beside the bandwidth of DRAM, the rate at which a systolic
    array takes its weights is a roof of its own.
    """
    finite = [row for row in rows if row["macs_per_byte"] != float("inf")]
    hertz = accelerator.clock_hz / _TERA
    peak, rate = accelerator.pes, peak_bytes_per_cycle(accelerator)
    figure = new_figure(_WIDTH, _HEIGHT, title)
    axes = figure.subplots()
    every = [row["macs_per_byte"] for row in finite] or [1.0]
    ridge = peak / rate if rate else min(every)
    low, high = min(*every, ridge) / 2, max(*every, ridge) * 4
    floor = min([row["macs_per_cycle"] for row in finite] or [peak]) / 2.5 * hertz
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(floor, peak * 2 * hertz))
    axes.plot([low, high], [peak * hertz] * 2, color=LIMIT_COLOUR, linewidth=0.9)
    axes.text(low, peak * 1.08 * hertz, " peak of the array", fontsize="x-small")
    loads = _loading_rate(accelerator)
    for bytes_per_cycle, other, name, colour, line in (
        (rate, loads, "DRAM", LIMIT_COLOUR, "-"),
        (loads, rate, "weights into the array", SERIES_COLOURS[2], "--"),
    ):
        if bytes_per_cycle:
            label = f"{name} {rate_text(round(bytes_per_cycle * accelerator.clock_hz))}"
            below = bytes_per_cycle < (other or 0.0)
            slope = bytes_per_cycle * hertz
            _slope(axes, slope, peak * hertz, label, colour, line, below=below)
    _points(axes, finite, [row["dataflow"] for row in rows], hertz)
    axes.set_xlabel("operational intensity (MACs per byte moved with DRAM)")
    axes.set_ylabel("TMAC/s")
    second = axes.secondary_yaxis("right", functions=(_double_value, _halve_value))  # type: ignore[arg-type]
    second.set_ylabel("TOPS")
    for axis in (axes.xaxis, axes.yaxis, second.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(_minor_text)
    draw_legend(figure, [axes])
    freeze_layout(figure)
    lost = {id(row): row["macs"] * (1 / row["macs_per_cycle"] - 1 / peak) for row in finite}
    named = [
        (row["operator"], (row["macs_per_byte"], row["macs_per_cycle"] * hertz))
        for row in sorted(finite, key=lambda row: -lost[id(row)])
    ]
    name_points(axes, named, _MOST_NAMES)
    return figure


def _loading_rate(accelerator: Accelerator) -> float | None:
    """Return the bytes of weights that a systolic array takes in a cycle."""
    if not isinstance(accelerator.array, ArraySpec):
        return None
    given = accelerator.precision.weights
    return accelerator.array.cols * (2.0 if given is None else BITS[given] / BYTE)


def _minor_text(value: float, _place: float) -> str:
    """Write twice and five times a power of ten, between the powers themselves."""
    digit = round(value / 10 ** math.floor(math.log10(value)))
    return f"{value:g}" if digit in _MINOR else ""


def _double_value(value: float) -> float:
    return 2 * value


def _halve_value(value: float) -> float:
    return value / 2


def _slope(
    axes: Axes,
    rate: float,
    peak: float,
    label: str,
    colour: str,
    line: str,
    *,
    below: bool,
) -> None:
    """Draw the roof of a rate of bytes, as far as the peak, and its name above it or ``below``."""
    low, _ = axes.get_xlim()
    floor, _ = axes.get_ylim()
    start = max(low, floor / rate)
    if start * rate >= peak:
        return
    axes.plot([start, peak / rate], [start * rate, peak], line, color=colour, linewidth=0.9)
    middle = start * (peak / rate / start) ** (_BELOW if below else _ABOVE)
    slope = rate * (0.92 if below else 1.08)
    axes.text(
        middle,
        middle * slope,
        label,
        rotation=math.degrees(math.atan(slope)),  # in data
        transform_rotates_text=True,
        rotation_mode="anchor",
        ha="center",
        va="top" if below else "bottom",
        fontsize="x-small",
        color=colour,
    )


def _points(axes: Axes, rows: Sequence[Row], dataflows: Sequence[str], hertz: float) -> None:
    """Draw each dataflow's points: the first as rings around those of the others."""
    names = list(dict.fromkeys(dataflows))
    for at, (dataflow, style) in enumerate(looks(names).items()):
        points = [row for row in rows if row["dataflow"] == dataflow]
        ring = at == 0 and len(names) > 1
        axes.plot(
            [row["macs_per_byte"] for row in points],
            [row["macs_per_cycle"] * hertz for row in points],
            style.marker,
            color=style.colour,
            markersize=7 if ring else 4,
            markerfacecolor="none" if ring else style.colour,
            markeredgecolor=style.colour if ring else "white",
            markeredgewidth=0.9 if ring else 0.4,
            label=dataflow,
            zorder=3,
        )
