"""The roofline: what groups of operators reach, under the roofs of memory and array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from simaccel.hardware import Accelerator, ArraySpec
from simaccel.numbers import BITS, BYTE
from simaccel.report.exhibits import Row, peak_bytes_per_cycle
from simaccel.report.figures.comparison import looks
from simaccel.report.figures.style import (
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SINGLE_COLUMN_INCHES,
    new_figure,
)
from simaccel.report.titles import wrap_title
from simaccel.report.units import rate_text, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH: Final = 1.8 * SINGLE_COLUMN_INCHES
_HEIGHT: Final = 3.2
_MOST_NAMES: Final = 10
_TERA: Final = 1e12
_LETTER, _LINE = 0.0105, 0.043
"""Parts of the axes that a letter of a name is wide, and a line of them high."""
_PLACES: Final = tuple(
    (right, step * 0.5 * _LINE)
    for step in (-1.6, 1.6, -3.6, 3.6, -5.6, 5.6, -7.6, 7.6)
    for right in (True, False)
)
"""Where a name may stand beside its point: on which side, and how much higher."""


def draw_roofline(rows: Sequence[Row], title: str, accelerator: Accelerator) -> Figure:
    """Draw MACs per second over MACs per byte, the operators with most work by name.

    A second axis counts operations. Beside the bandwidth of DRAM, the rate at which a systolic
    array takes its weights is a roof of its own.
    """
    finite = [row for row in rows if row["macs_per_byte"] != float("inf")]
    hertz = accelerator.clock_hz / _TERA
    peak, rate = accelerator.pes, peak_bytes_per_cycle(accelerator)
    figure = new_figure(_WIDTH, _HEIGHT)
    figure.suptitle(wrap_title(title, 82), fontsize="medium", x=0.01, ha="left")
    axes = figure.subplots()
    every = [row["macs_per_byte"] for row in finite] or [1.0]
    ridge = peak / rate if rate else min(every)
    low, high = min(*every, ridge) / 2, max(*every, ridge) * 4
    floor = min([row["macs_per_cycle"] for row in finite] or [peak]) / 2.5 * hertz
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(floor, peak * 2 * hertz))
    axes.plot([low, high], [peak * hertz] * 2, color=LIMIT_COLOUR, linewidth=0.9)
    axes.text(high, peak * 1.08 * hertz, "peak of the array ", ha="right", fontsize="small")
    if rate:
        text = rate_text(round(rate * accelerator.clock_hz))
        _slope(axes, rate * hertz, peak * hertz, f"DRAM {text}", LIMIT_COLOUR, "-")
    if isinstance(accelerator.array, ArraySpec):
        loads = accelerator.array.cols * _bytes_of_weight(accelerator)
        text = rate_text(round(loads * accelerator.clock_hz))
        label = f"weights into the array {text}"
        _slope(axes, loads * hertz, peak * hertz, label, SERIES_COLOURS[2], "--")
    _points(axes, finite, [row["dataflow"] for row in rows], hertz)
    _name_points(axes, finite, hertz)
    axes.set_xlabel("operation intensity (MACs per byte moved with DRAM)")
    axes.set_ylabel("TMAC/s")
    second = axes.secondary_yaxis("right", functions=(_double_value, _halve_value))  # type: ignore[arg-type]
    second.set_ylabel("TOPS")
    for axis in (axes.xaxis, axes.yaxis, second.yaxis):
        axis.set_major_formatter("{x:g}")
    figure.legend(loc="outside lower center", ncols=6)
    return figure


def _bytes_of_weight(accelerator: Accelerator) -> float:
    """Return the bytes of a weight as the accelerator has them."""
    given = accelerator.precision.weights
    return 2.0 if given is None else BITS[given] / BYTE


def _double_value(value: float) -> float:
    return 2 * value


def _halve_value(value: float) -> float:
    return value / 2


def _slope(axes: Axes, rate: float, peak: float, label: str, colour: str, line: str) -> None:
    """Draw the roof of a rate of bytes, as far as the peak; the name of a dashed one is below."""
    below = line == "--"
    low, _ = axes.get_xlim()
    floor, _ = axes.get_ylim()
    start = max(low, floor / rate)
    if start * rate >= peak:
        return
    axes.plot([start, peak / rate], [start * rate, peak], line, color=colour, linewidth=0.9)
    middle = math.sqrt(start * peak / rate)
    there = axes.transData.transform([(start, start * rate), (peak / rate, peak)])
    (x0, y0), (x1, y1) = there
    axes.text(
        middle,
        middle * rate * (0.92 if below else 1.08),
        label,
        rotation=math.degrees(math.atan2(y1 - y0, x1 - x0)),
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


def _name_points(axes: Axes, rows: Sequence[Row], hertz: float) -> None:
    """Write the names of the operators with most work beside their points, none over another."""
    places: dict[str, tuple[float, float]] = {}
    for row in sorted(rows, key=lambda row: -row["macs"]):
        if row["operator"] not in places and len(places) < _MOST_NAMES:
            point = (row["macs_per_byte"], row["macs_per_cycle"] * hertz)
            x, y = axes.transAxes.inverted().transform(axes.transData.transform(point))
            places[row["operator"]] = (float(x), float(y))
    taken: list[tuple[float, float, float]] = []
    for name, (x, y) in places.items():
        text = short_name(name, 18)
        width = len(text) * _LETTER
        for right, up in _PLACES:
            left = x + 0.015 if right else x - 0.015 - width
            box = (left, y + up, width)
            if left >= 0 and left + width <= 1 and not any(_over(box, other) for other in taken):
                taken.append(box)
                axes.text(
                    left, y + up, text, transform=axes.transAxes, va="center", fontsize="x-small"
                )
                break


def _over(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Whether two names lie on each other: (left end, middle, width) of each."""
    apart = one[0] + one[2] < other[0] or other[0] + other[2] < one[0]
    return not apart and abs(one[1] - other[1]) < _LINE
