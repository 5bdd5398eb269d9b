"""Parts that the figures share: the axis of cycles, titles, legends and room for them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from simaccel.report.figures.style import (
    CAUSE_COLOURS,
    CAUSE_LABELS,
    SMALL_POINTS,
    in_order,
)
from simaccel.report.units import cycles_text

UNKNOWN_CAUSE: Final = ("#FFFFFF", "ooo")
_UNITS: Final = (
    (10**12, "trillion cycles"),
    (10**9, "billion cycles"),
    (10**6, "million cycles"),
    (1, "cycles"),
)
_FIRST_UNIT: Final = 2
"""A unit is used from this many of it on, so that ticks have few digits behind the point."""
_LETTERS_PER_INCH: Final = 18.5
"""Of ``SMALL_POINTS``; a little fewer than fit, as letters differ in width."""
_WIDE_INCHES: Final = 5
_KEY_INCHES: Final = 0.3
"""Of a legend's patch and the space around it."""


def look(cause: str) -> dict[str, Any]:
    """Give the colour and hatch of a cause as matplotlib takes them."""
    return fill(*CAUSE_COLOURS.get(cause, UNKNOWN_CAUSE))


def fill(colour: str, hatch: str) -> dict[str, Any]:
    """Give a colour and a hatch, both without an edge, as matplotlib takes them."""
    return {"facecolor": colour, "hatch": hatch or None, "edgecolor": "#000000", "linewidth": 0.0}


def figure_width(figure: FigureBase) -> float:
    """Give the width in inches of the whole figure that a part belongs to."""
    return float(figure.get_figure(root=True).get_size_inches()[0])  # type: ignore[union-attr]


def width_inches(axes: Axes) -> float:
    """Give the width of the whole figure that axes stand in."""
    return float(axes.get_figure(root=True).get_size_inches()[0])  # type: ignore[union-attr]


def cycle_unit(cycles: int) -> tuple[int, str]:
    """Choose the unit of an axis that is so many cycles long.

    >>> cycle_unit(26_198_550), cycle_unit(104_859)
    ((1000000, 'million cycles'), (1, 'cycles'))
    """
    return next((n, name) for n, name in _UNITS if cycles >= _FIRST_UNIT * n or n == 1)


def cycle_axis(axes: Axes, start: int, end: int) -> None:
    """Label the x axis; what is drawn counts from ``start``, so that ticks stay short."""
    length = end - start
    size, unit = cycle_unit(length)
    wide = width_inches(axes) > _WIDE_INCHES
    steps = MaxNLocator(8 if wide else 5, steps=[1, 2, 2.5, 5, 10], integer=size == 1)
    ticks = [tick for tick in steps.tick_values(0, length / size) if tick * size <= length]
    axes.set_xticks([tick * size for tick in ticks], [number_text(tick) for tick in ticks])
    axes.set_xlim(0, length)
    origin = f" after cycle {cycles_text(start)}" if start else ""
    axes.set_xlabel(f"time ({unit}{origin})")


def number_text(value: float) -> str:
    """Write the number of a tick.

    >>> number_text(12500), number_text(2.50), number_text(-0.0)
    ('12,500', '2.5', '0')
    """
    text = f"{value:,.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def align(figure: Figure) -> None:
    """Give all axes of a page the same left and right edge. It keeps its layout from then on."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    places = {axes: axes.get_position() for axes in figure.axes}
    left = max(place.x0 for place in places.values())
    right = min(place.x1 for place in places.values())
    for axes, place in places.items():
        axes.set_position((left, place.y0, right - left, place.height))


def wrapped(text: str, width_inches: float, points: float = SMALL_POINTS) -> str:
    """Break a text of a type size into lines that fit a width."""
    letters = width_inches * _LETTERS_PER_INCH * SMALL_POINTS / points
    return textwrap.fill(text, int(letters))


def heading(axes: Axes, text: str) -> None:
    """Put a short text right above axes."""
    axes.set_title(text, fontsize="small", pad=2)


def cause_legend(figure: FigureBase, causes: Iterable[str]) -> None:
    """Explain the causes that occur, below everything."""
    causes = in_order(causes)
    handles = [Patch(**look(cause)) for cause in causes]
    legend_below(figure, handles, [CAUSE_LABELS.get(cause, cause) for cause in causes])


def legend_below(figure: FigureBase, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Explain colours below everything, in as many columns as have room."""
    if not handles:
        return
    longest = max(map(len, labels)) / _LETTERS_PER_INCH + _KEY_INCHES
    columns = max(1, int(figure_width(figure) / longest))
    columns = min(columns, len(handles))
    columns = -(-len(handles) // -(-len(handles) // columns))
    # matplotlib fills columns; people read rows.
    order = [at for column in range(columns) for at in range(column, len(handles), columns)]
    keys, texts = [handles[at] for at in order], [labels[at] for at in order]
    figure.legend(keys, texts, loc="outside lower center", ncols=columns)
