"""Figures of an explanation: directives and bounds beside the machine, and why they differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from simaccel.papers.maestro.commands.disagreement import NECESSARY, AssumptionShare, Disagreement
from simaccel.papers.maestro.commands.explanation import GroupExplanation
from simaccel.report.figures.axes import draw_legend
from simaccel.report.figures.facets import draw_stacks
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_HATCHES,
    SERIES_MARKERS,
    Axes,
    Figure,
    new_figure,
)
from simaccel.report.results import SMALLEST_SHARE
from simaccel.units import cause_text

Figures = Sequence[float | None]
_ROW_INCHES: Final = 0.17
_REST_INCHES: Final = 0.85
_LEAST_END: Final = 1.06
"""Smallest right end of the axes, relative to the machine's line."""
_DIRECTIVES: Final = "directives"


def draw_analyses(explained: Sequence[GroupExplanation]) -> Figure:
    """Draw cycles and DRAM bytes in separate panels."""
    figure = new_figure(DOUBLE_COLUMN_INCHES, _REST_INCHES + _ROW_INCHES * len(explained))
    cycles, moved = figure.subplots(1, 2, sharey=True)
    machine = [group.run.cycles for group in explained]
    directed = [group.directives.cycles for group in explained]
    _draw_analysis(cycles, machine, directed, 2, _DIRECTIVES)
    bounds = [group.prediction.bound_cycles for group in explained]
    _draw_analysis(cycles, machine, bounds, 1, "bound")
    crossed = [
        sum(group.dram_bytes for group in explained if group.together == each.together)
        for each in explained
    ]
    _draw_analysis(moved, crossed, [group.floor.least_bytes for group in explained], 1, "")
    directed = [_directed_bytes(group) for group in explained]
    _draw_analysis(moved, [group.dram_bytes for group in explained], directed, 2, "")
    for axes, what in ((cycles, "cycles"), (moved, "bytes to and from DRAM")):
        axes.axvline(1, color=LIMIT_COLOUR, linewidth=0.8, label="machine")
        axes.set_xlim(0, max(_LEAST_END, axes.get_xlim()[1]))
        axes.set_xlabel(f"{what}, as multiples of the machine's")
        axes.grid(visible=True, axis="x")
    cycles.set_yticks(range(len(explained)), [group.run.name for group in explained])
    cycles.set_ylim(len(explained) - 0.5, -0.5)
    draw_legend(figure, [cycles])
    return figure


def _directed_bytes(one: GroupExplanation) -> int | None:
    """Return the DRAM bytes of a group's directives; None where they leave a tensor out."""
    by_tensor = [each.directives_dram_bytes for each in one.reuse if each.dram_bytes]
    return None if None in by_tensor else sum(n for n in by_tensor if n is not None)


def _draw_analysis(
    axes: Axes, machine: Sequence[int], figures: Figures, number: int, label: str
) -> None:
    known = [
        (at, other / own)
        for at, (own, other) in enumerate(zip(machine, figures, strict=True))
        if own and other
    ]
    axes.plot(
        [share for _, share in known],
        [at for at, _ in known],
        color=SERIES_COLOURS[number],
        marker=SERIES_MARKERS[number],
        markersize=4.5,
        markerfacecolor="none" if number else SERIES_COLOURS[number],
        linestyle="",
        label=label or None,
    )


_SHARE_INCHES: Final = 0.2
_OTHER_INCHES: Final = 1.1
_LEGEND_INCHES: Final = 0.16
_COLUMNS: Final = 3
UNEXPLAINED: Final = "unexplained"
_SMALL: Final = f"others, below {SMALLEST_SHARE:.1%} each"
_GREY: Final = "#9a9a9a"
Row = tuple[str, Disagreement]


def shared_groups(explained: Sequence[GroupExplanation]) -> list[Row]:
    """Return the groups whose directives' runtime differs and whose shares were measured."""
    return [
        (one.run.name, each)
        for one in explained
        for each in one.disagreements
        if each.analysis == "directives" and each.unit == "cycles" and each.shares and each.machine
    ]


def share_name(share: AssumptionShare) -> str:
    """Return the text of an assumption that has a share of a difference."""
    found = share.assumption
    if found == NECESSARY:
        return "the repeated loads that the memory on chip makes necessary in any order"
    if isinstance(found, str):
        return cause_text(found)
    often = f"{found.tensor} {float(found.times):.2f} times"
    pieces = " and ".join(f"{rank} {tile:,}" for rank, tile in found.pieces)
    return f"{often} (for each piece of {pieces})" if pieces else often


def draw_shares(rows: Sequence[Row]) -> Figure:
    """Draw shares of the differences as bars to both sides of 0."""
    kinds = dict.fromkeys(
        share_name(share)
        for _, each in rows
        for share in each.shares
        if abs(share.amount) >= SMALLEST_SHARE * each.machine
    )
    sizes = {name: [_percent(each, (name,)) for _, each in rows] for name in kinds}
    small = [
        _percent(each, {share_name(other) for other in each.shares}.difference(kinds))
        for _, each in rows
    ]
    sizes |= {_SMALL: small} if any(small) else {}
    sizes[UNEXPLAINED] = [100 * each.rest / each.machine for _, each in rows]
    legend = -(-(len(sizes) + 1) // _COLUMNS) * _LEGEND_INCHES
    figure = new_figure(DOUBLE_COLUMN_INCHES, _OTHER_INCHES + legend + _SHARE_INCHES * len(rows))
    axes = figure.subplots()
    parts = {
        name: (
            known,
            _GREY if name == UNEXPLAINED else SERIES_COLOURS[number % len(SERIES_COLOURS)],
            SERIES_HATCHES[number // len(SERIES_COLOURS) % len(SERIES_HATCHES)],
        )
        for number, (name, known) in enumerate(sizes.items())
    }
    draw_stacks(axes, range(len(rows)), parts, 0.7, lying=True)
    whole = [100 * (each.relative or 0) for _, each in rows]
    axes.plot(whole, range(len(rows)), "D", color="black", markersize=3, label="all together")
    axes.axvline(0, color=LIMIT_COLOUR, linewidth=0.8)
    axes.set_xlabel("directives less machine, % of the machine's cycles, by assumption")
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=True, axis="x")
    figure.legend(loc="outside lower center", ncols=_COLUMNS)
    return figure


def _percent(each: Disagreement, names: Collection[str]) -> float:
    return 100 * sum(one.amount for one in each.shares if share_name(one) in names) / each.machine
