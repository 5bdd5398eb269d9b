"""Tables of the closed form alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simaccel.analytic.estimate import Estimate, OperatorEstimate
from simaccel.experiment.run import known_energies, moved_tree
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_and_power
from simaccel.report.layout import add_row, make_table
from simaccel.report.results import busiest, dram_bytes
from simaccel.report.units import bytes_text, cycles_text, share_text, work_energy_text

if TYPE_CHECKING:
    from rich.table import Table


def estimate_table(predicted: Estimate, accelerator: Accelerator) -> Table:
    """Tabulate the predicted operators and their total."""
    table = make_table(
        ("operator",),
        ("cycles", "bound", "util.", "DRAM", "buffer", "energy"),
        ("bound by",),
    )
    for operator in predicted.operators:
        cells = _cells(operator, accelerator)
        add_row(table, (operator.name, *cells, operator.bound_by))
    table.add_section()
    cells = _cells(predicted, accelerator)
    add_row(table, ("total", *cells, busiest(predicted.operators)), style="bold")
    return table


def _cells(predicted: Estimate | OperatorEstimate, accelerator: Accelerator) -> tuple[str, ...]:
    return (
        cycles_text(predicted.cycles),
        cycles_text(predicted.resource_bound_cycles),
        share_text(predicted.macs / accelerator.array.pes / predicted.cycles),
        bytes_text(dram_bytes(predicted.moved)),
        bytes_text(predicted.buffer_bytes),
        work_energy_text(sum(known_energies(predicted.energy_pj, accelerator).values())),
    )


def estimate_json(predicted: Estimate, accelerator: Accelerator) -> dict[str, Any]:
    """Return an estimate as one JSON object (the format of ``simaccel estimate --json``)."""
    operators = [
        {"name": one.name, **_figures(one, accelerator), "bound_by": one.bound_by}
        for one in predicted.operators
    ]
    figures = _figures(predicted, accelerator)
    size = area_and_power(accelerator, figures["energy_pj"], predicted.cycles)
    return {**figures, **size, "operators": operators}


def _figures(predicted: Estimate | OperatorEstimate, accelerator: Accelerator) -> dict[str, Any]:
    return {
        "cycles": predicted.cycles,
        "resource_bound_cycles": predicted.resource_bound_cycles,
        "seconds": accelerator.seconds(predicted.cycles),
        "macs": predicted.macs,
        "utilisation": predicted.macs / accelerator.array.pes / predicted.cycles,
        "bytes": moved_tree(predicted.moved),
        "buffer_bytes": predicted.buffer_bytes,
        "energy_pj": known_energies(predicted.energy_pj, accelerator),
        "energy_by_tensor_pj": accelerator.energy_by_tensor(predicted.moved),
    }
