"""Exact figures of one run as plain rows, and its energy by level, operator and tensor."""

from __future__ import annotations

from collections.abc import Mapping

from simaccel.analytic.memories import dram_by_class
from simaccel.diagnosis.limits import computing_unit
from simaccel.report.tables import Column, Row, Table, tabulate
from simaccel.report.units import count_text
from simaccel.study.experiment import (
    ExperimentResult,
    energy_pj,
    moved_tree,
    row_terms,
    total_energy_pj,
)
from simaccel.units import ARRAY, STALLS
from simaccel.workload.roles import kind_of


def operator_rows(
    result: ExperimentResult, estimates: Mapping[str, float] | None = None
) -> list[Row]:
    """Return a row for each operator or fused group, in program order.

    It has the cycles of the run, or the work of its busiest resource if that is more
    (``busy_cycles``), bound, limit, work, stalls of the array, DRAM bytes and energy.
    ``estimates``: the user's, in cycles by operator, with the error (estimate - simulated) /
    simulated.
    """
    rows = []
    for operator_row in result.rows:
        run, predicted = operator_row.run, operator_row.predicted
        dram, by_class = moved_tree(run.moved)["dram"], dram_by_class(result.workload, run.moved)
        sums = {way: sum(by_tensor.values()) for way, by_tensor in dram.items()}
        row: Row = {
            "operator": run.name,
            "kind": kind_of(result.workload, run.name),
            "cycles": run.cycles,
            "busy_cycles": operator_row.busy_cycles,
            "seconds": result.accelerator.seconds(operator_row.cycles),
            "macs": run.macs,
            "utilisation": operator_row.utilisation(result.accelerator),
            "bound_cycles": sum(row_terms(operator_row).values()),
            "limit": operator_row.limit.name,
            **work_figures(predicted.resources),
            **stall_figures(run.engines[computing_unit(run, ARRAY)].stalls),
            "dram_bytes": sum(sums.values()),
            **{f"dram_{name}_bytes": n for name, n in (sums | by_class).items()},
            "dram_by_tensor": tensors_text(dram),
            "energy_pj": total_energy_pj(run, result.accelerator),
        }
        if estimates:
            row |= user_estimate_figures(estimates.get(run.name), run.cycles)
        rows.append(row)
    return rows


def work_figures(resources: Mapping[str, int]) -> Row:
    """Return the cycles of each resource by column."""
    return {f"{name}_work_cycles": cycles for name, cycles in resources.items()}


def stall_figures(stalls: Mapping[str, int]) -> Row:
    """Return the stalls of the array by column; all runs have the same columns."""
    names = (cause.name.lower() for cause in STALLS)
    return {f"array_{name}_cycles": stalls.get(name, 0) for name in names}


def tensors_text(dram: Mapping[str, Mapping[str, int]]) -> str:
    """Return DRAM bytes by direction and tensor as text: ``read A 63; write C 90``."""
    return "; ".join(
        f"{way} {tensor} {n}" for way, by_tensor in dram.items() for tensor, n in by_tensor.items()
    )


def user_estimate_figures(cycles: float | None, simulated: int | None) -> Row:
    """Return a user's estimate and its error; None if either number is missing."""
    error = None
    if cycles is not None and simulated is not None:
        error = (cycles - simulated) / simulated
    return {"estimate_cycles": cycles, "estimate_error": error}


def activities(result: ExperimentResult) -> dict[str, dict[str, int]]:
    """Return the cycles of each engine: busy, idle, and its waits by cause."""
    engines = result.run.engines.items()
    return {name: {"busy": one.busy, "idle": one.idle, **one.stalls} for name, one in engines}


def engine_rows(result: ExperimentResult) -> list[Row]:
    """Return a row for each engine: busy, idle, and its stalls by cause."""
    found = activities(result)
    unknown = dict.fromkeys((name for one in found.values() for name in one), 0)
    return [{"engine": name, **unknown, **activity} for name, activity in found.items()]


def stall_rows(result: ExperimentResult) -> list[Row]:
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
        for engine, cycles_of in run.engines.items()
        for cause, cycles in cycles_of.stalls.items()
        if cycles
    ]


_TENSORS = 8
"""Number of costliest tensors that have a row each; all others share a row."""


def energy_table(result: ExperimentResult) -> Table | None:
    """Tabulate the energy by operator, of moving tensors, and in total by level; None: unknown.

    The energy of operators includes that of moving tensors; MACs, SFU and leakage belong to no
    tensor.
    """
    accelerator, run = result.accelerator, result.run
    total = energy_pj(run, accelerator)
    total_pj = sum(total.values())
    levels = [level for level, energy in total.items() if energy]
    if accelerator.unknown_energies or not levels:
        return None

    def row(name: str, by_level: Mapping[str, float]) -> Row:
        pj, every = {level: by_level.get(level) or None for level in levels}, sum(by_level.values())
        return {"name": name, "pj": pj, "all": every or None, "share": every / total_pj}

    rows = [row(operator.name, energy_pj(operator, accelerator)) for operator in run.operators]
    tensors = accelerator.energy_by_tensor(run.moved)
    order = sorted(tensors, key=lambda tensor: -sum(tensors[tensor].values()))
    moving = [row(f"moving {tensor}", tensors[tensor]) for tensor in order[:_TENSORS]]
    if rest := [tensors[tensor] for tensor in order[_TENSORS:]]:
        sums = {level: sum(other.get(level, 0.0) for other in rest) for level in levels}
        moving.append(row(f"moving {count_text(len(rest), 'other')}", sums))
    columns = (
        Column("energy of", "name", kind="text"),
        *(Column(level, f"pj.{level}", "pJ", missing="") for level in levels),
        Column("all", "all", "pJ", missing=""),
        Column("share", "share", "share"),
    )
    return tabulate(rows + moving, columns, row("total", total), apart=lambda row: row in moving)
