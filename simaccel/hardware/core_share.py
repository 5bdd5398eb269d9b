"""One core of several as if it were alone: with all that they share, or with its part of it."""

from __future__ import annotations

from typing import TypeVar

from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.cores import CoresSpec, SharedBufferSpec
from simaccel.hardware.memory import DramSpec, MemorySpec

MemorySpecs = TypeVar("MemorySpecs", DramSpec, MemorySpec, SharedBufferSpec)


def one_core(accelerator: Accelerator, **sections: object) -> Accelerator:
    """Return an accelerator with a core alone, and other sections in place of its own."""
    fields = {name: getattr(accelerator, name) for name in type(accelerator).model_fields}
    cores = CoresSpec(shared_buffer=accelerator.cores.shared_buffer)
    return Accelerator.model_construct(**{**fields, "cores": cores, **sections})


def share_bandwidth(accelerator: Accelerator, cores: int) -> Accelerator:
    """Return one core with its part of the bandwidth that so many share."""

    def part(memory: MemorySpecs) -> MemorySpecs:
        per_second = memory.bandwidth_bytes_per_second
        if per_second is None:
            return memory
        return memory.model_copy(update={"bandwidth_bytes_per_second": max(1, per_second // cores)})

    memories = {name: part(memory) for name, memory in accelerator.memories.by_class().items()}
    shared = accelerator.cores.shared_buffer
    return one_core(
        accelerator,
        cores=CoresSpec(shared_buffer=None if shared is None else part(shared)),
        dram=part(accelerator.dram),
        memories=accelerator.memories.model_copy(update=memories),
    )
