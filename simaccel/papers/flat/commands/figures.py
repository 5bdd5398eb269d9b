"""Figures of the exhibits: roofline, utilisation by granularity, breakdown, bandwidth needed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from operator import mul
from typing import Any, Final

from simaccel.hardware import Accelerator, ArraySpec
from simaccel.numbers import BITS, BYTE
from simaccel.papers.flat.commands.rows import PARTS
from simaccel.report.figures.axes import draw_legend
from simaccel.report.figures.comparison import UTILISATION
from simaccel.report.figures.facets import (
    ACROSS,
    STRIP_INCHES,
    FacetPanel,
    FacetPoint,
    FigureAxis,
    draw_facets,
    draw_missing,
    draw_stacks,
    line_looks,
    name_facets,
    name_ticks,
    series_without,
)
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_HATCHES,
    SINGLE_COLUMN_INCHES,
    Axes,
    Figure,
    new_figure,
)
from simaccel.report.tables import Row
from simaccel.report.units import bytes_text, rate_text

_WIDTH: Final = 1.5 * SINGLE_COLUMN_INCHES
_HEIGHT, _LEGEND_ROW, _PANEL = 2.7, 0.14, 1.9
_BAR: Final = 0.8
_GIGA: Final = 1e9


def draw_granularity(rows: Sequence[Row], title: str, _: Accelerator) -> Figure:
    """Draw the utilisation of the attentions over the buffer, or what is swept (Fig. 9)."""
    panels: dict[int | None, list[FacetPoint]] = {}
    column = next(name for name in rows[0] if name not in {"seq_len", "dataflow"})
    is_size = column.endswith("bytes")
    for row in rows:
        share, tick = row["utilisation"], bytes_text(row[column]) if is_size else None
        point = FacetPoint(row["dataflow"], row[column], share and 100 * share, tick)
        panels.setdefault(row["seq_len"], []).append(point)
    over = FigureAxis(column.replace("_bytes", "").replace("_", " "), log=is_size)
    facets = [
        FacetPanel(
            points, over, FigureAxis(UTILISATION, zero=True), f"{n} tokens" * (len(panels) > 1)
        )
        for n, points in panels.items()
    ]
    rows_of_panels = -(-len(facets) // ACROSS)
    height = rows_of_panels * (_PANEL + STRIP_INCHES * len(series_without(facets))) + 0.8
    figure = new_figure(DOUBLE_COLUMN_INCHES, height + _LEGEND_ROW, title)
    return _draw_lines(figure, facets, "does not run", 105)


def _draw_lines(
    figure: Figure, facets: Sequence[FacetPanel], cross: str, top: int | None
) -> Figure:
    names = (point.series for facet in facets for point in facet.points)
    grid = draw_facets(figure, facets, line_looks(names))
    grid[0].set_ylim(0, top)
    draw_missing(grid, facets, cross)
    draw_legend(figure, grid)
    return figure


def draw_breakdown(rows: Sequence[Row], title: str, _: Accelerator) -> Figure:
    """Draw the cycles of each part of a model, in stacks (Fig. 15)."""
    keys = list(dict.fromkeys((row["seq_len"], row["dataflow"]) for row in rows))
    lengths = list(dict.fromkeys(length for length, _ in keys))
    places = {key: at + 0.6 * lengths.index(key[0]) for at, key in enumerate(keys)}
    figure = new_figure(_WIDTH, _HEIGHT + _LEGEND_ROW, title)
    axes = figure.subplots()
    heights_of = {(row["seq_len"], row["dataflow"], row["part"]): row["normalised"] for row in rows}
    parts = {
        part: ([heights_of.get((*key, part), 0.0) for key in keys], colour, hatch)
        for part, colour, hatch in zip(PARTS, SERIES_COLOURS, SERIES_HATCHES, strict=False)
        if any(row["part"] == part for row in rows)
    }
    draw_stacks(axes, [*places.values()], parts, _BAR)
    for at, key in enumerate(keys):
        top = sum(heights[at] for heights, *_ in parts.values())
        axes.text(places[key], top, f"{top:.2f}", ha="center", va="bottom", fontsize="small")
    axes.axhline(1, color=LIMIT_COLOUR, linestyle="--", linewidth=0.8)
    across = axes.get_xaxis_transform()
    name_ticks(axes, {at: key[1] for key, at in places.items()}, len(keys))
    for length in lengths if lengths != [None] else []:
        bars = [at for key, at in places.items() if key[0] == length]
        middle = sum(bars) / len(bars)
        axes.text(middle, 0.98, f"{length} tokens", ha="center", va="top", transform=across)
    axes.margins(y=0.2)
    axes.set_ylabel("cycles / ideal cycles")
    draw_legend(figure, [axes])
    return figure


def draw_bandwidth(rows: Sequence[Row], title: str, _: Accelerator) -> Figure:
    """Draw the bandwidth that each dataflow needs over the sequence length (Fig. 17)."""
    lengths = list(dict.fromkeys(row["seq_len"] for row in rows))
    points = [
        FacetPoint(
            row["dataflow"],
            lengths.index(row["seq_len"]),
            row["bytes_per_second"] and row["bytes_per_second"] / _GIGA,
            "" if row["seq_len"] is None else f"{row['seq_len']:,}",
        )
        for row in rows
    ]
    over, needed = FigureAxis("sequence length (tokens)"), "DRAM bandwidth needed (GB/s)"
    facet = FacetPanel(points, over, FigureAxis(needed, zero=True))
    figure = new_figure(_WIDTH, _HEIGHT + _LEGEND_ROW, title)
    return _draw_lines(figure, [facet], "no bandwidth is enough", None)


_ROOF_WIDTH: Final = 1.8 * SINGLE_COLUMN_INCHES
_ROOF_HEIGHT: Final = 3.2
_MOST_NAMES: Final = 20
_TERA: Final = 1e12
_MINOR: Final = (2, 5)
_ABOVE, _BELOW = 0.65, 0.4
"""Positions of a roof's name along it."""


def draw_roofline(rows: Sequence[Row], title: str, accelerator: Accelerator) -> Figure:
    """Draw a roofline: MACs per second over MACs per byte, and a second axis in operations.

    Roofs are the peak, the DRAM bandwidth, and the rate at which a systolic array loads weights.
    Operators that lose most cycles are labelled first.
    """
    finite = [row for row in rows if row["macs_per_byte"] != float("inf")]
    hertz = accelerator.clock_hz / _TERA
    peak, rate = accelerator.pes, float(accelerator.bytes_per_cycle() or 0)
    lost = {id(row): row["macs"] * (1 / row["macs_per_cycle"] - 1 / peak) for row in finite}
    points = [
        FacetPoint(
            row["dataflow"],
            row["macs_per_byte"],
            row["macs_per_cycle"] * hertz,
            name=row["operator"],
        )
        for row in sorted(finite, key=lambda row: -lost[id(row)])
    ]
    intensity = "operational intensity (MACs per byte moved with DRAM)"
    facet = FacetPanel(points, FigureAxis(intensity, log=True), FigureAxis("TMAC/s", log=True))
    figure = new_figure(_ROOF_WIDTH, _ROOF_HEIGHT, title)
    (axes,) = draw_facets(figure, [facet], _roofline_looks([row["dataflow"] for row in rows]))
    axes.grid(visible=False)
    every = [point.x for point in points] or [1.0]
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
            _slope(axes, bytes_per_cycle * hertz, peak * hertz, label, colour, line, below=below)
    second = axes.secondary_yaxis("right", functions=(partial(mul, 2), partial(mul, 0.5)))
    second.set_ylabel("TOPS")
    for axis in (axes.xaxis, axes.yaxis, second.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(_minor_text)
    name_facets(figure, [axes], [facet], _MOST_NAMES)
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


def _slope(
    axes: Axes, rate: float, peak: float, label: str, colour: str, line: str, *, below: bool
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


def _roofline_looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return how points look: of the first dataflow as rings around those of the others."""
    found = line_looks(names, linestyle="")
    if len(found) > 1:
        look = next(iter(found.values()))
        ring = {"markersize": 7, "markerfacecolor": "none", "markeredgewidth": 0.9}
        look |= ring | {"markeredgecolor": look["color"]}
    return found
