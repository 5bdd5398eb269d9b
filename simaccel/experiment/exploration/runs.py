"""One workload of one design: what decides what comes out, and its run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping as Map
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

from simaccel.analytic.native import ideal_cycles
from simaccel.errors import SimaccelError
from simaccel.experiment.code import code_digest
from simaccel.experiment.documents import accelerator_document
from simaccel.experiment.run import energy_pj, simulate
from simaccel.hardware import Accelerator
from simaccel.hardware.memory import dram_bytes
from simaccel.maestro.dataflows.reading import parse_directives
from simaccel.maestro.dataflows.translating import directed_mapping
from simaccel.mapping.checks import require_mapping
from simaccel.mapping.tree import Mapping
from simaccel.numbers import plain
from simaccel.schedulers import Options
from simaccel.version import version
from simaccel.workload import Workload
from simaccel.workload.workload import canonical_text

Record = dict[str, Any]
"""What came out, as plain data: figures, or ``problem`` where there are none."""
_UNREAD = frozenset({"source", "description"})


@dataclass(frozen=True)
class RunKey:
    """One run; ``description``: that of the workload, with its dataflows."""

    workload: Workload
    accelerator: Accelerator
    dataflow: str
    options: Options
    description: str = ""

    @cached_property
    def text(self) -> str:
        """All that decides what comes out, as one JSON text."""
        options = self.options
        asked = {
            "simaccel": version(),
            "code": code_digest(),
            "workload": _workload_text(self.workload),
            "accelerator": _accelerator_text(self.accelerator),
            "dataflow": self.dataflow,
            "pipeline": options.pipeline,
            "objective": options.objective,
            "stationarity": options.stationarity,
            "constraints": list(options.constraints),
            "effort": asdict(options.effort),
        }
        if self.description:
            asked["description"] = self.description
        return json.dumps(asked, sort_keys=True)

    @cached_property
    def key(self) -> str:
        """The digest of all that decides what comes out."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@lru_cache(maxsize=4096)
def _workload_text(workload: Workload) -> str:
    return f"{workload.name}\n{canonical_text(workload)}"


@lru_cache(maxsize=4096)
def _accelerator_text(accelerator: Accelerator) -> str:
    return json.dumps(_decisive(accelerator_document(accelerator)), sort_keys=True)


def _decisive(value: object) -> object:
    """Leave out what is there for readers."""
    if isinstance(value, Map):
        return {key: _decisive(item) for key, item in value.items() if key not in _UNREAD}
    return value


def run(asked: RunKey) -> Record:
    """Run; what the user can cause is a record with its reason."""
    try:
        return _simulated(asked)
    except SimaccelError as error:
        return {"problem": str(error).partition("\n")[0]}


def _directed(asked: RunKey) -> Mapping | None:
    """Return the mapping that a description says; None where a scheduler is asked."""
    if not asked.description:
        return None
    names = {one.name for one in asked.workload.operators}
    layers = [one for one in parse_directives(asked.description).layers if one.name in names]
    mapping = directed_mapping(layers, asked.workload, asked.accelerator)
    require_mapping(asked.workload, mapping, asked.accelerator, "description")
    return mapping


def _simulated(asked: RunKey) -> Record:
    dataflow = _directed(asked) or asked.dataflow
    result = simulate(asked.workload, asked.accelerator, dataflow, options=asked.options)
    run = result.run
    return {
        "cycles": run.cycles,
        "ideal_cycles": float(ideal_cycles(asked.workload, asked.accelerator)),
        "energy_pj": plain(energy_pj(run, asked.accelerator)),
        "dram_bytes": dram_bytes(run.moved),
        "buffer_bytes": result.reserved_bytes,
        "bound_cycles": result.prediction.bound_cycles,
    }
