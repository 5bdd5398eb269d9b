"""Figure of Pareto fronts: one stepped line a dataflow (FLAT, Kao et al., ASPLOS 2023, Fig. 14)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from simaccel.report.figures.comparison import looks
from simaccel.report.figures.point_names import Place, axes_place, name_points
from simaccel.report.figures.style import SINGLE_COLUMN_INCHES, new_figure
from simaccel.report.pareto import FrontRow
from simaccel.report.titles import wrap_title
from simaccel.report.units import figure_text
from simaccel.study.figure_table import FIGURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS: Final = {
    "cycles": "cycles",
    "utilisation": "utilisation (% of peak MACs)",
    "footprint_bytes": "footprint (bytes of the buffer)",
    "dram_bytes": "DRAM traffic (bytes)",
    "energy_pj": "energy (J)",
    "edp_js": "energy-delay product (Js)",
}
_TICKS: Final = 6
_SCALE: Final = {"utilisation": 100.0, "energy_pj": 1e-12}
_LOG_RATIO: Final = 8
_WIDTH, _HEIGHT, _ROW = 1.5 * SINGLE_COLUMN_INCHES, 2.6, 0.14
_COLUMNS: Final = 6
_NAMED: Final = 6
"""Points of a front that have figures beside them."""
_ALONG: Final = 24
"""Places along a piece of a front's line."""
_KIB: Final = 1024


def draw_pareto(rows: Sequence[FrontRow], x: str, y: str, title: str) -> Figure:
    """Draw the front of each dataflow; what lies between two points can be had at the worse one.

    Call it inside ``style()``.
    """
    drawn = [row for row in rows if row.points]
    height = _HEIGHT + _ROW * -(-len(drawn) // _COLUMNS)
    figure = new_figure(_WIDTH, height)
    axes = figure.subplots()
    look = looks([row.dataflow for row in rows])
    for row in drawn:
        style = look[row.dataflow]
        points = _front(row, x, y)
        xs = [_SCALE.get(x, 1.0) * first for first, _ in points]
        ys = [_SCALE.get(y, 1.0) * second for _, second in points]
        axes.step(
            xs, ys, where=_step_side(x), color=style.colour, linestyle=style.line, linewidth=0.8
        )
        axes.plot(
            xs, ys, style.marker, color=style.colour, markersize=3, label=row.dataflow, linewidth=0
        )
    _scales(axes, drawn, x, y)
    _name_fronts(axes, drawn, x, y, {row.dataflow: look[row.dataflow].colour for row in drawn})
    figure.suptitle(wrap_title(title, 76), fontsize="medium", x=0.01, ha="left")
    if drawn:
        figure.legend(loc="outside lower center", ncols=_COLUMNS)
    return figure


def _front(row: FrontRow, x: str, y: str) -> list[tuple[float, float]]:
    return sorted((point[x] or 0, point[y] or 0) for point in row.points)


def _name_fronts(
    axes: Axes, rows: Sequence[FrontRow], x: str, y: str, colours: Mapping[str, str]
) -> None:
    """Write both figures beside points of each front, from end to end, and none on its line."""
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # what is written changes them no more
    points, lines = list[tuple[str, Place]](), list[Place]()
    looks_of = dict[str, str]()
    for row in rows:
        front = _front(row, x, y)
        places = [
            axes_place(axes, _SCALE.get(x, 1.0) * first, _SCALE.get(y, 1.0) * second)
            for first, second in front
        ]
        for (left, high), (right, low) in itertools.pairwise(places):
            corner = (left, low) if _step_side(x) == "pre" else (right, high)
            for end in ((left, high), (right, low)):
                across, up = corner[0] - end[0], corner[1] - end[1]
                lines += [
                    (end[0] + across * at / _ALONG, end[1] + up * at / _ALONG)
                    for at in range(1, _ALONG)
                ]
        for at in _labelled_points(len(front)):
            pairs = zip((x, y), front[at], strict=True)
            text = ", ".join(figure_text(value, FIGURES[name].unit) for name, value in pairs)
            points.append((text, places[at]))
            looks_of[text] = colours[row.dataflow]
    name_points(axes, points, lines, len(points), looks_of)


def _labelled_points(count: int) -> list[int]:
    """Return which points have figures beside them: all, or some from end to end."""
    most = min(count, _NAMED)
    return sorted({round(at * (count - 1) / max(1, most - 1)) for at in range(most)})


def _step_side(x: str) -> Literal["pre", "post"]:
    """Return on which side of a point its value holds: more of x is worse, unless x is gain."""
    return "pre" if x == "utilisation" else "post"


def _scales(axes: Axes, drawn: Sequence[FrontRow], x: str, y: str) -> None:
    for name, axis in ((x, "x"), (y, "y")):
        values = [value for row in drawn for value, _ in _front(row, name, name)]
        wide = bool(values) and 0 < min(values) * _LOG_RATIO <= max(values)
        set_scale = axes.set_xscale if axis == "x" else axes.set_yscale
        if name in {"footprint_bytes", "dram_bytes"}:
            if wide:
                set_scale("log", base=2)
            _byte_ticks(axes, axis, 0 if wide or not values else max(values) - min(values))
        elif name != "utilisation" and wide:
            set_scale("log")
        elif name == "cycles":
            (axes.xaxis if axis == "x" else axes.yaxis).set_major_formatter("{x:,.0f}")
        elif name == "utilisation":
            (axes.set_xlim if axis == "x" else axes.set_ylim)(0, 102)
    axes.set_xlabel(LABELS[x])
    axes.set_ylabel(LABELS[y])


def _byte_ticks(axes: Axes, axis: str, span: float) -> None:
    """Write powers of two as people do; where the axis is linear, every so many of a ``span``."""
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    along = axes.xaxis if axis == "x" else axes.yaxis
    if span > _TICKS:
        along.set_major_locator(MultipleLocator(2 ** math.ceil(math.log2(span / _TICKS))))
    along.set_major_formatter(FuncFormatter(lambda value, _: _size(value)))


def _size(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < _KIB or unit == "TiB":
            return f"{value:.3g} {unit}"
        value /= _KIB
    return ""
