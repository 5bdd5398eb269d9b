"""Energy of a run by level, operator and tensor."""

from __future__ import annotations

from collections.abc import Mapping

from simaccel.experiment.run import ExperimentResult, energy_pj
from simaccel.report.tables import Table, add_row, make_table
from simaccel.report.units import count_text, energy_text, share_text

_TENSORS = 8
"""Tensors with a row of their own, the dearest; the others share one."""


def energy_table(result: ExperimentResult) -> Table | str:
    """Tabulate the energy of operators, of moving tensors, and the total by level.

    Where it is not known, as of a SCALE-Sim configuration, a line says so. The tensors' part is in
    the operators' already; MACs, SFU and leakage are no tensor's.
    """
    accelerator, run = result.accelerator, result.run
    if accelerator.unknown_energies:
        unknown = ", ".join(accelerator.unknown_energies)
        return f"energy: unknown, {accelerator.name} gives no {unknown}"
    total = energy_pj(run, accelerator)
    every = sum(total.values())
    levels = [level for level, energy in total.items() if energy]
    if not levels:
        return f"energy: unknown, {accelerator.name} gives no energies"
    table = make_table(("energy of",), (*levels, "all", "share"))
    for operator in run.operators:
        _add(table, operator.name, energy_pj(operator, accelerator), levels, every)
    table.add_section()
    tensors = accelerator.energy_by_tensor(run.moved)
    order = sorted(tensors, key=lambda tensor: -sum(tensors[tensor].values()))
    for tensor in order[:_TENSORS]:
        _add(table, f"moving {tensor}", tensors[tensor], levels, every)
    if len(order) > _TENSORS:
        others = [tensors[tensor] for tensor in order[_TENSORS:]]
        rest = {level: sum(other.get(level, 0.0) for other in others) for level in levels}
        _add(table, f"moving {count_text(len(order) - _TENSORS, 'other')}", rest, levels, every)
    table.add_section()
    _add(table, "total", total, levels, every, style="bold")
    return table


def _add(
    table: Table,
    name: str,
    found: Mapping[str, float],
    levels: list[str],
    every: float,
    style: str = "",
) -> None:
    own = sum(found.values())
    cells = [energy_text(found[level]) if found.get(level) else "" for level in levels]
    add_row(table, (name, *cells, energy_text(own) if own else "", share_text(own / every)), style)
