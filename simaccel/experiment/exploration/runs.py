"""One workload of one design: what decides what comes out, and its run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simaccel.analytic.native import ideal_cycles
from simaccel.errors import SimaccelError
from simaccel.experiment.run import (
    ExperimentResult,
    energy_pj,
    floor_json,
    moved_tree,
    simulate,
)
from simaccel.experiment.store import result_key
from simaccel.experiment.traffic import dram_by_class
from simaccel.hardware import Accelerator
from simaccel.hardware.memory import dram_bytes
from simaccel.maestro.dataflows.reading import parse_directives
from simaccel.maestro.dataflows.translating import directed_mapping
from simaccel.mapping.checks import require_mapping
from simaccel.mapping.tree import Mapping
from simaccel.numbers import plain
from simaccel.schedulers import Options
from simaccel.workload import Workload

Record = dict[str, Any]
"""What came out, as plain data: figures, or ``problem`` where there are none."""


@dataclass(frozen=True)
class RunKey:
    """One run; ``description``: that of the workload, with its dataflows."""

    workload: Workload
    accelerator: Accelerator
    dataflow: str
    options: Options
    description: str = ""

    @cached_property
    def key(self) -> str:
        """The digest of all that decides what comes out."""
        others = {"dataflow": self.dataflow, "description": self.description}
        return result_key("run", self.accelerator, self.workload, self.options, **others)


def run(asked: RunKey) -> Record:
    """Run; what the user can cause is a record with its reason."""
    try:
        return _simulate_key(asked)
    except SimaccelError as error:
        return {"problem": str(error).partition("\n")[0]}


def _directed_mapping(asked: RunKey) -> Mapping | None:
    """Return the mapping of a description; None for runs with a scheduler."""
    if not asked.description:
        return None
    names = {one.name for one in asked.workload.operators}
    layers = [one for one in parse_directives(asked.description).layers if one.name in names]
    mapping = directed_mapping(layers, asked.workload, asked.accelerator)
    require_mapping(asked.workload, mapping, asked.accelerator, "description")
    return mapping


def _simulate_key(asked: RunKey) -> Record:
    dataflow = _directed_mapping(asked) or asked.dataflow
    result = simulate(asked.workload, asked.accelerator, dataflow, options=asked.options)
    run = result.run
    return {
        "cycles": run.cycles,
        "ideal_cycles": float(ideal_cycles(asked.workload, asked.accelerator)),
        "energy_pj": plain(energy_pj(run, asked.accelerator)),
        **_dram_bytes(result),
        "footprint_bytes": result.footprint_bytes,
        "bound_cycles": result.prediction.bound_cycles,
        "limit": result.limit.name,
    }


def _dram_bytes(result: ExperimentResult) -> Record:
    """Return DRAM bytes: all, read, written, of each class of tensors, the bound, compulsory."""
    moved = result.run.moved
    ways = {way: sum(n.values()) for way, n in moved_tree(moved)["dram"].items()}
    classes = dram_by_class(result.workload, moved)
    named = {f"dram_{name}_bytes": n for name, n in (ways | classes).items()}
    floor = floor_json(result.floor)
    least = {f"dram_{name}": floor[name] for name in ("bound_bytes", "compulsory_bytes")}
    return {"dram_bytes": dram_bytes(moved), **named, **least}
