"""Elements that figures share: the axis of cycles, titles, legends and their space."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch, StepPatch
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from simaccel.report.figures.style import CAUSE_LABELS, SMALL_POINTS, cause_look, in_order

_UNITS: Final = (
    (10**12, "trillion cycles"),
    (10**9, "billion cycles"),
    (10**6, "million cycles"),
    (1, "cycles"),
)
_FIRST_UNIT: Final = 2
"""Smallest value of an axis, in a unit, from which the unit is used: keeps ticks short."""
LETTERS_PER_INCH: Final = 18.5
"""Letters per inch of type size ``SMALL_POINTS``; a few less than fit, as widths differ."""
_WIDE_INCHES: Final = 5
_KEY_INCHES: Final = 0.3
"""Width of a legend's patch and the space around it."""
_LINE_INCHES: Final = 0.14
_GAP_INCHES: Final = 0.1
_DIGITS: Final = 4
"""Digits of positions, in fractions of a figure."""


def look(cause: str) -> dict[str, Any]:
    """Return the colour and hatch of a cause as arguments of matplotlib."""
    return fill(*cause_look(cause))


def fill(colour: str, hatch: str) -> dict[str, Any]:
    """Return a colour and a hatch, both without an edge, as arguments of matplotlib."""
    return {"facecolor": colour, "hatch": hatch or None, "edgecolor": "#000000", "linewidth": 0.0}


def inches_of(pixels: float, axes: Axes) -> float:
    """Return a length in the figure that contains the axes."""
    return float(pixels / axes.get_figure(root=True).dpi)  # type: ignore[union-attr]


def width_inches(axes: Axes) -> float:
    """Return the width of the figure that contains the axes."""
    return float(axes.get_figure(root=True).get_size_inches()[0])  # type: ignore[union-attr]


def cycle_unit(cycles: int) -> tuple[int, str]:
    """Return the unit for an axis of this many cycles.

    >>> cycle_unit(26_198_550), cycle_unit(104_859)
    ((1000000, 'million cycles'), (1, 'cycles'))
    """
    return next((n, name) for n, name in _UNITS if cycles >= _FIRST_UNIT * n or n == 1)


def cycle_axis(axes: Axes, start: int, end: int) -> None:
    """Label the x axis; drawn values count from ``start``, so that ticks stay short."""
    length = end - start
    size, unit = cycle_unit(length)
    most = 8 if width_inches(axes) > _WIDE_INCHES else 5
    places = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10], integer=size == 1)
    axes.xaxis.set_major_locator(places)
    axes.xaxis.set_major_formatter(lambda value, _: number_text(value / size))
    axes.set_xlim(0, length)
    origin = f" after cycle {start:,}" if start else ""
    axes.set_xlabel(f"time ({unit}{origin})")


def number_text(value: float) -> str:
    """Return the text of a tick.

    >>> number_text(12500), number_text(2.50), number_text(-0.0)
    ('12,500', '2.5', '0')
    """
    text = f"{value:,.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def freeze_layout(figure: Figure) -> None:
    """Lay a figure out once, with rounded positions.

    The solver of the layout leaves noise in the last bits, and SVG hashes all of them for the names
    of clip paths; rounding makes the same figure give the same bytes.
    """
    engine = figure.get_layout_engine()
    if engine is not None:  # drawing it, without rendering, would do the same and draw all besides
        engine.execute(figure)
    figure.set_layout_engine(None)  # "none" would have all drawn twice
    for part in (figure, *figure.subfigs):
        if isinstance(part, SubFigure):
            part.bbox_relative.set_points(part.bbox_relative.get_points().round(_DIGITS))
        for text in part.texts:
            x, y = text.get_position()
            text.set_position((round(x, _DIGITS), round(y, _DIGITS)))
    for axes in figure.axes:
        axes.set_position(Bbox(axes.get_position().get_points().round(_DIGITS)))


def settle(figure: Figure) -> None:
    """Lay a figure out once: all axes get the same left and right edges."""
    freeze_layout(figure)
    places = {axes: axes.get_position() for axes in figure.axes}
    left = round(max(place.x0 for place in places.values()), _DIGITS)
    right = round(min(place.x1 for place in places.values()), _DIGITS)
    for axes, place in places.items():
        axes.set_position((left, place.y0, right - left, place.height))


def wrap_text(text: str, width_inches: float, points: float = SMALL_POINTS) -> str:
    """Break a text of a type size into lines of a width."""
    letters = width_inches * LETTERS_PER_INCH * SMALL_POINTS / points
    return textwrap.fill(text, int(letters))


def steps(axes: Axes, values: Any, edges: Any, low: Any = 0, **look: Any) -> None:  # noqa: ANN401 - of matplotlib
    """Fill the steps between two lines; the axes keep their limits, which are slow to compute."""
    look = {"linewidth": 0} | look
    axes.add_artist(StepPatch(values, edges, baseline=low, fill=True, **look))


def draw_lanes(axes: Axes, names: Sequence[str], label: str) -> None:
    """Label the axis of y with lanes from top to bottom."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel(label)


def heading(axes: Axes, text: str) -> None:
    """Put a short text directly above the axes."""
    axes.set_title(text, fontsize="small", pad=2)


def cause_keys(causes: Iterable[str]) -> list[Artist]:
    """Return the legend entries of the causes."""
    return [
        Patch(label=CAUSE_LABELS.get(cause, cause), **look(cause)) for cause in in_order(causes)
    ]


def legend_columns(keys: Sequence[Any], width_inches: float) -> int:
    """Return how many columns a legend has room for, none of them empty."""
    lengths = [len(str(key.get_label())) for key in keys]
    for columns in range(len(keys), 1, -1):
        widths = [max(lengths[at::columns]) / LETTERS_PER_INCH for at in range(columns)]
        if sum(widths) + columns * _KEY_INCHES <= width_inches:
            return -(-len(keys) // -(-len(keys) // columns))
    return 1


def legend_inches(keys: Sequence[Artist], width_inches: float) -> float:
    """Return the height of a legend."""
    if not keys:
        return 0.0
    return _LINE_INCHES * -(-len(keys) // legend_columns(keys, width_inches)) + _GAP_INCHES


Where = Literal["outside lower center", "outside right upper"]


def draw_legend(
    figure: Figure | SubFigure, panels: Iterable[Axes], where: Where = "outside lower center"
) -> None:
    """Draw one legend for all panels: areas, then lines; by default below, row by row."""
    named: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    draw_keys(figure, sorted(named.values(), key=lambda key: not isinstance(key, Container)), where)


def draw_keys(
    figure: Figure | SubFigure, keys: Sequence[Any], where: Where = "outside lower center"
) -> None:
    """Draw the entries of a legend below everything, row by row, or to the right."""
    if not keys:
        return
    width = figure.bbox.width / figure.dpi
    columns = legend_columns(keys, width) if where == "outside lower center" else 1
    # matplotlib fills columns; people read rows.
    by_column = [key for column in range(columns) for key in keys[column::columns]]
    figure.legend(handles=by_column, loc=where, ncols=columns)


def text_inches(text: str) -> float:
    """Return the height of a text in the small type."""
    return _LINE_INCHES * len(text.splitlines()) + _GAP_INCHES
