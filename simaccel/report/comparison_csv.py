"""A comparison as CSV: one row a run, exact figures, the same columns for all dataflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simaccel.machine.accounts import STALLS
from simaccel.report.comparison import (
    Compared,
    dram_bytes,
    given_json,
    has_given,
    place_json,
    speedups,
)
from simaccel.report.rows import Row, csv_text, work_figures

_CAUSES = tuple(cause.name.lower() for cause in STALLS)


def comparison_csv(rows: Sequence[Compared]) -> str:
    """Return one line a run after a line of names; what has no result has ``error`` instead.

    The first column is the swept parameter, if any. Bytes, cycles, seconds and pJ stand in the
    names. ``array_*_cycles`` say where the cycles of the array went and sum to ``cycles``. There
    are no wall times: the same input gives the same text.
    """
    return csv_text(comparison_rows(rows))


def comparison_rows(rows: Sequence[Compared]) -> list[Row]:
    """Return what ``comparison_csv`` writes as plain rows, None where there is nothing.

    With estimates of one's own, they and their errors stand before ``error``.
    """
    found = []
    with_given = has_given(rows)
    for row, faster in zip(rows, speedups(rows), strict=True):
        figures = dict.fromkeys(_FIGURES) if row.result is None else _figures(row.result)
        given = given_json(row) if with_given else {}
        problem = {"error": row.problem or None}
        found.append({**place_json(row), **figures, "speedup": faster, **given, **problem})
    return found


_FIGURES = (
    "cycles",
    "seconds",
    "macs",
    "utilisation",
    "dram_bytes",
    "dram_least_bytes",
    "dram_compulsory_bytes",
    "energy_pj",
    "area_mm2",
    "power_mw",
    "chip_power_mw",
    "peak_buffer_bytes",
    "bound_cycles",
    "bound_by",
    "waiting_cycles",
    "array_busy_cycles",
    "array_idle_cycles",
    *(f"array_{cause}_cycles" for cause in _CAUSES),
)


def _figures(result: dict[str, Any]) -> dict[str, Any]:
    bound, array = result["bound"], result["engines"]["array"]
    same: tuple[str, ...] = ("cycles", "seconds", "macs", "utilisation", "peak_buffer_bytes")
    same += ("area_mm2", "power_mw", "chip_power_mw")
    stalls = {f"array_{cause}_cycles": array["stalls"].get(cause, 0) for cause in _CAUSES}
    return {
        **{name: result[name] for name in same},
        "dram_bytes": dram_bytes(result),
        "dram_least_bytes": result["dram_bound"]["least_bytes"],
        "dram_compulsory_bytes": result["dram_bound"]["compulsory_bytes"],
        "energy_pj": sum(result["energy_pj"].values()),
        "bound_cycles": bound["cycles"],
        "bound_by": bound["by"],
        "waiting_cycles": bound["waiting_cycles"],
        "array_busy_cycles": array["busy"],
        "array_idle_cycles": array["idle"],
        **stalls,
        **work_figures(result["work_cycles"]),
    }
