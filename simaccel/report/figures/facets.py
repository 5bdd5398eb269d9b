"""Points in panels: series, axes, names beside points; and stacks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Literal

from matplotlib.ticker import Locator, LogLocator, MaxNLocator, MultipleLocator, NullLocator

from simaccel.numbers import is_logarithmic
from simaccel.report.figures.axes import LETTERS_PER_INCH, draw_legend, freeze_layout, inches_of
from simaccel.report.figures.names import Name, name_places
from simaccel.report.figures.style import (
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_HATCHES,
    SERIES_MARKERS,
    Axes,
    Axis,
    Figure,
    SubFigure,
)
from simaccel.report.units import figure_text
from simaccel.study.figure_table import FIGURES, Unit

EDGE: Final[dict[str, Any]] = {"edgecolor": "#333333", "linewidth": 0.3}
"""Edges of filled shapes; also the colour of hatches."""
_NUMBERED: Final = 7.0
"""The smallest part of a stack with a number, in percent of the axis."""
_WHITE: Final = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.8}
_FAMILIES: Final = ("flat", "flex", "flash", "naive")
"""Dataflows with the same colour in every figure; others take the following colours."""
_LINES: Final = ("-", "--", "-.", ":")
_LOG_TICKS: Final = ((10, (1.0, 2.0, 5.0)), (10, (1.0, 3.0)), (10, (1.0,)))
_BYTE_TICKS: Final = ((2, (1.0,)),)
"""(base of a logarithmic axis, its ticks in each power), of which the first with room are taken"""
_TICK_INCHES: Final = {"x": 0.5, "y": 0.3}
"""Least distance of ticks."""
_MOST_INTERVALS: Final = 5
_ROOM: Final = 1.05
"""End of an axis that begins at 0, relative to the largest value."""
_STRIP: Final = 0.085
"""Height of a strip of crosses, relative to the axis."""
STRIP_INCHES: Final = 0.13
"""Height of a strip of crosses that can be read."""
_CROSS: Final[dict[str, Any]] = {
    "color": LIMIT_COLOUR,
    "linestyle": "",
    "marker": "x",
    "markersize": 3,
    "markeredgewidth": 0.6,
}
ACROSS: Final = 3
"""Most panels in a row."""
MOST_TICKS: Final = 12
"""Most named ticks across a figure of panels."""


@dataclass(frozen=True)
class SeriesStyle:
    """The style of a dataflow: the colour of its family, and a marker of its own."""

    colour: str
    hatch: str
    marker: str
    line: str


def looks(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """Return the style of each dataflow; ``flat`` and ``flat-r`` share a colour only.

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


def line_looks(names: Iterable[str], **others: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - of matplotlib
    """Return the style of each dataflow's line with markers, as arguments of `plot`, and others."""
    edge = {"markersize": 4, "markeredgecolor": "white", "markeredgewidth": 0.4}
    return {
        name: {"linestyle": s.line, "color": s.colour, "marker": s.marker, **edge, **others}
        for name, s in looks(names).items()
    }


def _family(name: str) -> str:
    return name.partition("-")[0]


@dataclass(frozen=True)
class FigureAxis:
    """An axis: its label, and the unit of its ticks (of `figure_text`; empty: plain numbers).

    ``log``: whether it is logarithmic; None: if values are far apart. ``zero``: it begins at 0.
    """

    label: str
    unit: Unit | Literal[""] = ""
    log: bool | None = None
    zero: bool = False


def scale_of(column: str) -> FigureAxis:
    """Return the axis of a figure."""
    return FigureAxis(FIGURES[column].label, FIGURES[column].unit)


@dataclass(frozen=True)
class FacetPoint:
    """A point of a series; ``y``: None is a gap.

    ``tick``: its text on the axis of x; None: a number. ``name``: the text beside it.
    """

    series: str
    x: float
    y: float | None
    tick: str | None = None
    name: str = ""


@dataclass(frozen=True)
class FacetPanel:
    """A panel: its points and axes. Names of points are those of the first ones first."""

    points: Sequence[FacetPoint]
    x: FigureAxis
    y: FigureAxis
    title: str = ""


def draw_facets(
    figure: Figure | SubFigure,
    facets: Sequence[FacetPanel],
    look: Mapping[str, Mapping[str, Any]],
    *,
    sharey: bool = True,
) -> list[Axes]:
    """Draw series as lines, steps or marks in panels, at most ``ACROSS`` side by side.

    ``look``: by series, in the order of the legend, arguments of matplotlib's ``plot``. With
    ``sharey``, all panels have the first one's axis of y.
    """
    across = max(1, min(ACROSS, len(facets)))
    down = max(1, -(-len(facets) // across))
    panels = list(figure.subplots(down, across, squeeze=False, sharey=sharey).flat)
    for axes in panels[len(facets) :]:
        axes.set_axis_off()
    for axes, facet in zip(panels, facets, strict=False):
        points = sorted(facet.points, key=attrgetter("x"))
        for name, style in look.items():
            if line := [point for point in points if point.series == name]:
                ys = [math.nan if point.y is None else point.y for point in line]
                axes.plot([point.x for point in line], ys, **style, label=name)
        ticks = {point.x: point.tick for point in points if point.tick is not None}
        if ticks:
            name_ticks(axes, ticks, MOST_TICKS // across, log=bool(facet.x.log))
            axes.set_xlabel(facet.x.label)
        else:
            set_scale(axes.xaxis, facet.x, [point.x for point in points])
        axes.set_title(facet.title)
        axes.grid(visible=True)
    for at, (axes, facet) in enumerate(zip(panels, facets, strict=False)):
        if not sharey or at % across == 0:
            shown = [point for each in (facets if sharey else [facet]) for point in each.points]
            set_scale(axes.yaxis, facet.y, [point.y for point in shown if point.y is not None])
    return panels[: len(facets)]


def draw_missing(panels: Sequence[Axes], facets: Sequence[FacetPanel], label: str) -> None:
    """Draw a cross for each point without y, in a strip of its series below the axis.

    The panels have equal axes of y, which begin at 0. ``label``: what a cross means.
    """
    without = series_without(facets)
    if not without:
        return
    top = panels[0].get_ylim()[1]
    strips = {name: -_STRIP * top * number for number, name in enumerate(without, 1)}
    ticks = [tick for tick in panels[0].get_yticks() if 0 <= tick <= top]
    texts = panels[0].yaxis.get_major_formatter().format_ticks(ticks)
    for axes, facet in zip(panels, facets, strict=True):
        missing = [point for point in facet.points if point.y is None]
        heights = [strips[point.series] for point in missing]
        axes.plot([point.x for point in missing], heights, **_CROSS, label=label)
        axes.axhline(0, color=LIMIT_COLOUR, linewidth=0.6)
    panels[0].set_yticks([*ticks, *strips.values()], [*texts, *strips])
    panels[0].set_ylim(min(strips.values()) - _STRIP * top / 2, top)


def series_without(facets: Iterable[FacetPanel]) -> list[str]:
    """Return the series with points that have no y."""
    points = (point for facet in facets for point in facet.points)
    return list(dict.fromkeys(point.series for point in points if point.y is None))


def name_facets(
    figure: Figure,
    panels: Sequence[Axes],
    facets: Sequence[FacetPanel],
    most: int,
    colours: Mapping[str, str] | None = None,
) -> None:
    """Draw the legend, lay the figure out, and write up to ``most`` names into each panel.

    ``colours``: of names, by series; black if there is none.
    """
    draw_legend(figure, panels)
    freeze_layout(figure)
    for axes, facet in zip(panels, facets, strict=True):
        named = [
            Name(point.name, (point.x, point.y), (colours or {}).get(point.series, "black"))
            for point in facet.points
            if point.name and point.y is not None
        ]
        name_places(axes, named, most)


def name_ticks(
    axes: Axes, texts: Mapping[int, str] | Mapping[float, str], most: int, *, log: bool = False
) -> None:
    """Label the axis of x at places (place -> text), turned where they have no room.

    If there are more than ``most``, every n-th is labelled.
    """
    if log:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    shown = list(texts.items())[:: max(1, math.ceil(len(texts) / most))]
    letters = sum(len(text) + 2 for _, text in shown)
    is_long = letters > LETTERS_PER_INCH * inches_of(axes.bbox.width, axes)
    how: dict[str, Any] = {"rotation": 30, "ha": "right"} if is_long else {}
    axes.set_xticks([at for at, _ in shown], [text for _, text in shown], **how)


def set_scale(axis: Axis, scale: FigureAxis, values: Iterable[float]) -> None:
    """Label an axis of some values, with a few ticks written as in tables.

    It is logarithmic if it shall be or its values are far apart.
    """
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    if scale.zero:
        low = 0.0
        axis.axes.set_ylim(0, _ROOM * high or 1)
    box, name = axis.axes.bbox, "x" if axis is axis.axes.xaxis else "y"
    inches = inches_of(box.width if name == "x" else box.height, axis.axes)
    intervals = min(_MOST_INTERVALS, max(2, int(inches / _TICK_INCHES[name])))
    log = low > 0 and (is_logarithmic(low, high) if scale.log is None else scale.log)
    if log:
        axis.axes.set(**{f"{name}scale": "log"})
        axis.set_minor_locator(NullLocator())
    axis.set_major_locator(_locator(low, high, intervals, log=log, of_bytes=scale.unit == "B"))
    axis.set_label_text(scale.label)
    axis.set_major_formatter(lambda value, _: _tick_text(value, scale.unit))


def _locator(low: float, high: float, intervals: int, *, log: bool, of_bytes: bool) -> Locator:
    """Return the ticks of an axis: two or more from ``low`` to ``high``, if these differ.

    Those of bytes are powers of two, or multiples of one.
    """
    if log:
        for base, subs in _BYTE_TICKS if of_bytes else _LOG_TICKS:
            powers = LogLocator(base, subs=subs, numticks=intervals)
            inside = [tick for tick in powers.tick_values(low, high) if low <= tick <= high]
            if 1 < len(inside) <= max(3, intervals):
                return powers
    if of_bytes and low < high:
        step = 2 ** math.ceil(math.log2((high - low) / intervals))
        is_wide = high // step <= -(-low // step)
        return MultipleLocator(step / 2 if is_wide else step)
    return MaxNLocator(intervals, min_n_ticks=2, steps=[1, 2, 2.5, 5, 10])


def _tick_text(value: float, unit: Unit | Literal[""]) -> str:
    if not unit or not value:
        return f"{value:g}"
    number, _, name = figure_text(value, unit).partition(" ")
    number = number.rstrip("0").rstrip(".") if "." in number else number
    return "" if value < 0 else f"{number} {name}".strip()


def draw_stacks(
    axes: Axes,
    places: Sequence[float],
    parts: Mapping[str, tuple[Sequence[float], str, str]],
    size: float,
    *,
    lying: bool = False,
    numbered: bool = False,
) -> None:
    """Draw bars as stacks of parts; negative parts go to the other side.

    ``parts``: by label, the values at the positions, colour and hatch. ``numbered``: parts with
    enough room show their values.
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
            axes.bar_label(bars, texts, label_type="center", fontsize="small", bbox=_WHITE)
