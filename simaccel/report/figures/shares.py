"""Figure of an explanation: what the difference between directives and machine comes from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from simaccel.diagnosis.disagreement import Disagreement
from simaccel.diagnosis.explanation import GroupExplanation
from simaccel.report.figures.facets import draw_stacks
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_HATCHES,
    Figure,
    new_figure,
)
from simaccel.report.results import SMALLEST_SHARE

_ROW_INCHES: Final = 0.2
_REST_INCHES: Final = 1.1
_LEGEND_INCHES: Final = 0.16
_COLUMNS: Final = 3
UNEXPLAINED: Final = "unexplained"
_SMALL: Final = f"others, below {SMALLEST_SHARE:.1%} each"
_GREY: Final = "#9a9a9a"
Row = tuple[str, Disagreement]


def shared_groups(explained: Sequence[GroupExplanation]) -> list[Row]:
    """Return the groups whose directives' runtime differs, where shares were measured."""
    return [
        (one.run.name, each)
        for one in explained
        for each in one.disagreements
        if each.analysis == "directives" and each.unit == "cycles" and each.shares and each.machine
    ]


def draw_shares(rows: Sequence[Row]) -> Figure:
    """Draw shares of differences as bars from 0 to both sides. Call it inside ``style()``."""
    kinds = dict.fromkeys(
        share.assumption
        for _, each in rows
        for share in each.shares
        if abs(share.amount) >= SMALLEST_SHARE * each.machine
    )
    sizes = {name: [_percent(each, (name,)) for _, each in rows] for name in kinds}
    small = [
        _percent(each, [other.assumption for other in each.shares if other.assumption not in kinds])
        for _, each in rows
    ]
    sizes |= {_SMALL: small} if any(small) else {}
    sizes[UNEXPLAINED] = [100 * each.rest / each.machine for _, each in rows]
    legend = -(-(len(sizes) + 1) // _COLUMNS) * _LEGEND_INCHES
    figure = new_figure(DOUBLE_COLUMN_INCHES, _REST_INCHES + legend + _ROW_INCHES * len(rows))
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
    """Return the shares of assumptions, in % of the machine's cycles."""
    return 100 * sum(one.amount for one in each.shares if one.assumption in names) / each.machine
