"""Pareto fronts as tables, CSV and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simaccel.mapping.documents import mapping_document
from simaccel.pareto import Front, pick_evenly
from simaccel.report.layout import add_row, make_table
from simaccel.report.rows import csv_text
from simaccel.report.units import bytes_text, cycles_text, edp_text, share_text, work_energy_text
from simaccel.study.pareto import FrontPoint

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS: Final[Mapping[str, str]] = {
    "cycles": "cycles",
    "utilisation": "utilisation",
    "footprint": "footprint_bytes",
    "dram-bytes": "dram_bytes",
    "energy": "energy_pj",
    "edp": "edp_js",
}
"""What data calls the figures, with their units."""
HEADINGS: Final[Mapping[str, str]] = {
    "cycles": "cycles",
    "utilisation": "util.",
    "footprint": "footprint",
    "dram-bytes": "DRAM",
    "energy": "energy",
    "edp": "EDP",
}
SHOWN: Final = 16
"""Points of a dataflow in a table; files have all."""


@dataclass(frozen=True)
class FrontRow:
    """The front of one dataflow, its points as figures by name, or the reason why there is none.

    ``mappings``: the documents of the points.
    """

    dataflow: str
    front: Front[dict[str, float]] = field(default_factory=Front)
    mappings: tuple[dict[str, Any], ...] = ()
    problem: str = ""
    exit_code: int = 0

    @property
    def points(self) -> tuple[dict[str, float], ...]:
        """The points of the front."""
        return self.front.points


def front_row(dataflow: str, front: Front[FrontPoint]) -> FrontRow:
    """Return the front of a dataflow as plain data."""
    figures = tuple({str(k): v for k, v in point.figures.items()} for point in front.points)
    documents = (mapping_document(point.result.mapping) for point in front.points)
    plain_front = Front(points=figures, seen=front.seen, proved=front.proved, more=front.more)
    return FrontRow(dataflow, plain_front, tuple(documents))


def pareto_table(rows: Sequence[FrontRow], x: str, y: str) -> Table:
    """Return fronts as a table, the two figures of the front first; of many points, spaced ones."""
    names = [x, y, *(column for column in COLUMNS if column not in {x, y})]
    table = make_table(("dataflow",), [HEADINGS[name] for name in names])
    for number, row in enumerate(rows):
        if number:
            table.add_section()
        for at in pick_evenly(np.arange(len(row.points)), SHOWN):
            point = row.points[int(at)]
            add_row(table, [row.dataflow, *(figure_text(name, point[name]) for name in names)])
        if not row.points:
            add_row(table, [row.dataflow, "does not run", *["-"] * (len(names) - 1)])
    return table


def figure_text(name: str, value: float) -> str:
    """Write a figure of a front by its name."""
    if name == "cycles":
        return cycles_text(int(value))
    if name == "utilisation":
        return share_text(value)
    if name == "energy":
        return work_energy_text(value)
    if name == "edp":
        return edp_text(value)
    return bytes_text(int(value))


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
        points = [
            {**{COLUMNS[name]: value for name, value in point.items()}, "mapping": mapping}
            for point, mapping in zip(row.points, row.mappings, strict=True)
        ]
        how = {
            "seen": row.front.seen,
            "points_in_all": row.front.points_in_all,
            "proved": row.front.proved,
        }
        fronts.append({**start, **how, "points": points})
    return {"x": x, "y": y, "fronts": fronts}


def pareto_csv(rows: Sequence[FrontRow]) -> str:
    """Return one line a point after a line of names; what has no front has ``error`` instead."""
    empty = dict.fromkeys(("dataflow", *COLUMNS.values(), "problem"))
    table: list[dict[str, Any]] = []
    for row in rows:
        named = empty | {"dataflow": row.dataflow}
        table += [named | {COLUMNS[k]: value for k, value in one.items()} for one in row.points]
        table += [named | {"problem": row.problem}] if row.problem else []
    return csv_text(table)
