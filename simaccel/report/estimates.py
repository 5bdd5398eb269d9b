"""Tables of predictions: counts, work and lower bounds, nothing of them simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simaccel.analytic.prediction import GroupPrediction, Prediction
from simaccel.experiment.run import bound_json, known_energies, moved_tree
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_of
from simaccel.hardware.core_noc import CORE_NOC
from simaccel.hardware.cores import without_core
from simaccel.hardware.memory import dram_bytes
from simaccel.report.layout import add_row, make_table
from simaccel.report.units import bytes_text, cycles_text, short_share_text, work_energy_text

if TYPE_CHECKING:
    from rich.table import Table


def estimate_table(predicted: Prediction, accelerator: Accelerator) -> Table:
    """Tabulate the predicted groups and their total: counts, bound, work of each resource."""
    table = make_table(
        ("operator",),
        ("MACs", "DRAM", "footprint", "energy", "bound"),
        ("busiest", "work of each resource, in % of that"),
    )
    for group in predicted.groups:
        add_row(table, (group.name, *_cells(group, accelerator)))
    table.add_section()
    add_row(table, ("total", *_cells(predicted, accelerator)), style="bold")
    return table


def _cells(predicted: Prediction | GroupPrediction, accelerator: Accelerator) -> tuple[str, ...]:
    most = sorted(predicted.resources.items(), key=lambda work: -work[1])
    links = [name for name, _ in most if name.startswith(CORE_NOC)]
    work = [
        f"{name} {short_share_text(n / predicted.bound_cycles)}"
        for name, n in most
        if n and without_core(name) == name and name not in links[1:]
    ]
    return (
        cycles_text(predicted.macs),
        bytes_text(dram_bytes(predicted.moved)),
        bytes_text(predicted.buffer_bytes),
        work_energy_text(sum(known_energies(predicted.energy_pj, accelerator).values())),
        cycles_text(predicted.bound_cycles),
        predicted.bound_by,
        ", ".join(work),
    )


def estimate_json(predicted: Prediction, accelerator: Accelerator) -> dict[str, Any]:
    """Return a prediction as one JSON object (the format of ``simaccel estimate --json``)."""
    operators = [{"name": one.name, **_figures(one, accelerator)} for one in predicted.groups]
    area = area_of(accelerator)
    size = {"area_mm2": area.mm2, "area_um2": dict(area.by_part)}
    return {**_figures(predicted, accelerator), **size, "operators": operators}


def _figures(predicted: Prediction | GroupPrediction, accelerator: Accelerator) -> dict[str, Any]:
    return {
        **bound_json(predicted),
        "bound_seconds": accelerator.seconds(predicted.bound_cycles),
        "macs": predicted.macs,
        "bytes": moved_tree(predicted.moved),
        "footprint_bytes": predicted.buffer_bytes,
        "energy_pj": known_energies(predicted.energy_pj, accelerator),
        "energy_by_tensor_pj": accelerator.energy_by_tensor(predicted.moved),
    }
