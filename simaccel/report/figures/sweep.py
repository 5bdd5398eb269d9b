"""Figure of a sweep: utilisation against the parameter, and what the array waits for at each point.

The upper panel is the figure of FLAT (Kao et al., ASPLOS 2023, figures 9 to 11): utilisation
against buffer size, one line per dataflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

from simaccel.report.figures.comparison import (
    ARRAY_CYCLES,
    FILLED,
    UTILISATION,
    cause_parts,
    causes_of,
    legend_of,
)
from simaccel.report.figures.facets import (
    ACROSS,
    MOST_TICKS,
    FacetPoint,
    SeriesStyle,
    draw_facets,
    draw_legend,
    draw_panels,
    draw_stacks,
    looks,
    name_ticks,
)
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    Axes,
    Figure,
    SubFigure,
    new_figure,
)
from simaccel.report.units import bytes_text
from simaccel.study.figure_table import total_of
from simaccel.study.points import Axis, Setting, StudyRow

_STACKS_ACROSS = 4
_LINES_INCHES, _STACK_INCHES, _REST_INCHES = 2.1, 1.7, 0.5
_MOST_STACK_ROWS = 6
"""Most rows of small panels on a page; beyond it only the lines are drawn."""
_STRIP, _STRIP_INCHES = 9.0, 0.13
"""Height of a row of crosses: on the axis in percent, and on paper in inches."""
_MOST_APART, _MOST_NUMBERED = 24, 6
"""Most points of a stack with gaps between them, and with numbers in their parts."""
_NAN = float("nan")


@dataclass(frozen=True)
class SlopeSeries:
    """Points (bytes kept on chip, bytes moved) of a bound, and its name."""

    label: str
    points: tuple[tuple[int, int], ...]


Slopes = Mapping[int | None, Sequence[SlopeSeries]]


def draw_sweep(rows: Sequence[StudyRow], title: str, slopes: Slopes | None = None) -> Figure:
    """Draw a line for each dataflow (a panel for each length), and below it a stack for each.

    Where a dataflow doesn't run, its line has a gap and a cross stands below the axis. With
    ``slopes``, bounds by sequence length, the measured DRAM bytes stand above them.
    """
    panels, slopes = _panels(rows), slopes if any(row.result for row in rows) else None
    names = list(dict.fromkeys(row.dataflow for row in rows))
    upper_rows = -(-len(panels) // ACROSS)
    lower_rows = len(panels) * -(-len(names) // _STACKS_ACROSS)
    if lower_rows > _MOST_STACK_ROWS:
        lower_rows = 0
    upper_inches = upper_rows * (_LINES_INCHES + _STRIP_INCHES * len(_strips(rows)))
    middle_inches = upper_rows * _LINES_INCHES if slopes else 0.0
    heights = (upper_inches, middle_inches, lower_rows * _STACK_INCHES + _REST_INCHES)
    figure = new_figure(DOUBLE_COLUMN_INCHES, sum(heights))
    parts = [height for height in heights if height]
    upper, *middle, lower = figure.subfigures(
        len(parts), 1, squeeze=False, height_ratios=parts
    ).flat
    _draw_lines(upper, panels)
    upper.suptitle(title, fontsize="medium", x=0.01, ha="left")
    for panel_figure in middle:
        _draw_moved(panel_figure, panels, looks(names), slopes or {})
    if lower_rows:
        _draw_stacks(lower, panels, names, lower_rows)
    return figure


def _panels(rows: Sequence[StudyRow]) -> dict[str, list[StudyRow]]:
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


def _draw_lines(upper: SubFigure, panels: dict[str, list[StudyRow]]) -> None:
    every = [row for rows in panels.values() for row in rows]
    strips, axis, points = _strips(every), _axis(every), list[FacetPoint]()
    for panel, rows in panels.items():
        places = _places(rows)
        for row in rows:
            share = 100 * row.result["utilisation"] if row.result else None
            text = _point(row).text
            points.append(FacetPoint(row.dataflow, places[text], share, text, panel))
    log = axis.log and min(point.x for point in points) > 0
    drawn = draw_facets(upper, points, axis.label, UTILISATION, log=log)
    for panel, axes in drawn.items():
        _draw_failures(axes, panels[panel], strips)
        axes.set_ylim(min(strips.values(), default=0) - bool(strips) * _STRIP / 2, 105)
    grid, ticks = [*drawn.values()], range(0, 101, 20)
    grid[0].set_yticks([*ticks, *strips.values()], [*map(str, ticks), *strips])
    draw_legend(upper, grid, 1, "outside right upper")


def _draw_moved(
    middle: SubFigure,
    panels: dict[str, list[StudyRow]],
    look: dict[str, SeriesStyle],
    slopes: Slopes,
) -> None:
    grid = draw_panels(middle, len(panels), sharey=True)
    for axes, (panel, rows) in zip(grid, panels.items(), strict=True):
        draw_slopes(axes, rows, look, slopes.get(rows[0].seq_len, ()))
        axes.set_title(panel)
    grid[0].set_ylabel(DRAM)
    draw_legend(middle, grid, 1, "outside right upper")


def _strips(rows: Sequence[StudyRow]) -> dict[str, float]:
    """Return each dataflow that fails somewhere a height below 0 for its crosses."""
    failing = dict.fromkeys(row.dataflow for row in rows if row.result is None)
    return {name: -_STRIP * number for number, name in enumerate(failing, 1)}


def _draw_failures(axes: Axes, rows: Sequence[StudyRow], strips: dict[str, float]) -> None:
    places = _places(rows)
    for name, height in strips.items():
        failed = (row for row in rows if row.dataflow == name and row.result is None)
        fails = [places[_point(row).text] for row in failed]
        axes.plot(
            fails,
            [height] * len(fails),
            color=LIMIT_COLOUR,
            linestyle="",
            marker="x",
            markersize=3,
            markeredgewidth=0.6,
            label="does not run",
        )
    if strips:
        axes.axhline(0, color=LIMIT_COLOUR, linewidth=0.6)


def _draw_stacks(
    lower: SubFigure, panels: dict[str, list[StudyRow]], names: Sequence[str], n_rows: int
) -> None:
    across = min(_STACKS_ACROSS, len(names))
    grid = lower.subplots(n_rows, across, sharey=True, squeeze=False)
    causes = causes_of([row for rows in panels.values() for row in rows])
    rows_each = n_rows // len(panels)
    for number, (panel, rows) in enumerate(panels.items()):
        block = grid[number * rows_each : (number + 1) * rows_each].ravel()
        for axes, name in zip(block, names, strict=False):
            line = _in_order([row for row in rows if row.dataflow == name])
            _draw_stack(axes, line, causes, MOST_TICKS // across)
            axes.set_title(f"{name}, {panel}" if panel else name)
            axes.set_xlabel(_axis(rows).label)
        for axes in block[len(names) :]:
            axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_ylabel(ARRAY_CYCLES)
    lower.legend(*legend_of(lower.axes[0]), loc="outside lower center", ncols=6)


def _draw_stack(
    axes: Axes, rows: Sequence[StudyRow], causes: Sequence[str], most_ticks: int
) -> None:
    """Draw a column of equal width for each point; a run that failed has none."""
    edges = [index - 0.5 for index in range(len(rows) + 1)]
    parts = cause_parts([row.result for row in rows], causes)
    draw_stacks(axes, range(len(rows)), parts, 1.0, numbered=len(rows) <= _MOST_NUMBERED)
    if len(rows) <= _MOST_APART:
        axes.vlines(edges[1:-1], 0, 100, color="white", linewidth=2.0)
    useful = [100 * row.result["utilisation"] if row.result else _NAN for row in rows]
    axes.hlines(useful, edges[:-1], edges[1:], color=LIMIT_COLOUR, linewidth=1.2, label=FILLED)
    name_ticks(axes, {at: _point(row).text for at, row in enumerate(rows)}, most_ticks)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 100)


DRAM: Final = "bytes to and from DRAM"
ON_CHIP: Final = "memory on chip"
_SLOPE_LINES: Final = ("-", "--", "-.")
_BEYOND: Final = 2.0
"""How far slopes extend beyond the measured points."""


def draw_slopes(
    axes: Axes,
    rows: Sequence[StudyRow],
    look: dict[str, SeriesStyle],
    slopes: Sequence[SlopeSeries],
) -> None:
    """Draw the DRAM bytes of each dataflow as points, and below them the bounds."""
    rooms = [room for row in rows if (room := _memory_on_chip(row)) is not None]
    for name, style in look.items():
        ran = [(_memory_on_chip(row), row.result) for row in rows if row.dataflow == name]
        known = [(room, total_of(run["bytes"]["dram"])) for room, run in ran if room and run]
        axes.plot(
            [room for room, _ in known],
            [moved for _, moved in known],
            **style.marker_look,
            linestyle="",
            label=name,
        )
    if rooms:
        low, high = min(rooms) / _BEYOND, max(rooms) * _BEYOND
        for slope, line in zip(slopes, cycle(_SLOPE_LINES), strict=False):
            _draw_slope(axes, slope, line, (low, high))
        axes.set_xlim(low, high)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: bytes_text(round(value)))
    axes.set_xlabel(ON_CHIP)
    axes.grid(visible=True)


def _memory_on_chip(row: StudyRow) -> int | None:
    found: dict[str, Any] = {} if row.result is None else row.result["dram_bound"]
    return found.get("on_chip_bytes")


def _draw_slope(axes: Axes, slope: SlopeSeries, line: str, window: tuple[float, float]) -> None:
    """Draw the part of a slope that is in the window: from its last point before it on."""
    low, high = window
    before = [moved for room, moved in slope.points if room <= low]
    inside = [(room, moved) for room, moved in slope.points if low < room < high]
    steps = [*([(low, before[-1])] if before else []), *inside]
    if not steps:
        return
    steps.append((high, steps[-1][1]))
    axes.step(
        [room for room, _ in steps],
        [moved for _, moved in steps],
        where="post",
        color=LIMIT_COLOUR,
        linestyle=line,
        linewidth=0.8,
        label=slope.label,
    )
