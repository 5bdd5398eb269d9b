"""A comparison as CSV: one row a run, exact figures, the same columns for all dataflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simaccel.report.comparison import (
    given_json,
    has_given,
    place_json,
    speedups,
    token_figures,
)
from simaccel.report.metrics import Metric
from simaccel.report.rows import Row, csv_text, stall_figures, traffic_figures, work_figures
from simaccel.study.points import StudyRow, chips_alike
from simaccel.units import ARRAY, STALLS
from simaccel.workload import CLASSES

_CAUSES = tuple(cause.name.lower() for cause in STALLS)


def comparison_csv(rows: Sequence[StudyRow], metrics: Sequence[Metric] = ()) -> str:
    """Return one line a run after a line of names; what has no result has ``problem`` instead.

    The first column is the swept parameter, if any. Bytes, cycles, seconds and pJ stand in the
    names. ``array_*_cycles`` say where the cycles of the array went and sum to ``cycles``. There
    are no wall times: the same input gives the same text. ``metrics``: columns that are asked for
    and that it has not anyway.
    """
    table = comparison_rows(rows)
    for metric in metrics:
        for row, line in zip(rows, table, strict=True):
            value = None if row.result is None else metric.value(row)
            line.setdefault(metric.column, value)
    return csv_text(table)


def comparison_rows(rows: Sequence[StudyRow]) -> list[Row]:
    """Return what ``comparison_csv`` writes as plain rows, None where there is nothing.

    With estimates of one's own, they and their errors stand before ``problem``.
    """
    table = []
    with_given = has_given(rows)
    for row, faster in zip(rows, speedups(rows), strict=True):
        figures = dict.fromkeys(_FIGURES) if row.result is None else _figures(row)
        inputs = given_json(row) if with_given else {}
        problem = {"problem": row.problem or None}
        last = {**token_figures(row), "fits": row.fits, "speedup": faster, **inputs, **problem}
        table.append({**place_json(row), **figures, **last})
    return table


_FIGURES = (
    *("cycles", "seconds", "macs", "utilisation", "limit"),
    *("dram_bytes", "dram_read_bytes", "dram_write_bytes"),
    *(f"dram_{name}_bytes" for name in CLASSES),
    *("dram_bound_bytes", "dram_compulsory_bytes", "dram_by_tensor"),
    *("energy_pj", "area_mm2", "power_mw", "chip_power_mw"),
    *("peak_buffer_bytes", "bound_cycles", "waiting_cycles"),
    *("array_busy_cycles", "array_idle_cycles"),
    *(f"array_{cause}_cycles" for cause in _CAUSES),
)
"""Columns in their order; one for the work of each resource follows."""


def _figures(row: StudyRow) -> dict[str, Any]:
    """Return the figures of a run; area, energy and power are those of all chips."""
    result = row.run
    array, bound = result["engines"][ARRAY], result["dram_bound"]
    every = {
        **result,
        **traffic_figures(result["bytes"], result["dram_by_class"]),
        **stall_figures(array["stalls"]),
        "limit": result["limit"]["name"],
        "dram_bound_bytes": bound["bound_bytes"],
        "dram_compulsory_bytes": bound["compulsory_bytes"],
        "energy_pj": row.energy_pj,
        "area_mm2": row.area_mm2,
        "power_mw": row.power_mw,
        "chip_power_mw": chips_alike(result) * result["chip_power_mw"],
        "bound_cycles": result["bound"]["cycles"],
        "waiting_cycles": result["bound"]["waiting_cycles"],
        "array_busy_cycles": array["busy"],
        "array_idle_cycles": array["idle"],
    }
    return {**{name: every[name] for name in _FIGURES}, **work_figures(result["work_cycles"])}
