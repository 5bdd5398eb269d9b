"""Figures of an exploration: the frontier, pairs of figures, and the effect of each axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, cycle
from typing import Any, Final

from simaccel.report.figures.axes import draw_legend
from simaccel.report.figures.facets import (
    ACROSS,
    FacetPanel,
    FacetPoint,
    FigureAxis,
    draw_facets,
    name_facets,
    scale_of,
)
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    LIMIT_COLOUR,
    SERIES_COLOURS,
    SERIES_MARKERS,
    Figure,
    new_figure,
)
from simaccel.study.explore import ExploredDesigns
from simaccel.study.figures import FRONTIER, objective_of
from simaccel.study.points import Setting, StudyRow

_EDGE: Final = {"markeredgecolor": LIMIT_COLOUR, "markeredgewidth": 0.4}
_DOT: Final = {"linestyle": "", "marker": "o", "markersize": 2.6, "markeredgewidth": 0}
_LOOKS: Final[Mapping[str, dict[str, Any]]] = {
    "outside the limits": {**_DOT, "color": "#DDDDDD"},
    "within the limits": {**_DOT, "color": "#999999"},
    "frontier": {**_DOT, "markersize": 3.7, "color": SERIES_COLOURS[1], **_EDGE},
    "best": {**_DOT, "markersize": 5.5, "marker": "*", "color": SERIES_COLOURS[5], **_EDGE},
}
"""Looks of designs, those above others last."""
_MOST_NAMED: Final = 10
"""Most designs of a frontier that have names."""


def draw_frontier(explored: ExploredDesigns, title: str) -> Figure:
    """Draw energy over time, and area over time: all designs, and the frontier."""
    return _draw_pairs(explored, [("seconds", "energy_pj"), ("seconds", "area_mm2")], title, 3.0)


def draw_pairs(explored: ExploredDesigns, title: str) -> Figure:
    """Draw each pair of the frontier's figures."""
    return _draw_pairs(explored, list(combinations(FRONTIER, 2)), title, 4.4)


def _draw_pairs(
    explored: ExploredDesigns, pairs: Sequence[tuple[str, str]], title: str, inches: float
) -> Figure:
    """Draw designs, and the settings of those on the frontier beside them, of the best first."""
    figure = new_figure(DOUBLE_COLUMN_INCHES, inches, title)
    rows = sorted(explored.rows, key=lambda row: not row.best)
    facets = []
    for x, y in pairs:
        points = []
        for row in rows:
            if row.figures is None or (at := row.figures[x]) is None:
                continue
            kind = "frontier" if row.frontier else "within the limits"
            kind = "best" if row.frontier and row.best else kind
            kind = kind if row.within else "outside the limits"
            name = ", ".join(setting.text for setting in row.settings) if row.frontier else ""
            points.append(FacetPoint(kind, at, row.figures[y], name=name))
        facets.append(FacetPanel(points, scale_of(x), scale_of(y)))
    panels = draw_facets(figure, facets, _LOOKS, sharey=False)
    name_facets(figure, panels, facets, _MOST_NAMED)
    return figure


def draw_sensitivity(exploration: ExploredDesigns, title: str) -> Figure:
    """Draw the objective at each setting of each axis: the best design, and the geometric mean.

    There is a line for each scenario, relative to its best design.
    """
    groups: dict[tuple[str, ...], list[StudyRow]] = {}
    for row in exploration.rows:
        if row.figures is not None and row.within:
            groups.setdefault(row.scenario, []).append(row)
    names = {scenario: f" at {', '.join(scenario)}" if scenario else "" for scenario in groups}
    look = {
        what + name: {"color": colour, "marker": marker, "markersize": 3, "linestyle": line}
        for name, colour, marker in zip(
            names.values(), cycle(SERIES_COLOURS), cycle(SERIES_MARKERS), strict=False
        )
        for what, line in (("best", "-"), ("mean", ":"))
    }
    objective = exploration.plan.objective
    label = f"{objective.upper() if objective == 'edp' else objective}, relative to the best"
    facets = []
    for number, settings in enumerate(exploration.dimensions):
        if settings[0].axis.of != "workload" and len(settings) > 1:
            points = [
                point
                for scenario, rows in groups.items()
                for point in _effects(rows, settings, number, objective, names[scenario])
            ] or [FacetPoint("", at, None, setting.text) for at, setting in enumerate(settings)]
            facets.append(FacetPanel(points, FigureAxis(settings[0].axis.label), FigureAxis(label)))
    height = 2.0 * max(1, -(-len(facets) // ACROSS)) + 0.7
    figure = new_figure(DOUBLE_COLUMN_INCHES, height, title)
    draw_legend(figure, draw_facets(figure, facets, look))
    return figure


def _effects(
    rows: Sequence[StudyRow],
    settings: Sequence[Setting],
    number: int,
    objective: str,
    name: str,
) -> Iterator[FacetPoint]:
    """Yield the best and the mean at each setting of an axis, relative to the best of all."""
    values: dict[str, list[float]] = {setting.text: [] for setting in settings}
    for row in rows:
        values[row.settings[number].text].append(objective_of(row.figures or {}, objective))
    least = min((v for many in values.values() for v in many if v > 0), default=math.nan)
    for at, (text, many) in enumerate(values.items()):
        yield FacetPoint(f"best{name}", at, min(many, default=math.nan) / least, text)
        yield FacetPoint(f"mean{name}", at, _mean(many) / least, text)


def _mean(values: Sequence[float]) -> float:
    if not values or min(values) <= 0:
        return math.nan
    return math.exp(sum(map(math.log, values)) / len(values))
