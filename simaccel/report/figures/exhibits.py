"""Figures of the exhibits: roofline, utilisation by granularity, breakdown, bandwidth needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from simaccel.hardware import Accelerator
from simaccel.report.exhibits import PARTS, Exhibit, Row
from simaccel.report.figures.comparison import UTILISATION
from simaccel.report.figures.facets import draw_legend, draw_panels, draw_stacks, looks
from simaccel.report.figures.roofline import draw_roofline
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_HATCHES,
    SINGLE_COLUMN_INCHES,
    Figure,
    new_figure,
)
from simaccel.report.units import bytes_text

_WIDTH: Final = 1.5 * SINGLE_COLUMN_INCHES
_HEIGHT, _LEGEND_ROW, _PANEL = 2.7, 0.14, 1.9
_ACROSS: Final = 3
_BAR: Final = 0.8
_GIGA: Final = 1e9


def draw_exhibit(
    name: Exhibit, rows: Sequence[Row], title: str, accelerator: Accelerator
) -> Figure:
    """Draw the rows of an exhibit. Call it inside ``style()``."""
    if name == "roofline":
        return draw_roofline(rows, title, accelerator)
    draw = {"granularity": _granularity, "breakdown": _breakdown, "bandwidth": _bandwidth}[name]
    return draw(rows, title)


def _panels(rows: Sequence[Row]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row["seq_len"], []).append(row)
    return found


def _granularity(rows: Sequence[Row], title: str) -> Figure:
    panels = _panels(rows)
    across = min(_ACROSS, len(panels))
    names = list(dict.fromkeys(row["dataflow"] for row in rows))
    height = _PANEL * -(-len(panels) // across) + 0.8 + _LEGEND_ROW * -(-len(names) // 6)
    figure = new_figure(DOUBLE_COLUMN_INCHES, height, title)
    grid = draw_panels(figure, len(panels), _ACROSS, sharey=True)
    column = next(name for name in rows[0] if name not in {"seq_len", "dataflow"})
    for axes, (length, panel_rows) in zip(grid, panels.items(), strict=True):
        for dataflow, style in looks(names).items():
            points = [row for row in panel_rows if row["dataflow"] == dataflow]
            xs, ys = ([row[name] for row in points] for name in (column, "utilisation"))
            shares = [float("nan") if share is None else 100 * share for share in ys]
            axes.plot(xs, shares, **style.line_look, label=dataflow)
        values = sorted({row[column] for row in panel_rows})
        if column.endswith("bytes"):
            axes.set_xscale("log", base=2)
            axes.minorticks_off()
            shown = values[:: -(-len(values) // max(2, 10 // across))]
            axes.set_xticks(shown, [bytes_text(n_bytes) for n_bytes in shown])
        axes.set_ylim(0, 105)
        axes.set_title("" if length is None or len(panels) == 1 else f"{length} tokens")
        axes.set_xlabel(column.replace("_bytes", " (bytes)").replace("_", " "))
    grid[0].set_ylabel(UTILISATION)
    draw_legend(figure, grid[:1])
    return figure


def _breakdown(rows: Sequence[Row], title: str) -> Figure:
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
    axes.set_xticks(
        [*places.values()],
        [dataflow for _, dataflow in keys],
        rotation=45 * (len(keys) > 6),  # noqa: PLR2004
    )
    for length in lengths if lengths != [None] else []:
        there = [at for key, at in places.items() if key[0] == length]
        axes.text(
            sum(there) / len(there),
            -0.22 if len(keys) > 6 else -0.14,  # noqa: PLR2004
            f"{length} tokens",
            ha="center",
            va="top",
            transform=axes.get_xaxis_transform(),
        )
    axes.margins(y=0.12)
    axes.set_ylabel("cycles / ideal cycles")
    figure.legend(loc="outside lower center", ncols=4)
    return figure


def _bandwidth(rows: Sequence[Row], title: str) -> Figure:
    figure = new_figure(_WIDTH, _HEIGHT + _LEGEND_ROW, title)
    axes = figure.subplots()
    lengths = list(dict.fromkeys(row["seq_len"] for row in rows))
    names = list(dict.fromkeys(row["dataflow"] for row in rows))
    for dataflow, style in looks(names).items():
        by_length = {
            row["seq_len"]: row["bytes_per_second"] for row in rows if row["dataflow"] == dataflow
        }
        values = [by_length.get(length) for length in lengths]
        rates = [float("nan") if value is None else value / _GIGA for value in values]
        axes.plot(range(len(lengths)), rates, **style.line_look, label=dataflow)
        for at, value in enumerate(values):
            if value is None:
                axes.plot(at, 0.02, "x", color=style.colour, transform=axes.get_xaxis_transform())
    axes.set_xticks(range(len(lengths)), ["" if n is None else f"{n:,}" for n in lengths])
    axes.set_xlim(-0.3, len(lengths) - 0.7)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("sequence length (tokens); x: no bandwidth is enough")
    axes.set_ylabel("DRAM bandwidth needed (GB/s)")
    figure.legend(loc="outside lower center", ncols=6)
    return figure
