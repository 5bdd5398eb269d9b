"""Figure of an explanation: directives and bounds of each group, relative to the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simaccel.diagnosis.explanation import GroupExplanation
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_MARKERS,
    Axes,
    Figure,
    new_figure,
)

Figures = Sequence[float | None]
_ROW_INCHES: Final = 0.17
_REST_INCHES: Final = 0.85
_LEAST_END: Final = 1.06
"""Smallest end of the axes: right of the machine's line."""
_DIRECTIVES: Final = "directives"


def draw_analyses(explained: Sequence[GroupExplanation]) -> Figure:
    """Draw cycles and DRAM bytes in panels of their own. Call it inside ``style()``."""
    figure = new_figure(DOUBLE_COLUMN_INCHES, _REST_INCHES + _ROW_INCHES * len(explained))
    cycles, moved = figure.subplots(1, 2, sharey=True)
    machine = [group.run.cycles for group in explained]
    _draw_analysis(
        cycles, machine, [group.directives.cycles for group in explained], 2, _DIRECTIVES
    )
    bounds = [group.prediction.bound_cycles for group in explained]
    _draw_analysis(cycles, machine, bounds, 1, "bound")
    crossed = [
        sum(group.dram_bytes for group in explained if group.together == each.together)
        for each in explained
    ]
    _draw_analysis(moved, crossed, [group.floor.least_bytes for group in explained], 1, "")
    _draw_analysis(
        moved,
        [group.dram_bytes for group in explained],
        [_directed_bytes(group) for group in explained],
        2,
        "",
    )
    for axes, what in ((cycles, "cycles"), (moved, "bytes to and from DRAM")):
        axes.axvline(1, color=LIMIT_COLOUR, linewidth=0.8, label="machine")
        axes.set_xlim(0, max(_LEAST_END, axes.get_xlim()[1]))
        axes.set_xlabel(f"{what}, as multiples of the machine's")
        axes.grid(visible=True, axis="x")
    cycles.set_yticks(range(len(explained)), [group.run.name for group in explained])
    cycles.set_ylim(len(explained) - 0.5, -0.5)
    figure.legend(*cycles.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _directed_bytes(one: GroupExplanation) -> int | None:
    """Return the DRAM bytes of a group's directives; None where they leave a tensor out."""
    by_tensor = [each.directives_bytes for each in one.reuse if each.dram_bytes]
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
