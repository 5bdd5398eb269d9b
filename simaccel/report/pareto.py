"""Pareto fronts as tables, CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from simaccel.pareto import Front, pick_evenly
from simaccel.report.tables import Table, csv_text, pick, study_columns, tabulate, texts
from simaccel.study.pareto import FrontPoint
from simaccel.study.points import Figures

_COLUMNS: Final = (
    *("cycles", "utilisation", "footprint_bytes"),
    *("dram_bytes", "energy_pj", "edp_js"),
)
"""Figures in the order of tables and CSV."""
SHOWN: Final = 16
"""Most points of a dataflow in a table; files have all."""


@dataclass(frozen=True)
class FrontRow:
    """The front of one dataflow, or the reason why there is none."""

    dataflow: str
    front: Front[FrontPoint] = field(default_factory=Front)
    problem: str = ""
    exit_code: int = 0

    @property
    def points(self) -> tuple[Figures, ...]:
        """The figures of the points on the front."""
        return tuple(point.figures for point in self.front.points)


def pareto_table(rows: Sequence[FrontRow], x: str, y: str) -> Table:
    """Return fronts as a table, their two figures first; of many points, evenly spaced ones."""
    first, *others = study_columns(x, y, *(name for name in _COLUMNS if name not in {x, y}))
    shown = [
        {
            "row": row,
            "dataflow": row.dataflow,
            "figures": row.points[int(at)] if row.points else None,
        }
        for row in rows
        for at in pick_evenly(np.arange(len(row.points) or 1), SHOWN)
    ]
    columns = (*texts("dataflow"), replace(first, missing="does not run"), *others)
    return tabulate(shown, columns, apart=lambda point: id(point["row"]))


def pareto_lines(rows: Sequence[FrontRow]) -> list[str]:
    """Return a line for each dataflow: how its front was found, or why there is none."""
    return [f"{row.dataflow}: {_line(row)}" for row in rows]


def _line(row: FrontRow) -> str:
    if row.problem:
        return row.problem
    n, shown = row.front.points_in_all, min(len(row.points), SHOWN)
    points = f"{n:,} point{'s' * (n != 1)}"
    if shown < n:
        points += f" ({shown} shown)"
    if row.front.proved:
        how = "each was run or can't be better, by its bound"
    else:
        how = "of which those with the least bounds were run"
    return f"{points} of {row.front.seen:,} mappings, {how}"


def pareto_json(rows: Sequence[FrontRow], x: str, y: str) -> dict[str, Any]:
    """Return fronts as one JSON object (the format of ``simaccel compare --pareto --json``)."""
    fronts = []
    for row in rows:
        start: dict[str, Any] = {"dataflow": row.dataflow}
        if row.problem:
            fronts.append({**start, "problem": row.problem, "exit_code": row.exit_code})
            continue
        points = [{**point.figures, "mapping": point.mapping} for point in row.front.points]
        how = pick(row.front, "seen", "points_in_all", "proved")
        fronts.append({**start, **how, "points": points})
    return {"x": x, "y": y, "fronts": fronts}


def pareto_csv(rows: Sequence[FrontRow]) -> str:
    """Return a CSV line for each point; a dataflow without a front has ``error`` instead."""
    empty = dict.fromkeys(("dataflow", *_COLUMNS, "problem"))
    table: list[dict[str, Any]] = []
    for row in rows:
        named = empty | {"dataflow": row.dataflow}
        table += [named | point for point in row.points]
        table += [named | {"problem": row.problem}] if row.problem else []
    return csv_text(table)
