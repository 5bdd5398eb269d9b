"""The hierarchy of levels that an accelerator's spec describes."""

from __future__ import annotations

from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.levels import ROLES, Hierarchy, Level, Memory, SpatialLevel, TemporalLevel
from simaccel.hardware.spatial import SpatialArraySpec


def levels(accelerator: Accelerator) -> Hierarchy:
    """Return the levels of an accelerator, outermost first.

    A spatial array has dram, buffer, rows, cols, pe, vectors and lanes: without the buffer if all
    roles bypass it, and without vectors or lanes if there is only one of them. A systolic array has
    dram, buffer, rows and cols.
    """
    array, capacity_bytes = accelerator.array, accelerator.buffer.capacity_bytes
    bypass = array.bypass_buffer if isinstance(array, SpatialArraySpec) else ()
    roles = frozenset(ROLES) - {*bypass}
    every: list[Level] = [TemporalLevel(name="dram", memories=(Memory(),))]
    if roles:
        memory = Memory(roles=roles, capacity_bytes=capacity_bytes)
        every.append(TemporalLevel(name="buffer", memories=(memory,)))
    if isinstance(array, SpatialArraySpec):
        memories = tuple(
            Memory(roles=roles, capacity_bytes=memory.capacity_bytes)
            for roles, memory in array.memories.by_roles().items()
        )
        fans = [
            SpatialLevel(name=name, fanout=getattr(array, name), reduces=name in array.reduces)
            for name in ("rows", "cols", "vectors", "lanes")
        ]
        every += [*fans[:2], TemporalLevel(name="pe", memories=memories)]
        every += [fan for fan in fans[2:] if fan.fanout > 1]
    else:
        every += [SpatialLevel(name=name, fanout=getattr(array, name)) for name in ("rows", "cols")]
    pipes = accelerator.distribution_rate, accelerator.collection_rate
    has_dram_limit = accelerator.dram.bandwidth_bytes_per_second is not None
    has_pipe_limit = not all(pipe.unlimited for pipe in pipes)
    return Hierarchy(levels=tuple(every), limited_rates=(has_dram_limit, has_pipe_limit))
