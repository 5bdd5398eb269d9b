"""Figure of a comparison: utilisation and stalls of the array, one bar for each run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, Final

from simaccel.numbers import is_logarithmic
from simaccel.report.comparison import series_of
from simaccel.report.figures.axes import draw_legend
from simaccel.report.figures.facets import (
    FacetPanel,
    FacetPoint,
    FigureAxis,
    draw_facets,
    draw_stacks,
    line_looks,
    looks,
    name_ticks,
    scale_of,
    set_scale,
)
from simaccel.report.figures.style import (
    CAUSE_LABELS,
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SINGLE_COLUMN_INCHES,
    Axes,
    Figure,
    cause_look,
    in_order,
    new_figure,
)
from simaccel.report.units import short_names
from simaccel.study.figure_table import Figure as Metric
from simaccel.study.parameters import PARAMETERS
from simaccel.study.points import Setting, StudyRow
from simaccel.units import ARRAY, SFU

UTILISATION: Final = "utilisation (% of peak MACs)"
_EDGE: Final = 0.6
"""Distance from the middle of the first and last row to the edge, in rows."""
ARRAY_CYCLES: Final = "cycles of the PE array (%)"
FILLED: Final = "utilisation (busy beyond it: with empty PEs)"
"""Label of the line across a stack."""
FILLED_LINE: Final[dict[str, Any]] = {"color": LIMIT_COLOUR, "linewidth": 1.4}

_BAR, _GAP = 0.8, 0.6
_ROW_INCHES, _REST_INCHES = 0.17, 1.1
_SEEN = 0.25
"""Percent of the cycles below which a cause is neither visible nor in the legend."""


def array_causes(array: Mapping[str, int], sfu: Mapping[str, int]) -> Mapping[str, int]:
    """Return the array's cycles by cause, of both engines' cycles by cause, ``busy`` included.

    Without work it waits for the SFU: for the SFU's work, or for what the SFU waits for.
    """
    if array.get("busy") or not sfu.get("busy"):
        return array
    return {SFU if cause == "busy" else cause: n for cause, n in sfu.items()}


_NEVER: Final[dict[str, Any]] = {"busy": 0, "idle": 0, "stalls": {}}


def array_shares(result: dict[str, Any]) -> dict[str, float]:
    """Return what the array does in percent of the cycles: busy, idle and each stall cause."""
    array, sfu = (
        {"busy": engine["busy"], "idle": engine["idle"], **engine["stalls"]}
        for engine in (result["engines"][ARRAY], result["engines"].get(SFU, _NEVER))
    )
    return {c: 100 * n / result["cycles"] for c, n in array_causes(array, sfu).items()}


def visible_causes(shares: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the causes that are visible in any stack of percents, in the order of stacks."""
    return in_order({cause for one in shares for cause, n in one.items() if n >= _SEEN})


def draw_causes(
    axes: Axes,
    places: Sequence[float],
    shares: Sequence[Mapping[str, float]],
    filled: Sequence[float | None],
    size: float,
    *,
    lying: bool = False,
    numbered: bool = True,
) -> None:
    """Draw a stack of causes at each place, and lines across those whose utilisation is known.

    ``shares``, ``filled`` (utilisation): in percent of the cycles. A run that failed has neither.
    """
    parts = {
        CAUSE_LABELS.get(cause, cause): (
            [share.get(cause, 0.0) for share in shares],
            *cause_look(cause),
        )
        for cause in visible_causes(shares)
    }
    draw_stacks(axes, places, parts, size, lying=lying, numbered=numbered)
    known = [(at, n) for at, n in zip(places, filled, strict=True) if n is not None]
    if known:
        draw = axes.vlines if lying else axes.hlines
        starts, ends = ([at + side * size / 2 for at, _ in known] for side in (-1, 1))
        draw([n for _, n in known], starts, ends, **FILLED_LINE, label=FILLED)


def draw_comparison(rows: Sequence[StudyRow], title: str) -> Figure:
    """Draw the cycles of each run's array by cause, its utilisation as a line and a number."""
    groups = _groups(rows)
    height = _ROW_INCHES * (len(rows) + _GAP * groups[-1]) + _REST_INCHES
    figure = new_figure(DOUBLE_COLUMN_INCHES, height, title)
    axes, places = figure.subplots(), [index + _GAP * group for index, group in enumerate(groups)]
    shares = [{} if row.result is None else array_shares(row.result) for row in rows]
    filled = [None if row.result is None else 100 * row.result["utilisation"] for row in rows]
    draw_causes(axes, places, shares, filled, _BAR, lying=True)
    for place, share in zip(places, filled, strict=True):
        text, at = ("does not run", 1.0) if share is None else (f"{share:.1f}", 101.0)
        axes.text(at, place, text, va="center_baseline")
    axes.text(101.0, -_EDGE, "util.\n(%)", va="bottom", fontsize="small")
    axes.set(xlim=(0, 100), ylim=(places[-1] + _EDGE, -_EDGE), xlabel=ARRAY_CYCLES)
    axes.set_yticks(places, [_label(row, rows) for row in rows])
    draw_legend(figure, [axes])
    return figure


def _groups(rows: Sequence[StudyRow]) -> list[int]:
    """Number the places, as each row has one; those with one row each stand together."""
    places = list(dict.fromkeys(row.place for row in rows))
    if len(places) == len(rows):
        return [0] * len(rows)
    return [places.index(row.place) for row in rows]


def _label(row: StudyRow, rows: Sequence[StudyRow]) -> str:
    def texts(row: StudyRow) -> tuple[str, str]:
        return row.lead.text if row.lead else "", f"{row.seq_len} tokens"

    differ = [len(set(column)) > 1 for column in zip(*map(texts, rows), strict=True)]
    several = len({one.dataflow for one in rows}) > 1 or not any(differ)
    return ", ".join([*[row.dataflow] * several, *compress(texts(row), differ)])


_METRIC_WIDTH: Final = 1.7 * SINGLE_COLUMN_INCHES
_METRIC_HEIGHT: Final = 2.9
_BARS: Final = 0.8


def draw_metric(rows: Sequence[StudyRow], title: str, metric: Metric) -> Figure:
    """Draw a metric over the first number that differs, with a line for each dataflow.

    Without a number there are bars. Unknown values and failed runs are left out.
    """
    if len({row.seq_len for row in rows}) == 1:
        rows = [replace(row, seq_len=None) for row in rows]
    rows = _over_a_number(rows)
    figure = new_figure(_METRIC_WIDTH, _METRIC_HEIGHT, title)
    leads, scale = (
        [row.lead for row in rows if row.lead],
        replace(scale_of(metric.column), zero=True),
    )
    if leads and not leads[0].axis.named:
        points = [
            FacetPoint(series_of(row), lead.place, _value(row, metric), lead.text)
            for row, lead in zip(rows, leads, strict=True)
        ]
        over = FigureAxis(leads[0].axis.label, log=any(lead.axis.log for lead in leads))
        panels = draw_facets(
            figure, [FacetPanel(points, over, scale)], line_looks(map(series_of, rows))
        )
    else:
        panels = [figure.subplots()]
        _bars(panels[0], rows, metric)
        set_scale(panels[0].yaxis, scale, filter(None, (_value(row, metric) for row in rows)))
        panels[0].grid(visible=True, axis="y")
    draw_legend(figure, panels)
    return figure


def _over_a_number(rows: Sequence[StudyRow]) -> list[StudyRow]:
    """Return rows whose first setting is a number, if one is; else their length, if it differs."""
    lengths = {row.seq_len for row in rows if row.seq_len is not None}
    if len(lengths) > 1 and all(setting.axis.named for setting in rows[0].settings):
        axis = replace(PARAMETERS["seq-len"].axis, log=is_logarithmic(min(lengths), max(lengths)))
        numbered = ((row, row.seq_len or 0) for row in rows)
        return [
            replace(row, settings=(Setting(axis, n, str(n), place=n), *row.settings))
            for row, n in numbered
        ]
    return [
        replace(row, settings=tuple(sorted(row.settings, key=lambda each: each.axis.named)))
        for row in rows
    ]


def _value(row: StudyRow, metric: Metric) -> float | None:
    return None if row.figures is None else row.figures[metric.column]


def _bars(axes: Axes, rows: Sequence[StudyRow], metric: Metric) -> None:
    groups = list(dict.fromkeys("" if row.lead is None else row.lead.text for row in rows))
    names = list(dict.fromkeys(map(series_of, rows)))
    width = _BARS / len(names)
    for number, (name, look) in enumerate(looks(names).items()):
        values = dict.fromkeys(groups, math.nan)
        for row in rows:
            if series_of(row) == name and (value := _value(row, metric)) is not None:
                values["" if row.lead is None else row.lead.text] = value
        at = [place + (number - (len(names) - 1) / 2) * width for place in range(len(groups))]
        axes.bar(at, [values[group] for group in groups], width, color=look.colour).set_label(name)
    name_ticks(axes, dict(enumerate(short_names(groups, 20))), len(groups))
