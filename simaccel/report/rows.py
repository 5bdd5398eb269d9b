"""Exact figures of one run as plain rows, for CSV and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from simaccel.experiment.run import Result, energy_pj
from simaccel.numbers import plain
from simaccel.report.results import dram_bytes

Row = dict[str, Any]


def operator_rows(result: Result, given: Mapping[str, float] | None = None) -> list[Row]:
    """Return a row for each operator or fused group: cycles, bound, work, bytes, energy.

    ``given`` has estimates of one's own, in cycles by operator, which stand beside with their
    error: (given - simulated) / simulated cycles.
    """
    pes = result.accelerator.array.pes
    rows = []
    for run, predicted in result.groups():
        row: Row = {
            "operator": run.name,
            "cycles": run.cycles,
            "seconds": result.accelerator.seconds(run.cycles),
            "macs": run.macs,
            "utilisation": run.macs / pes / run.cycles,
            "bound_cycles": predicted.bound_cycles,
            "bound_by": predicted.bound_by,
            **work_figures(predicted.resources),
            "dram_bytes": dram_bytes(run.moved),
            "energy_pj": sum(energy_pj(run, result.accelerator).values()),
        }
        if given:
            row |= given_figures(given.get(run.name), run.cycles)
        rows.append(row)
    return rows


def work_figures(resources: Mapping[str, int]) -> Row:
    """Return the cycles of each resource's work by column."""
    return {f"{name}_work_cycles": cycles for name, cycles in resources.items()}


def given_figures(cycles: float | None, simulated: int | None) -> Row:
    """Return an estimate of one's own and its error, None where one of both is not there."""
    error = None
    if cycles is not None and simulated is not None:
        error = (cycles - simulated) / simulated
    return {"given_estimate_cycles": cycles, "given_relative_error": error}


def engine_rows(result: Result) -> list[Row]:
    """Return a row for each engine: busy, idle, and its stalls by cause."""
    engines = result.run.engines
    causes = dict.fromkeys(cause for one in engines.values() for cause in one.stalls)
    return [
        {
            "engine": name,
            "busy": one.busy,
            "idle": one.idle,
            **{cause: one.stalls.get(cause, 0) for cause in causes},
        }
        for name, one in engines.items()
    ]


def stall_rows(result: Result) -> list[Row]:
    """Return a row for each operator, engine and root cause that it waited for."""
    return [
        {
            "operator": run.name,
            "engine": engine,
            "cause": cause,
            "cycles": cycles,
            "share": cycles / run.cycles,
        }
        for run in result.run.operators
        for engine, found in run.engines.items()
        for cause, cycles in found.stalls.items()
        if cycles
    ]


def csv_text(rows: Sequence[Row]) -> str:
    """Return rows as CSV, the keys of all of them as its header; what is unknown is empty."""
    out = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(out, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain(rows))
    return out.getvalue()
