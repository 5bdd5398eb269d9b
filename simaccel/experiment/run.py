"""One experiment: a workload on an accelerator, scheduled, predicted, run, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simaccel.analytic.bounds.floor import Floor, floor_of, on_chip_bytes
from simaccel.analytic.estimate import Estimate, OperatorEstimate, estimate
from simaccel.experiment.precision import at_precision
from simaccel.experiment.scheduling import scheduled
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_and_power
from simaccel.machine.accounts import EngineCycles, Listener
from simaccel.machine.machine import Machine, OperatorRun, Run
from simaccel.machine.walks import Walks, make_walks
from simaccel.mapping.checks import require_mapping
from simaccel.mapping.files import require_same
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.program.program import Program
from simaccel.schedulers import Options
from simaccel.workload import Workload

Progress = Callable[[int, float], None]
Moved = dict[tuple[str, str], int]


@dataclass(frozen=True)
class Result:
    """What came out of one experiment."""

    workload: Workload
    accelerator: Accelerator
    mapping: Mapping
    program: Program
    estimate: Estimate
    run: Run
    wall_seconds: float

    @property
    def ideal_cycles(self) -> int:
        """MACs divided by peak MACs per cycle, rounded up."""
        return -(-self.workload.macs // self.accelerator.array.pes)

    @property
    def utilisation(self) -> float:
        """Ideal cycles divided by cycles; MACs of padding do no good."""
        return self.workload.macs / self.accelerator.array.pes / self.run.cycles

    @property
    def relative_error(self) -> float:
        """(estimate - simulated) / simulated cycles."""
        return (self.estimate.cycles - self.run.cycles) / self.run.cycles

    @cached_property
    def floor(self) -> Floor:
        """What any mapping with these groups moves with DRAM, at least."""
        return floor_of(self.workload, self.mapping, on_chip_bytes(self.accelerator))

    def operators(self) -> list[tuple[OperatorRun, OperatorEstimate]]:
        """Pair each operator's run with its estimate."""
        return list(zip(self.run.operators, self.estimate.operators, strict=True))


def simulate(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | Mapping = "flat",
    *,
    options: Options | None = None,
    listener: Callable[[Mapping, Program, Walks], Listener] | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
) -> Result:
    """Schedule a workload (or take a mapping), predict it, run it on the machine.

    ``listener`` is called with mapping, program and its walks before the run and gives who listens
    to the machine, e.g. a trace writer.

    Raises:
        SimaccelError: nothing fits, the mapping is for another workload, a deadlock.

    """
    started = time.perf_counter()
    if isinstance(dataflow, Mapping):
        mapping = dataflow
        require_same(workload, mapping)
        require_mapping(workload, mapping, accelerator, "mapping")
    else:
        workload = at_precision(workload, accelerator)
        mapping = scheduled(workload, accelerator, dataflow, options)
    program = lower(workload, mapping)
    heard, walks = None, None
    if listener:
        walks = make_walks(program, accelerator)
        heard = listener(mapping, program, walks)
    machine = Machine(accelerator, program, heard, fast_forward=fast_forward, walks=walks)
    run = machine.run(progress)
    predicted = estimate(workload, mapping, accelerator)
    seconds = time.perf_counter() - started
    return Result(workload, accelerator, mapping, program, predicted, run, seconds)


def moved_tree(moved: Moved) -> dict[str, Any]:
    """Return bytes as ``{dram: {read: {tensor: n}, write: ...}, buffer: ..., noc: ...}``.

    A spatial array adds the memories of its PEs, such as ``pe.input``.

    >>> moved_tree({("dram_read", "Q"): 8})
    {'dram': {'read': {'Q': 8}, 'write': {}}, 'buffer': {'read': {}, 'write': {}}, \
'noc': {'distribution': {}, 'collection': {}}}
    """
    tree: dict[str, Any] = {
        "dram": {"read": {}, "write": {}},
        "buffer": {"read": {}, "write": {}},
        "noc": {"distribution": {}, "collection": {}},
    }
    for (level, tensor), n_bytes in moved.items():
        where, direction = level.split("_")
        place = tree.setdefault(where, {"read": {}, "write": {}})
        place[direction][tensor] = n_bytes
    return tree


def energy_pj(run: Run | OperatorRun, accelerator: Accelerator) -> dict[str, float]:
    """Energy of what the machine did, by level in pJ."""
    return accelerator.energy_by_level(run.native_macs, run.elements, run.moved, run.cycles)


def floor_json(floor: Floor) -> dict[str, int | None]:
    """Return what is moved with DRAM at least: with the memory there is, and with any."""
    return {
        "least_bytes": floor.least_bytes,
        "compulsory_bytes": floor.distinct_bytes,
        "on_chip_bytes": floor.room_bytes,
    }


def _engines(engines: dict[str, EngineCycles]) -> dict[str, Any]:
    return {
        name: {"busy": e.busy, "idle": e.idle, "stalls": e.stalls} for name, e in engines.items()
    }


def result_json(result: Result) -> dict[str, Any]:
    """Return a result as one JSON object (the format of ``simaccel run --json``)."""
    run, predicted = result.run, result.estimate
    energy = energy_pj(run, result.accelerator)
    left = result.workload.account.of("not taken")
    return {
        "workload": result.workload.name,
        "accelerator": result.accelerator.name,
        "dataflow": result.mapping.dataflow,
        "cycles": run.cycles,
        "seconds": result.accelerator.seconds(run.cycles),
        "macs": run.macs,
        "native_macs": run.native_macs,
        "ideal_cycles": result.ideal_cycles,
        "utilisation": result.utilisation,
        "estimate": {
            "cycles": predicted.cycles,
            "resource_bound_cycles": predicted.resource_bound_cycles,
            "relative_error": result.relative_error,
        },
        "bytes": moved_tree(run.moved),
        "dram_bound": floor_json(result.floor),
        "engines": _engines(run.engines),
        "served_cycles": run.served_cycles,
        "energy_pj": energy,
        "energy_by_tensor_pj": result.accelerator.energy_by_tensor(run.moved),
        **area_and_power(result.accelerator, energy, run.cycles),
        "peak_buffer_bytes": run.peak_buffer_bytes,
        "reserved_buffer_bytes": predicted.buffer_bytes,
        "operators": [_operator_json(result, *pair) for pair in result.operators()],
        "events": run.events,
        "wall_seconds": result.wall_seconds,
        **({"not_taken": [vars(one) for one in left]} if left else {}),
    }


def _operator_json(result: Result, run: OperatorRun, predicted: OperatorEstimate) -> dict[str, Any]:
    array = result.accelerator.array
    return {
        "name": run.name,
        "cycles": run.cycles,
        "macs": run.macs,
        "native_macs": run.native_macs,
        "utilisation": run.macs / array.pes / run.cycles,
        "bound_by": predicted.bound_by,
        "estimate": {
            "cycles": predicted.cycles,
            "resource_bound_cycles": predicted.resource_bound_cycles,
            "relative_error": (predicted.cycles - run.cycles) / run.cycles,
        },
        "bytes": moved_tree(run.moved),
        "engines": _engines(run.engines),
        "energy_pj": energy_pj(run, result.accelerator),
        "energy_by_tensor_pj": result.accelerator.energy_by_tensor(run.moved),
    }
