"""Figure of a comparison: utilisation and stalls of the array, one bar for each run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, Final

from simaccel.numbers import is_logarithmic
from simaccel.report.comparison import series_of
from simaccel.report.figures.facets import (
    EDGE,
    FacetPoint,
    draw_facets,
    draw_legend,
    draw_stacks,
    label_axis,
    looks,
    name_ticks,
)
from simaccel.report.figures.style import (
    CAUSE_COLOURS,
    CAUSE_LABELS,
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SINGLE_COLUMN_INCHES,
    Artist,
    Axes,
    Figure,
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


def causes_of(rows: Sequence[StudyRow]) -> list[str]:
    """Return the visible causes of any of the runs, in the order of stacks."""
    shares = [array_shares(row.result) for row in rows if row.result is not None]
    return in_order({cause for one in shares for cause, share in one.items() if share >= _SEEN})


def cause_parts(
    results: Sequence[dict[str, Any] | None], causes: Iterable[str]
) -> dict[str, tuple[list[float], str, str]]:
    """Return the causes of each run as parts of stacks (`draw_stacks`); a failed run has none."""
    shares = [{} if result is None else array_shares(result) for result in results]
    return {
        CAUSE_LABELS[cause]: ([share.get(cause, 0.0) for share in shares], *CAUSE_COLOURS[cause])
        for cause in causes
    }


def draw_comparison(rows: Sequence[StudyRow], title: str) -> Figure:
    """Draw two panels: the utilisation of each run, and the cycles of its array by cause."""
    height = _ROW_INCHES * (len(rows) + _GAP * _groups(rows)[-1]) + _REST_INCHES
    figure = new_figure(DOUBLE_COLUMN_INCHES, height, title)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.5))
    places = [index + _GAP * group for index, group in enumerate(_groups(rows))]
    _draw_utilisation(left, rows, places)
    _draw_stacks(right, rows, places)
    left.set_yticks(places, [_label(row, rows) for row in rows])
    left.set_ylim(places[-1] + _EDGE, -_EDGE)
    figure.legend(*legend_of(right), loc="outside lower center", ncols=6)
    return figure


def legend_of(axes: Axes) -> tuple[list[Artist], list[str]]:
    """Return handles and labels of a stack in its order; the line across it is last."""
    handles, labels = axes.get_legend_handles_labels()
    pairs = sorted(zip(handles, labels, strict=True), key=lambda pair: pair[1] == FILLED)
    return [handle for handle, _ in pairs], [label for _, label in pairs]


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


def _draw_utilisation(axes: Axes, rows: Sequence[StudyRow], places: Sequence[float]) -> None:
    look = looks([row.dataflow for row in rows])
    for row, place in zip(rows, places, strict=True):
        if row.result is None:
            axes.text(1, place, "does not run", va="center_baseline", style="italic")
            continue
        share = 100 * row.result["utilisation"]
        style = look[row.dataflow]
        axes.barh(place, share, _BAR, color=style.colour, hatch=style.hatch, **EDGE)
        axes.text(share + 1, place, f"{share:.1f}", va="center_baseline")
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel(UTILISATION)


def _draw_stacks(axes: Axes, rows: Sequence[StudyRow], places: Sequence[float]) -> None:
    ran = [(row.result, at) for row, at in zip(rows, places, strict=True) if row.result is not None]
    parts = cause_parts([result for result, _ in ran], causes_of(rows))
    draw_stacks(axes, [at for _, at in ran], parts, _BAR, lying=True, numbered=True)
    if ran:
        axes.vlines(
            [100 * result["utilisation"] for result, _ in ran],
            [at - _BAR / 2 for _, at in ran],
            [at + _BAR / 2 for _, at in ran],
            color=LIMIT_COLOUR,
            linewidth=1.5,
            label=FILLED,
        )
    axes.set_xlim(0, 100)
    axes.set_xlabel(ARRAY_CYCLES)
    axes.tick_params(labelleft=False)


_METRIC_WIDTH: Final = 1.7 * SINGLE_COLUMN_INCHES
_METRIC_HEIGHT: Final = 2.9
_BARS: Final = 0.8
_MOST_FLAT: Final = 6
"""Most names on an axis that are written horizontally."""


def draw_metric(rows: Sequence[StudyRow], title: str, metric: Metric) -> Figure:
    """Draw a metric over the first number that differs, with a line for each dataflow.

    Without a number there are bars. Unknown values and failed runs are left out.
    """
    rows = _over_a_number(rows)
    figure = new_figure(_METRIC_WIDTH, _METRIC_HEIGHT, title)
    leads = [row.lead for row in rows if row.lead]
    if leads and not leads[0].axis.named:
        points = [
            FacetPoint(series_of(row), lead.place, _value(row, metric), lead.text)
            for row, lead in zip(rows, leads, strict=True)
        ]
        log = any(lead.axis.log for lead in leads)
        axes = draw_facets(figure, points, leads[0].axis.label, "", log=log)[""]
    else:
        axes = figure.subplots()
        _bars(axes, rows, metric)
    axes.set_ylim(bottom=0)
    label_axis(axes.yaxis, metric.column, *axes.get_ylim())
    axes.grid(visible=True, axis="y")
    draw_legend(figure, [axes], 4)
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
    turned = 45 if len(groups) > _MOST_FLAT else 0
    name_ticks(axes, dict(enumerate(short_names(groups, 20))), rotation=turned)
