"""Whether a workload fits the memories that it lives in: DRAM, and those beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.numbers import in_bytes
from simaccel.workload import Kind, Workload

_LASTING: Final[tuple[Kind, ...]] = ("weight", "cache")
"""Tensors that each layer has its own of, all the time."""


@dataclass(frozen=True)
class Room:
    """What a workload needs of a memory, and what there is; None: not known."""

    memory: str
    needed_bytes: int
    capacity_bytes: int | None

    @property
    def fits(self) -> bool:
        """Whether there is enough, as far as is known."""
        return self.capacity_bytes is None or self.needed_bytes <= self.capacity_bytes


def rooms(workload: Workload, accelerator: Accelerator) -> list[Room]:
    """Return what a workload needs of each memory: weights and caches of all layers, in and out.

    What goes from one operator to the next is left out: it need not be there all the time.
    """
    needed = dict.fromkeys(accelerator.every_backing, 0)
    times: dict[str, int] = {}
    for one in workload.operators:
        for operand in (*one.inputs, one.output):
            times[operand.tensor] = max(times.get(operand.tensor, 0), workload.times(one.name))
    for name, tensor in workload.tensors.items():
        if tensor.kind == "intermediate":
            continue
        n_bytes = in_bytes(math.prod(workload.shapes[name]), tensor.bits)
        layers = times[name] if tensor.kind in _LASTING else 1
        needed[accelerator.memory(tensor.kind)] += n_bytes * layers
    backing = accelerator.every_backing
    return [Room(name, n, backing[name].dram.capacity_bytes) for name, n in needed.items()]
