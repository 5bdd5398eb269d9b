"""One workload of one design: what decides what comes out, and its run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simaccel.errors import SimaccelError
from simaccel.experiment.pipeline import run_pipeline
from simaccel.experiment.pipeline_row import pipeline_row
from simaccel.experiment.resident import resident_bytes
from simaccel.experiment.run import result_json, simulate
from simaccel.experiment.store import result_key
from simaccel.hardware import Accelerator
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
    """One run; ``description``: that of the workload, with its dataflows.

    ``stages``: of a pipeline, with ``micro_batches`` (None: as many).
    """

    workload: Workload
    accelerator: Accelerator
    dataflow: str
    options: Options
    description: str = ""
    stages: int | None = None
    micro_batches: int | None = None

    @cached_property
    def key(self) -> str:
        """The digest of all that decides what comes out."""
        others = {"dataflow": self.dataflow, "description": self.description}
        others |= {"stages": str(self.stages), "micro_batches": str(self.micro_batches)}
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
    if asked.stages is None:
        result = simulate(asked.workload, asked.accelerator, dataflow, options=asked.options)
        return _record_of(result_json(result), resident_bytes(result))
    pipeline = run_pipeline(
        asked.workload,
        asked.accelerator,
        dataflow,
        stages=asked.stages,
        micro_batches=asked.micro_batches,
        options=asked.options,
    )
    return _record_of(pipeline_row(pipeline), pipeline.resident_bytes)


def _record_of(row: Record, resident: int) -> Record:
    """Return the figures of a run, or of a pipeline, as JSON has it (``result_json``).

    DRAM bytes: all, read, written, of each class of tensors, the bound, compulsory.
    """
    ways = {way: sum(n.values()) for way, n in row["bytes"]["dram"].items()}
    classes = row["dram_by_class"]
    named = {f"dram_{name}_bytes": n for name, n in (ways | classes).items()}
    least = {
        f"dram_{name}": row["dram_bound"][name] for name in ("bound_bytes", "compulsory_bytes")
    }
    return {
        "cycles": row["cycles"],
        "ideal_cycles": row["utilisation"] * row["cycles"],
        "energy_pj": plain(row["energy_pj"]),
        "dram_bytes": sum(classes.values()),
        **named,
        **least,
        "footprint_bytes": row["footprint_bytes"],
        "resident_bytes": resident,
        "bound_cycles": row["bound"]["cycles"],
        "limit": row["limit"]["name"],
    }
