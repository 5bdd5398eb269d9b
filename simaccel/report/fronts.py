"""Pareto fronts as tables, rows of CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from simaccel.pareto import pick_evenly
from simaccel.report.tables import Table, pick, study_columns, tabulate, texts
from simaccel.report.units import count_text
from simaccel.study.points import Figures, StudyRow

_OF_FRONTS: Final = (
    *("cycles", "utilisation", "footprint_bytes"),
    *("dram_bytes", "energy_pj", "edp_js"),
)
"""Figures in the order of tables and CSV."""
SHOWN: Final = 16
"""Most points of a dataflow in a table; files have all."""


def front_points(row: StudyRow) -> list[Figures]:
    """Return the figures of the points on the front of a row; none if it has a problem."""
    return row.run["points"] if row.result else []


def pareto_table(rows: Sequence[StudyRow], x: str, y: str) -> Table:
    """Return fronts as a table, their two figures first; of many points, evenly spaced ones."""
    first, *others = study_columns(x, y, *(name for name in _OF_FRONTS if name not in {x, y}))
    shown = [
        replace(row, figures=points[int(at)] if points else None)
        for row in rows
        for points in [front_points(row)]
        for at in pick_evenly(np.arange(len(points) or 1), SHOWN)
    ]
    columns = (*texts("dataflow"), replace(first, missing="does not run"), *others)
    return tabulate(shown, columns, apart=lambda row: row.dataflow)


def pareto_line(row: StudyRow) -> str:
    """Return a line on how the front of a dataflow was found, or why there is none."""
    if row.problem:
        return f"{row.dataflow}: {row.problem}"
    n, shown = row.run["points_in_all"], min(len(front_points(row)), SHOWN)
    points = count_text(n, "point")
    if shown < n:
        points += f" ({shown} shown)"
    how = "of which those with the least bounds were run"
    if row.run["proved"]:
        how = "each was run or can't be better, by its bound"
    return f"{row.dataflow}: {points} of {row.run['seen']:,} mappings, {how}"


def pareto_json(rows: Sequence[StudyRow], x: str, y: str) -> dict[str, Any]:
    """Return fronts as one JSON object (the format of ``simaccel compare --pareto --json``)."""
    fronts = [
        {"dataflow": row.dataflow, **(row.result or pick(row, "problem", "exit_code"))}
        for row in rows
    ]
    return {"x": x, "y": y, "fronts": fronts}


def pareto_rows(rows: Sequence[StudyRow]) -> list[dict[str, Any]]:
    """Return a CSV row for each point; a dataflow without a front has its ``problem`` instead."""
    empty = dict.fromkeys(("dataflow", *_OF_FRONTS, "problem"))
    table: list[dict[str, Any]] = []
    for row in rows:
        named = empty | {"dataflow": row.dataflow}
        table += [named | {name: point[name] for name in _OF_FRONTS} for point in front_points(row)]
        table += [named | {"problem": row.problem}] if row.problem else []
    return table
