"""One metric of a comparison: lines over a swept number, or bars by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from simaccel.report.comparison import series_of
from simaccel.report.figures.facets import draw_legend, label_axis, looks
from simaccel.report.figures.style import SINGLE_COLUMN_INCHES, Axes, Figure, new_figure
from simaccel.report.units import short_names
from simaccel.study.figure_table import Figure as Metric
from simaccel.study.points import StudyRow

_WIDTH: Final = 1.7 * SINGLE_COLUMN_INCHES
_HEIGHT: Final = 2.9
_BARS: Final = 0.8
_MOST_FLAT: Final = 6
"""Names on an axis up to which they lie flat."""
_NAN: Final = float("nan")


def draw_metric(rows: Sequence[StudyRow], title: str, metric: Metric) -> Figure:
    """Draw a metric, a line or a colour for each dataflow. Call it inside ``style()``.

    What is not known, or did not run, is left out.
    """
    rows = list(map(_over_a_number, rows))
    figure = new_figure(_WIDTH, _HEIGHT, title)
    axes = figure.subplots()
    point = rows[0].lead
    if point is not None and not point.axis.named:
        _lines(axes, rows, metric)
        axes.set_xlabel(point.axis.label)
    else:
        _bars(axes, rows, metric)
    axes.set_ylim(bottom=0)
    label_axis(axes.yaxis, metric.column, *axes.get_ylim())
    axes.grid(visible=True, axis="y")
    draw_legend(figure, [axes], 4)
    return figure


def _over_a_number(row: StudyRow) -> StudyRow:
    """Return a row whose point is the first of its values that is a number, if one is."""
    at = next((at for at, point in enumerate(row.settings) if not point.axis.named), 0)
    others = (*row.settings[:at], *row.settings[at + 1 :])
    return replace(row, settings=(*row.settings[at : at + 1], *others))


def _value(row: StudyRow, metric: Metric) -> float:
    value = None if row.figures is None else row.figures[metric.column]
    return _NAN if value is None else float(value)


def _lines(axes: Axes, rows: Sequence[StudyRow], metric: Metric) -> None:
    """Draw a line for each dataflow (and what else differs) over the swept number."""
    names = list(dict.fromkeys(map(series_of, rows)))
    for name, look in looks(names).items():
        series = [row for row in rows if series_of(row) == name and row.lead is not None]
        series.sort(key=lambda row: row.lead.place if row.lead else 0)
        xs = [row.lead.place for row in series if row.lead]
        ys = [_value(row, metric) for row in series]
        axes.plot(xs, ys, **look.line_look, label=name)
    points = {row.lead.place: row.lead.text for row in rows if row.lead}
    if rows[0].lead is not None and rows[0].lead.axis.log:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    axes.set_xticks(sorted(points), [points[at] for at in sorted(points)])


def _bars(axes: Axes, rows: Sequence[StudyRow], metric: Metric) -> None:
    """Draw groups of bars by name, a bar for each dataflow."""
    groups = list(dict.fromkeys("" if row.lead is None else row.lead.text for row in rows))
    names = list(dict.fromkeys(map(series_of, rows)))
    width = _BARS / len(names)
    for number, (name, look) in enumerate(looks(names).items()):
        values = dict.fromkeys(groups, _NAN)
        for row in rows:
            if series_of(row) == name:
                values["" if row.lead is None else row.lead.text] = _value(row, metric)
        at = [place + (number - (len(names) - 1) / 2) * width for place in range(len(groups))]
        bars = axes.bar(at, [values[group] for group in groups], width, color=look.colour)
        bars.set_label(name)
    turned = 45 if len(groups) > _MOST_FLAT else 0
    axes.set_xticks(range(len(groups)), short_names(groups, 20), rotation=turned)
