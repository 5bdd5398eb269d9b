"""Tables of predictions: counts, work and lower bounds, nothing of them simulated."""

from __future__ import annotations

from typing import Any, Final

from simaccel.analytic.prediction import GroupPrediction, Prediction
from simaccel.experiment.run import bound_json, known_energies, moved_tree
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_of
from simaccel.hardware.core_noc import CORE_NOC
from simaccel.hardware.cores import without_core
from simaccel.report.tables import Column, Row, Table, tabulate
from simaccel.report.units import short_share_text


def _work_text(figures: Row) -> str:
    most = sorted(figures["work_cycles"].items(), key=lambda work: -work[1])
    links = [name for name, _ in most if name.startswith(CORE_NOC)]
    return ", ".join(
        f"{name} {short_share_text(n / figures['bound']['cycles'])}"
        for name, n in most
        if n and without_core(name) == name and name not in links[1:]
    )


_COLUMNS: Final = (
    Column("operator", "name", kind="text"),
    Column("MACs", "macs", "count"),
    Column("DRAM", "bytes.dram", "B"),
    Column("footprint", "footprint_bytes", "B"),
    Column("energy", "energy_pj", "pJ"),
    Column("bound", "bound.cycles", "cycles"),
    Column("busiest", "bound.by", kind="wrapped"),
    Column("work of each resource, in % of that", "", _work_text, "wrapped"),
)


def estimate_table(predicted: Prediction, accelerator: Accelerator) -> Table:
    """Tabulate the predicted groups and their total: counts, bound, work of each resource."""
    whole = estimate_json(predicted, accelerator)
    return tabulate(whole["operators"], _COLUMNS, {**whole, "name": "total"})


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
