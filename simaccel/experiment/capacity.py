"""Whether a workload fits the memories that it lives in: DRAM, and those beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.numbers import SHARED, in_bytes
from simaccel.workload import Kind, Workload
from simaccel.workload.shared import most_shared_bytes

_LASTING: Final[tuple[Kind, ...]] = ("weight", "cache")
"""Tensors that each layer has its own of, all the time."""


@dataclass(frozen=True)
class MemoryDemand:
    """Bytes that a workload needs of a memory, and its capacity; None: not known."""

    memory: str
    needed_bytes: int
    capacity_bytes: int | None

    @property
    def fits(self) -> bool:
        """Whether there is enough, as far as is known."""
        return self.capacity_bytes is None or self.needed_bytes <= self.capacity_bytes


def memory_demands(workload: Workload, accelerator: Accelerator) -> list[MemoryDemand]:
    """Return what a workload needs of each memory: weights and caches of all layers, in and out.

    What goes from one operator to the next is left out: it need not be there all the time.
    """
    needed = dict.fromkeys(accelerator.every_backing, 0)
    times: dict[str, int] = {}
    for operator in workload.operators:
        for operand in (*operator.inputs, operator.output):
            layers = workload.times(operator.name)
            times[operand.tensor] = max(times.get(operand.tensor, 0), layers)
    for name, tensor in workload.tensors.items():
        if tensor.kind == "intermediate":
            continue
        n_bytes = in_bytes(math.prod(workload.shapes[name]), tensor.bits)
        layers = times[name] if tensor.kind in _LASTING else 1
        needed[accelerator.memory(tensor.kind)] += n_bytes * layers
    backing = accelerator.every_backing
    if SHARED in needed:
        steps = [(operator.name,) for operator in workload.operators]
        needed[SHARED] = most_shared_bytes(workload, steps)
    return [MemoryDemand(name, n, backing[name].dram.capacity_bytes) for name, n in needed.items()]
