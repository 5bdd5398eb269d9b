"""Styles of series, panels, legends and axes, which figures of studies share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simaccel.report.figures.style import (
    SERIES_COLOURS,
    SERIES_HATCHES,
    SERIES_MARKERS,
    Axes,
    Axis,
    FigureBase,
)
from simaccel.report.units import figure_text
from simaccel.study.figure_table import FIGURES

EDGE: Final[dict[str, Any]] = {"edgecolor": "#333333", "linewidth": 0.3}
"""Around what is filled; also the colour of hatches."""
_NUMBERED: Final = 7.0
"""The least part of a stack that carries its number, in percent of the axis."""
_WHITE: Final = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.8}
_FAMILIES: Final = ("flat", "flex", "flash", "naive")
"""Each keeps its colour from figure to figure; others take the next ones."""
_LINES: Final = ("-", "--", "-.", ":")
_LOG_TICKS: Final = ((1.0, (1.0, 2.0, 5.0)), (2.5, (1.0, 3.0)), (math.inf, (1.0,)))
"""Up to so many decades: the ticks in each."""
_INTERVALS: Final = 4
"""Of a linear axis, about."""
_LOG_RATIO: Final = 8
"""An axis is logarithmic where its largest value is so many times its smallest."""


@dataclass(frozen=True)
class SeriesStyle:
    """The style of a dataflow: a colour for its family, a marker of its own."""

    colour: str
    hatch: str
    marker: str
    line: str

    @property
    def line_look(self) -> dict[str, Any]:
        """The style of a line with markers, as matplotlib takes it."""
        return {"linestyle": self.line, **self.marker_look}

    @property
    def marker_look(self) -> dict[str, Any]:
        """The style of markers, as matplotlib takes it."""
        edge = {"markeredgecolor": "white", "markeredgewidth": 0.4}
        return {"color": self.colour, "marker": self.marker, "markersize": 4, **edge}


def looks(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """Return each dataflow its look; ``flat`` and ``flat-r`` share a colour, not line and marker.

    >>> [look.line for look in looks(["flat", "flat-r", "naive"]).values()]
    ['-', '--', '-']
    """
    names = list(dict.fromkeys(names))
    families = list(dict.fromkeys((*_FAMILIES, *map(_family, names))))
    seen: dict[str, int] = {}
    by_name: dict[str, SeriesStyle] = {}
    for name in names:
        family = families.index(_family(name))
        nth = seen[_family(name)] = seen.get(_family(name), -1) + 1
        by_name[name] = SeriesStyle(
            SERIES_COLOURS[family % len(SERIES_COLOURS)],
            SERIES_HATCHES[nth % len(SERIES_HATCHES)],
            SERIES_MARKERS[len(by_name) % len(SERIES_MARKERS)],
            _LINES[nth % len(_LINES)],
        )
    return by_name


def _family(name: str) -> str:
    return name.partition("-")[0]


def draw_panels(figure: FigureBase, count: int, most: int, *, sharey: bool = False) -> list[Axes]:
    """Return ``count`` axes, at most ``most`` side by side, with a grid."""
    across = max(1, min(most, count))
    down = max(1, -(-count // across))
    every = list(figure.subplots(down, across, squeeze=False, sharey=sharey).flat)
    for axes in every[count:]:
        axes.set_axis_off()
    for axes in every[:count]:
        axes.grid(visible=True)
    return every[:count]


def draw_stacks(
    axes: Axes,
    places: Sequence[float],
    parts: Mapping[str, tuple[Sequence[float], str, str]],
    size: float,
    *,
    lying: bool = False,
    numbered: bool = False,
) -> None:
    """Draw bars of parts, one on the other; those below zero to the other side.

    ``parts``: values at the places, colour and hatch, by label. ``numbered``: those that have room
    carry their numbers.
    """
    ends = {side: [0.0] * len(places) for side in (False, True)}
    draw = axes.barh if lying else axes.bar
    for label, (values, colour, hatch) in parts.items():
        starts = [ends[value < 0][at] for at, value in enumerate(values)]
        bars = draw(places, values, size, starts, color=colour, hatch=hatch, label=label, **EDGE)
        for at, value in enumerate(values):
            ends[value < 0][at] += value
        if numbered:
            texts = [f"{value:.0f}" if value >= _NUMBERED else "" for value in values]
            axes.bar_label(bars, texts, label_type="center", fontsize="x-small", bbox=_WHITE)


def draw_legend(figure: FigureBase, panels: Sequence[Axes], columns: int = 6) -> None:
    """Explain below, each once, what the panels name."""
    named: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    if named:
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns)


def label_axis(axis: Axis, column: str, low: float, high: float) -> None:
    """Name the axis of a figure, and write its few ticks as tables do."""
    figure = FIGURES[column]

    def tick(value: float, _: object) -> str:
        number, _, unit = figure_text(value, figure.unit).partition(" ")
        number = number.rstrip("0").rstrip(".") if "." in number else number
        return "" if value < 0 else f"{number} {unit}".strip() if value else "0"

    axis.set_label_text(figure.label)
    scale_axis(axis, low, high, of_bytes=figure.unit == "B")
    axis.set_major_formatter(tick)


def scale_axis(axis: Axis, low: float, high: float, *, of_bytes: bool = False) -> None:
    """Let an axis be logarithmic where values are far from each other, with few ticks.

    Those of bytes are powers of two, or multiples of one.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, MultipleLocator, NullLocator

    if 0 < low * _LOG_RATIO <= high < math.inf:
        decades = math.log10(high / low)
        ticks = next(ticks for most, ticks in _LOG_TICKS if decades <= most)
        base, subs = (2, (1.0,)) if of_bytes else (10, ticks)
        (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
        axis.set_major_locator(LogLocator(base, subs=subs, numticks=6))
        axis.set_minor_locator(NullLocator())
    elif of_bytes and 0 <= low < high < math.inf:
        step = 2 ** math.ceil(math.log2((high - low) / _INTERVALS))
        axis.set_major_locator(MultipleLocator(step))
    else:
        axis.set_major_locator(MaxNLocator(_INTERVALS, min_n_ticks=3))
