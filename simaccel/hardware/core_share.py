"""One core of several with its share of the resources that all share."""

from __future__ import annotations

from typing import TypeVar

from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.cores import SharedBufferSpec
from simaccel.hardware.memory import DramSpec, MemorySpec

MemorySpecs = TypeVar("MemorySpecs", DramSpec, MemorySpec, SharedBufferSpec)


def share_bandwidth(accelerator: Accelerator, cores: int) -> Accelerator:
    """Return one core with its share of the bandwidth that ``cores`` cores share."""

    def part(memory: MemorySpecs) -> MemorySpecs:
        per_second = memory.bandwidth_bytes_per_second
        if per_second is None:
            return memory
        return memory.model_copy(update={"bandwidth_bytes_per_second": max(1, per_second // cores)})

    memories = {name: part(memory) for name, memory in accelerator.memories.by_class().items()}
    alone = accelerator.cores.alone
    shared = alone.shared_buffer and part(alone.shared_buffer)
    return accelerator.with_sections(
        cores=alone.model_copy(update={"shared_buffer": shared}),
        dram=part(accelerator.dram),
        memories=accelerator.memories.model_copy(update=memories),
    )
