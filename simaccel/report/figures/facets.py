"""Styles of series, panels, legends, axes and names of points that figures share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from simaccel.numbers import is_logarithmic
from simaccel.report.figures.style import (
    SERIES_COLOURS,
    SERIES_HATCHES,
    SERIES_MARKERS,
    Axes,
    Axis,
    FigureBase,
)
from simaccel.report.units import figure_text, short_name
from simaccel.study.figure_table import FIGURES

EDGE: Final[dict[str, Any]] = {"edgecolor": "#333333", "linewidth": 0.3}
"""Edges of filled shapes; also the colour of hatches."""
_NUMBERED: Final = 7.0
"""The smallest part of a stack with a number, in percent of the axis."""
_WHITE: Final = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.8}
_FAMILIES: Final = ("flat", "flex", "flash", "naive")
"""Dataflows with the same colour in every figure; others take the following colours."""
_LINES: Final = ("-", "--", "-.", ":")
_LOG_TICKS: Final = ((1.0, (1.0, 2.0, 5.0)), (2.5, (1.0, 3.0)), (math.inf, (1.0,)))
"""(most decades of an axis, its ticks in each decade)"""
_INTERVALS: Final = 4
"""About the number of intervals of a linear axis."""


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

    @property
    def line_look(self) -> dict[str, Any]:
        """The style of a line with markers, as arguments of matplotlib."""
        return {"linestyle": self.line, **self.marker_look}

    @property
    def marker_look(self) -> dict[str, Any]:
        """The style of markers, as arguments of matplotlib."""
        edge = {"markeredgecolor": "white", "markeredgewidth": 0.4}
        return {"color": self.colour, "marker": self.marker, "markersize": 4, **edge}


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


def _family(name: str) -> str:
    return name.partition("-")[0]


def draw_panels(figure: FigureBase, count: int, *, sharey: bool = False) -> list[Axes]:
    """Return ``count`` axes with grids, at most ``ACROSS`` in a row."""
    across = max(1, min(ACROSS, count))
    down = max(1, -(-count // across))
    every = list(figure.subplots(down, across, squeeze=False, sharey=sharey).flat)
    for axes in every[count:]:
        axes.set_axis_off()
    for axes in every[:count]:
        axes.grid(visible=True)
    return every[:count]


@dataclass(frozen=True)
class FacetPoint:
    """A point of a line in a panel; ``y``: None is a gap; ``text``: of its tick, None: a number."""

    line: str
    x: float
    y: float | None
    text: str | None = None
    panel: str = ""


def draw_facets(
    figure: FigureBase, points: Iterable[FacetPoint], x_label: str, y_label: str, *, log: bool
) -> dict[str, Axes]:
    """Draw lines with markers in panels side by side; return the axes by panel.

    ``log``: whether the axis of x is logarithmic.
    """
    panels: dict[str, list[FacetPoint]] = {}
    for point in points:
        panels.setdefault(point.panel, []).append(point)
    look = looks(point.line for own in panels.values() for point in own)
    every = draw_panels(figure, len(panels), sharey=True)
    for axes, (panel, own) in zip(every, panels.items(), strict=True):
        in_order = sorted(own, key=attrgetter("x"))
        for name in dict.fromkeys(point.line for point in own):
            line = [point for point in in_order if point.line == name]
            ys = [math.nan if point.y is None else point.y for point in line]
            axes.plot([point.x for point in line], ys, **look[name].line_look, label=name)
        texts = {point.x: point.text for point in in_order if point.text is not None}
        if texts:
            name_ticks(axes, texts, MOST_TICKS // min(ACROSS, len(panels)), log=log)
        axes.set_title(panel)
        axes.set_xlabel(x_label)
    every[0].set_ylabel(y_label)
    return dict(zip(panels, every, strict=True))


def name_ticks(
    axes: Axes,
    texts: Mapping[int, str] | Mapping[float, str],
    most: int = 1000,
    *,
    log: bool = False,
    **how: Any,  # noqa: ANN401 - of matplotlib
) -> None:
    """Label an axis at places (place -> text); if there are more than ``most``, at every n-th.

    ``how``: arguments of matplotlib's ``set_xticks``.
    """
    if log:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    shown = list(texts.items())[:: max(1, math.ceil(len(texts) / most))]
    axes.set_xticks([at for at, _ in shown], [text for _, text in shown], **how)


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
            axes.bar_label(bars, texts, label_type="center", fontsize="x-small", bbox=_WHITE)


def draw_legend(
    figure: FigureBase,
    panels: Sequence[Axes],
    columns: int = 6,
    where: Literal["outside lower center", "outside right upper"] = "outside lower center",
) -> None:
    """Draw one legend for all panels, by default below them."""
    named: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    if named:
        figure.legend(named.values(), named.keys(), loc=where, ncols=columns)


def label_axis(axis: Axis, column: str, low: float, high: float) -> None:
    """Label the axis of a figure, with a few ticks written as in tables."""
    figure = FIGURES[column]

    def tick(value: float, _: object) -> str:
        number, _, unit = figure_text(value, figure.unit).partition(" ")
        number = number.rstrip("0").rstrip(".") if "." in number else number
        return "" if value < 0 else f"{number} {unit}".strip() if value else "0"

    axis.set_label_text(figure.label)
    scale_axis(axis, low, high, of_bytes=figure.unit == "B")
    axis.set_major_formatter(tick)


def scale_axis(axis: Axis, low: float, high: float, *, of_bytes: bool = False) -> None:
    """Make an axis logarithmic if its values are far apart, with few ticks.

    Ticks of bytes are powers of two, or multiples of one.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, MultipleLocator, NullLocator

    if is_logarithmic(low, high):
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


_LETTERS: Final = 22
_SAME: Final = 3.0
"""Points nearer than this share a name, in typographic points."""
_BESIDE: Final = 4.0
"""Distance between a point and a name right beside it, in typographic points."""
_RINGS: Final = (12, 18, 26, 36, 50, 66)
"""Distances of names with a line to their point, in typographic points."""
_TURNS: Final = 16
"""Directions that are tried at each distance."""
_MARK: Final = 2.0
"""Half the size of a point, which no name may cover, in typographic points."""
_NOTE: Final[dict[str, Any]] = {
    "fontsize": "x-small",
    "ha": "center",
    "va": "center",
    "in_layout": False,
}
_LEAD: Final[dict[str, Any]] = {"color": "#888888", "linewidth": 0.4, "zorder": 2}
Place = tuple[float, float]
Points = npt.NDArray[np.float64]


def name_points(
    axes: Axes,
    points: Sequence[tuple[str, Place]],
    most: int,
    colours: Mapping[str, str] | None = None,
) -> None:
    """Write names beside points, or with a thin line to them; points at one place share a name.

    Everything else has to be drawn and laid out before. ``points``: in data coordinates, the most
    important first. ``colours``: of texts that aren't black. A name without a free place is left
    out.
    """
    from matplotlib.path import Path
    from matplotlib.transforms import Bbox

    scale = axes.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    pixels, frame = axes.transData.transform, axes.get_window_extent()
    lines = [
        line.get_transform().transform_path(line.get_path())
        for line in axes.lines
        if line.get_linestyle() in ("-", "--", "-.", ":")
    ]
    spots = [pixels(line.get_xydata()) for line in axes.lines]
    spots += [pixels(dots.get_offsets()) for dots in axes.collections]
    taken = [Bbox([at - _MARK * scale, at + _MARK * scale]) for group in spots for at in group]
    taken += [text.get_window_extent() for text in axes.texts]
    leads: list[Path] = []
    for text, point in _merge([(name, tuple(pixels(at) / scale)) for name, at in points])[:most]:
        note = axes.text(0, 0, text, transform=axes.transAxes, **_NOTE)
        note.set_color((colours or {}).get(text.partition(" +")[0], "black"))
        size = np.array(note.get_window_extent().size) / scale
        for middle, is_led in _candidates(np.array(point), size):
            box = Bbox(np.array([middle - size / 2, middle + size / 2]) * scale)
            end = np.clip(point, middle - size / 2, middle + size / 2)
            lead = Path(np.array([point, end]) * scale)
            if (
                frame.count_contains(box.get_points()) == len(box.get_points())
                and not box.count_overlaps(taken)
                and not any(line.intersects_bbox(box, filled=False) for line in (*lines, *leads))
                and not (is_led and any(lead.intersects_path(other) for other in leads))
            ):
                taken.append(box)
                place = axes.transAxes.inverted().transform
                note.set_position(tuple(place(middle * scale)))
                if is_led:
                    leads.append(lead)
                    axes.plot(*place(lead.vertices).T, transform=axes.transAxes, **_LEAD)
                break
        else:
            note.remove()


def _candidates(point: Points, size: Points) -> Iterator[tuple[Points, bool]]:
    """Yield middles of a name, in typographic points: beside its point, then led to it."""
    for up in (-0.8, 0.8):
        for side in (1, -1):
            yield point + np.array([side * (_BESIDE + size[0] / 2), up * size[1]]), False
    for distance in _RINGS:
        for turn in range(_TURNS):
            angle = 2 * math.pi * turn / _TURNS
            away = np.array([math.cos(angle), math.sin(angle)])
            yield point + away * (distance + size / 2), True


def _merge(points: Sequence[tuple[str, Place]]) -> list[tuple[str, Place]]:
    """Merge the names of points at one place: all names, or the first and the number of the rest.

    >>> _merge([("Q", (50, 50)), ("K", (50, 50.1)), ("A", (70, 50))])
    [('Q, K', (50, 50)), ('A', (70, 50))]
    """
    groups: list[tuple[list[str], Place]] = []
    for name, place in points:
        names = next((names for names, at in groups if math.dist(at, place) < _SAME), None)
        if names is None:
            groups.append(([name], place))
        elif name not in names:
            names.append(name)
    merged = []
    for names, place in groups:
        text = ", ".join(names)
        if len(text) > _LETTERS:
            rest = f" +{len(names) - 1}" if names[1:] else ""
            text = short_name(names[0], _LETTERS) + rest
        merged.append((text, place))
    return merged
