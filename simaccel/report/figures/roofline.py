"""The roofline: what groups of operators reach, under the roofs of memory and array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
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
_MINOR: Final = (2, 5)
_NEAR: Final = 1.6
"""By how much two slopes differ so that a name fits between them."""
_LETTER, _LINE = 0.0105, 0.043
"""Parts of the axes that a letter of a name is wide, and a line of them high."""
_PLACES: Final = tuple(
    (right, step * 0.5 * _LINE)
    for step in (-1.6, 1.6, -3.6, 3.6, -5.6, 5.6, -7.6, 7.6)
    for right in (True, False)
)
"""Where a name may stand beside its point: on which side, and how much higher."""
_ABOVE: Final = (0.65, 0.8, 0.35, 0.5)
_BELOW: Final = (0.3, 0.72, 0.6, 0.5)
"""Places of a roof's name along it, the first that is free."""
_APART: Final = 0.12
"""Of the axes: a name so far from all points is free."""


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
    axes.text(low, peak * 1.08 * hertz, " peak of the array", fontsize="x-small")
    loads = _loading_rate(accelerator)
    for bytes_per_cycle, name, colour, line in (
        (rate, "DRAM", LIMIT_COLOUR, "-"),
        (loads, "weights into the array", SERIES_COLOURS[2], "--"),
    ):
        if bytes_per_cycle:
            label = f"{name} {rate_text(round(bytes_per_cycle * accelerator.clock_hz))}"
            beside = _label_slope(rate, loads, below=line == "--") / bytes_per_cycle
            draw = partial(_slope, axes, bytes_per_cycle * hertz, peak * hertz, label, colour, line)
            draw(beside, [(row["macs_per_byte"], row["macs_per_cycle"] * hertz) for row in finite])
    _points(axes, finite, [row["dataflow"] for row in rows], hertz)
    roofs = [peak * hertz, *([rate * hertz] if rate else [])]
    _name_points(axes, finite, hertz, roofs)
    axes.set_xlabel("operation intensity (MACs per byte moved with DRAM)")
    axes.set_ylabel("TMAC/s")
    second = axes.secondary_yaxis("right", functions=(_double_value, _halve_value))  # type: ignore[arg-type]
    second.set_ylabel("TOPS")
    for axis in (axes.xaxis, axes.yaxis, second.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(_minor_text)
    figure.legend(loc="outside lower center", ncols=6)
    return figure


def _loading_rate(accelerator: Accelerator) -> float | None:
    """Return the bytes of weights that a systolic array takes in a cycle."""
    if not isinstance(accelerator.array, ArraySpec):
        return None
    given = accelerator.precision.weights
    return accelerator.array.cols * (2.0 if given is None else BITS[given] / BYTE)


def _label_slope(rate: float | None, loads: float | None, *, below: bool) -> float:
    """Return the slope that the name of a roof stands beside: of two near ones the outer one."""
    slopes = [slope for slope in (rate, loads) if slope]
    own = slopes[-1] if below else slopes[0]
    near = max(slopes) < _NEAR * min(slopes)
    return (min if below else max)(slopes) if near else own


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
    beside: float,
    points: Sequence[tuple[float, float]],
) -> None:
    """Draw the roof of a rate of bytes, as far as the peak; the name of a dashed one is below.

    ``beside``: how much steeper the slope is that the name stands beside. It stands apart from the
    ``points``, as far as there is room.
    """
    below = line == "--"
    low, _ = axes.get_xlim()
    floor, _ = axes.get_ylim()
    start = max(low, floor / rate)
    if start * rate >= peak:
        return
    axes.plot([start, peak / rate], [start * rate, peak], line, color=colour, linewidth=0.9)
    along = [start * (peak / rate / start) ** share for share in (_BELOW if below else _ABOVE)]
    away = [_nearest(axes, (x, x * rate), points) for x in along]
    middle = next((x for x, far in zip(along, away, strict=True) if far > _APART), None)
    middle = middle or along[away.index(max(away))]
    there = axes.transData.transform([(start, start * rate), (peak / rate, peak)])
    (x0, y0), (x1, y1) = there
    axes.text(
        middle,
        middle * rate * beside * (0.92 if below else 1.08),
        label,
        rotation=math.degrees(math.atan2(y1 - y0, x1 - x0)),
        rotation_mode="anchor",
        ha="center",
        va="top" if below else "bottom",
        fontsize="x-small",
        color=colour,
    )


def _nearest(
    axes: Axes, place: tuple[float, float], points: Sequence[tuple[float, float]]
) -> float:
    """Return how far the nearest of some points is from a place, in parts of the axes."""
    x, y, _ = _place(axes, *place)
    others = [_place(axes, *point) for point in points]
    return min((math.hypot(x - left, y - up) for left, up, _ in others), default=1.0)


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


def _name_points(axes: Axes, rows: Sequence[Row], hertz: float, roofs: Sequence[float]) -> None:
    """Write the names of the operators with most work beside their points, none over another.

    ``roofs``: the peak, and the slope of the memory's; no name lies on either.
    """
    places: dict[str, tuple[float, float]] = {}
    for row in sorted(rows, key=lambda row: -row["macs"]):
        if row["operator"] not in places and len(places) < _MOST_NAMES:
            point = (row["macs_per_byte"], row["macs_per_cycle"] * hertz)
            places[row["operator"]] = _place(axes, *point)[:2]
    peak, *slopes = roofs
    roof = [_place(axes, at, y) for at in _ticks(axes) for y in (peak, *(n * at for n in slopes))]
    taken: list[tuple[float, float, float]] = []
    for name, (x, y) in places.items():
        text = short_name(name, 18)
        width = len(text) * _LETTER
        for right, up in _PLACES:
            left = x + 0.015 if right else x - 0.015 - width
            box = (left, y + up, width)
            free = not any(_do_overlap(box, other) for other in taken)
            free = free and not any(_do_overlap(box, other, _LINE / 2) for other in roof)
            if left >= 0 and left + width <= 1 and free:
                taken.append(box)
                axes.text(
                    left, y + up, text, transform=axes.transAxes, va="center", fontsize="x-small"
                )
                break


def _ticks(axes: Axes) -> list[float]:
    """Return places along the logarithmic x axis, a letter apart."""
    low, high = axes.get_xlim()
    count = round(1 / _LETTER)
    return [float(low * (high / low) ** (at / count)) for at in range(count + 1)]


def _place(axes: Axes, x: float, y: float) -> tuple[float, float, float]:
    """Return where a point is in parts of the axes, as a box without width."""
    left, up = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
    return float(left), float(up), 0.0


def _do_overlap(
    one: tuple[float, float, float], other: tuple[float, float, float], apart_by: float = _LINE
) -> bool:
    """Whether two names lie on each other: (left end, middle, width) of each."""
    apart = one[0] + one[2] < other[0] or other[0] + other[2] < one[0]
    return not apart and abs(one[1] - other[1]) < apart_by
