"""Figure of a sweep: utilisation against the parameter, and what the array waits for at each point.

The upper panel is the figure of FLAT (Kao et al., ASPLOS 2023, figures 9 to 11): utilisation
against buffer size, one line per dataflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Final

from simaccel.report.figures.axes import draw_legend
from simaccel.report.figures.comparison import ARRAY_CYCLES, UTILISATION, array_shares, draw_causes
from simaccel.report.figures.facets import (
    ACROSS,
    MOST_TICKS,
    STRIP_INCHES,
    FacetPanel,
    FacetPoint,
    FigureAxis,
    draw_facets,
    draw_missing,
    line_looks,
    name_ticks,
    series_without,
)
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    Axes,
    Figure,
    SubFigure,
    new_figure,
)
from simaccel.study.figure_table import total_of
from simaccel.study.points import Axis, Setting, StudyRow

_STACKS_ACROSS = 4
_LINES_INCHES, _STACK_INCHES, _REST_INCHES = 2.1, 1.7, 0.5
_MOST_STACK_ROWS = 6
"""Most rows of small panels on a page; beyond it only the lines are drawn."""
_MOST_APART, _MOST_NUMBERED = 24, 6
"""Most points of a stack with gaps between them, and with numbers in their parts."""
Panels = Mapping[str, Sequence[StudyRow]]
Slope = tuple[str, Sequence[tuple[int, int]]]
"""The name of a bound, and its points (bytes kept on chip, bytes moved)."""
Slopes = Mapping[int | None, Sequence[Slope]]
"""Bounds by sequence length."""


def draw_sweep(rows: Sequence[StudyRow], title: str, slopes: Slopes | None = None) -> Figure:
    """Draw a line for each dataflow (a panel for each length), and below it a stack for each.

    Where a dataflow doesn't run, its line has a gap and a cross stands below the axis. With
    ``slopes``, the measured DRAM bytes stand above them.
    """
    panels, slopes = _panels(rows), slopes if any(row.result for row in rows) else None
    look = line_looks(row.dataflow for row in rows)
    facets = [_utilisation_panel(title, panel) for title, panel in panels.items()]
    upper_rows = -(-len(panels) // ACROSS)
    lower_rows = len(panels) * -(-len(look) // _STACKS_ACROSS)
    if lower_rows > _MOST_STACK_ROWS:
        lower_rows = 0
    upper_inches = upper_rows * (_LINES_INCHES + STRIP_INCHES * len(series_without(facets)))
    middle_inches = upper_rows * _LINES_INCHES if slopes else 0.0
    heights = (upper_inches, middle_inches, lower_rows * _STACK_INCHES + _REST_INCHES)
    figure = new_figure(DOUBLE_COLUMN_INCHES, sum(heights))
    parts = [height for height in heights if height]
    upper, *middle, lower = figure.subfigures(
        len(parts), 1, squeeze=False, height_ratios=parts
    ).flat
    upper.suptitle(title, fontsize="medium", x=0.01, ha="left")
    grid = draw_facets(upper, facets, look)
    grid[0].set_ylim(0, 105)
    draw_missing(grid, facets, "does not run")
    draw_legend(upper, grid, "outside right upper")
    for part in middle:
        _draw_moved(part, panels, look, slopes or {})
    if lower_rows:
        _draw_stacks(lower, panels, list(look), lower_rows)
    return figure


def _panels(rows: Sequence[StudyRow]) -> Panels:
    """Split the rows by their length; under '' if the length itself is swept."""
    several = len({row.seq_len for row in rows}) > 1 and _axis(rows).column != "seq_len"
    found: dict[str, list[StudyRow]] = {}
    for row in rows:
        found.setdefault(f"{row.seq_len} tokens" if several else "", []).append(row)
    return found


def _axis(rows: Sequence[StudyRow]) -> Axis:
    return _point(rows[0]).axis


def _point(row: StudyRow) -> Setting:
    if row.lead is None:
        raise ValueError("a figure of a sweep needs rows of a sweep")
    return row.lead


def _in_order(rows: Sequence[StudyRow]) -> list[StudyRow]:
    return sorted(rows, key=lambda row: _point(row).place)


def _places(rows: Sequence[StudyRow]) -> dict[str, float]:
    """Return where points lie, by text: at their values, or in a row where two have the same."""
    points = {_point(row).text: _point(row).place for row in _in_order(rows)}
    if len(set(points.values())) == len(points):
        return points
    return {text: at for at, text in enumerate(points)}


def _share(row: StudyRow) -> float | None:
    return None if row.result is None else 100 * row.result["utilisation"]


def _utilisation_panel(title: str, rows: Sequence[StudyRow]) -> FacetPanel:
    places, axis = _places(rows), _axis(rows)
    points = []
    for row in rows:
        text = _point(row).text
        points.append(FacetPoint(row.dataflow, places[text], _share(row), text))
    log = axis.log and min(places.values()) > 0
    return FacetPanel(
        points, FigureAxis(axis.label, log=log), FigureAxis(UTILISATION, zero=True), title
    )


def _draw_moved(middle: SubFigure, panels: Panels, names: Iterable[str], slopes: Slopes) -> None:
    """Draw the DRAM bytes of each dataflow as points, and below them the bounds."""
    facets = [
        _moved_panel(title, rows, slopes.get(rows[0].seq_len, ())) for title, rows in panels.items()
    ]
    style = line_looks(names, linestyle="")
    bounds = dict.fromkeys(label for every in slopes.values() for label, _ in every)
    for label, line in zip(bounds, cycle(_SLOPE_LINES), strict=False):
        step = {"drawstyle": "steps-post", "color": LIMIT_COLOUR, "linewidth": 0.8}
        style[label] = {**step, "linestyle": line}
    grid = draw_facets(middle, facets, style)
    for axes in grid:
        axes.margins(x=0)
    draw_legend(middle, grid, "outside right upper")


DRAM: Final = "bytes to and from DRAM"
_SLOPE_LINES: Final = ("-", "--", "-.")
_BEYOND: Final = 2.0
"""How far slopes extend beyond the measured points."""


def _moved_panel(title: str, rows: Sequence[StudyRow], slopes: Sequence[Slope]) -> FacetPanel:
    points = []
    for row in rows:
        run = row.result or {"dram_bound": {}}
        if room := run["dram_bound"].get("on_chip_bytes"):
            points.append(FacetPoint(row.dataflow, room, total_of(run["bytes"]["dram"])))
    rooms = [point.x for point in points]
    low, high = min(rooms, default=1) / _BEYOND, max(rooms, default=1) * _BEYOND
    for label, front in slopes if rooms else ():
        for at in (low, *(room for room, _ in front if low < room < high), high):
            moved = [n for room, n in front if room <= at]
            points += [FacetPoint(label, at, moved[-1])] if moved else []
    return FacetPanel(
        points, FigureAxis("memory on chip", "B", log=True), FigureAxis(DRAM, "B", log=True), title
    )


def _draw_stacks(lower: SubFigure, panels: Panels, names: Sequence[str], n_rows: int) -> None:
    across = min(_STACKS_ACROSS, len(names))
    grid = lower.subplots(n_rows, across, sharey=True, squeeze=False)
    rows_each = n_rows // len(panels)
    for number, (panel, rows) in enumerate(panels.items()):
        block = grid[number * rows_each : (number + 1) * rows_each].ravel()
        for axes, name in zip(block, names, strict=False):
            line = _in_order([row for row in rows if row.dataflow == name])
            _draw_stack(axes, line, MOST_TICKS // across)
            axes.set_title(f"{name}, {panel}" if panel else name)
            axes.set_xlabel(_axis(rows).label)
        for axes in block[len(names) :]:
            axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_ylabel(ARRAY_CYCLES)
    draw_legend(lower, grid.flat)


def _draw_stack(axes: Axes, rows: Sequence[StudyRow], most_ticks: int) -> None:
    """Draw a column of equal width for each point; a run that failed has none."""
    edges = [index - 0.5 for index in range(len(rows) + 1)]
    shares = [{} if row.result is None else array_shares(row.result) for row in rows]
    filled = [*map(_share, rows)]
    numbered = len(rows) <= _MOST_NUMBERED
    draw_causes(axes, range(len(rows)), shares, filled, 1.0, numbered=numbered)
    if len(rows) <= _MOST_APART:
        axes.vlines(edges[1:-1], 0, 100, color="white", linewidth=2.0)
    name_ticks(axes, {at: _point(row).text for at, row in enumerate(rows)}, most_ticks)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 100)
