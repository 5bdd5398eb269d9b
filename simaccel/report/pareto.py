"""Pareto fronts as tables, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import yaml

from simaccel.experiment.pareto import MappingFront
from simaccel.mapping.files import mapping_text
from simaccel.numbers import plain
from simaccel.report.layout import add_row, make_table
from simaccel.report.units import bytes_text, cycles_text, share_text, work_energy_text
from simaccel.search.front import evenly

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS: Final[Mapping[str, str]] = {
    "cycles": "cycles",
    "utilisation": "utilisation",
    "footprint": "footprint_bytes",
    "dram-bytes": "dram_bytes",
    "energy": "energy_pj",
    "edp": "edp_pj_cycles",
}
"""What data calls the figures, with their units."""
HEADINGS: Final[Mapping[str, str]] = {
    "cycles": "cycles",
    "utilisation": "util.",
    "footprint": "buffer",
    "dram-bytes": "DRAM",
    "energy": "energy",
    "edp": "EDP (J cycles)",
}
_JOULE: Final = 1e12
SHOWN: Final = 16
"""Points of a dataflow in a table; files have all."""


@dataclass(frozen=True)
class DataflowFront:
    """The front of one dataflow, or the reason why there is none.

    ``points``: the figures of each point by name; ``mappings``: their documents.
    """

    dataflow: str
    points: tuple[dict[str, float], ...] = ()
    mappings: tuple[dict[str, Any], ...] = ()
    seen: int = 0
    points_in_all: int = 0
    proved: bool = False
    problem: str = field(default="")
    exit_code: int = 0


def fronted(found: MappingFront) -> DataflowFront:
    """Return a front as plain data."""
    return DataflowFront(
        dataflow=found.dataflow,
        points=tuple({str(k): v for k, v in one.figures.items()} for one in found.points),
        mappings=tuple(yaml.safe_load(mapping_text(one.result.mapping)) for one in found.points),
        seen=found.seen,
        points_in_all=found.points_in_all,
        proved=found.proved,
    )


def pareto_table(rows: Sequence[DataflowFront], x: str, y: str) -> Table:
    """Tabulate fronts, the two figures asked for first; of many points some that lie evenly."""
    names = [x, y, *(column for column in COLUMNS if column not in {x, y})]
    table = make_table(("dataflow",), [HEADINGS[name] for name in names])
    for number, row in enumerate(rows):
        if number:
            table.add_section()
        for at in evenly(np.arange(len(row.points)), SHOWN):
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
        return f"{value / _JOULE:.4g}" if value > 0 else "unknown"
    return bytes_text(int(value))


def pareto_lines(rows: Sequence[DataflowFront]) -> list[str]:
    """Say of each dataflow how its front was found, or why there is none."""
    return [f"{row.dataflow}: {_line(row)}" for row in rows]


def _line(row: DataflowFront) -> str:
    if row.problem:
        return row.problem
    n, shown = row.points_in_all, min(len(row.points), SHOWN)
    points = f"{n:,} point{'s' * (n != 1)}"
    if shown < n:
        points += f" ({shown} shown)"
    if row.proved:
        how = "each was run or can't be better, by its bound"
    else:
        how = "of which those with the least bounds were run"
    return f"{points} of {row.seen:,} mappings, {how}"


def pareto_json(rows: Sequence[DataflowFront], x: str, y: str) -> dict[str, Any]:
    """Return fronts as one JSON object (the format of ``simaccel compare --pareto --json``)."""
    fronts = []
    for row in rows:
        start: dict[str, Any] = {"dataflow": row.dataflow}
        if row.problem:
            fronts.append({**start, "error": row.problem, "exit_code": row.exit_code})
            continue
        points = [
            {**{COLUMNS[name]: value for name, value in point.items()}, "mapping": mapping}
            for point, mapping in zip(row.points, row.mappings, strict=True)
        ]
        how = {"seen": row.seen, "points_in_all": row.points_in_all, "proved": row.proved}
        fronts.append({**start, **how, "points": points})
    return {"x": x, "y": y, "fronts": fronts}


def pareto_csv(rows: Sequence[DataflowFront]) -> str:
    """Return one line a point after a line of names; what has no front has ``error`` instead."""
    out = io.StringIO()
    names = ("dataflow", *COLUMNS.values(), "error")
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        for point in row.points:
            figures = plain({COLUMNS[name]: value for name, value in point.items()})
            writer.writerow({"dataflow": row.dataflow, **figures})
        if row.problem:
            writer.writerow({"dataflow": row.dataflow, "error": row.problem})
    return out.getvalue()
