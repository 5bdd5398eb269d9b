"""The levels of an accelerator with a spatial array."""

from __future__ import annotations

from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.levels import ROLES, Hierarchy, Level, Memory, Spatial, Temporal
from simaccel.hardware.quantity import rate
from simaccel.hardware.spatial import Fan, SpatialArraySpec


def levels(accelerator: Accelerator) -> Hierarchy:
    """Give dram, buffer, rows, cols, pe, vectors and lanes, outermost first.

    There is no buffer if all roles bypass it, and no vectors and lanes if there is one of them.

    Raises:
        NotSpatialError: the array is systolic.

    """
    array = accelerator.spatial
    pe = Temporal(
        name="pe",
        memories=tuple(
            Memory(
                roles=roles,
                capacity_bytes=memory.capacity_bytes,
                read_pj_per_byte=memory.read_pj_per_byte,
                write_pj_per_byte=memory.write_pj_per_byte,
            )
            for roles, memory in array.memories.by_roles().items()
        ),
    )
    found: list[Level] = [_dram(accelerator), *_buffer(accelerator, array)]
    found += [_fan(array, "rows"), _fan(array, "cols"), pe]
    found += [_fan(array, name) for name in ("vectors", "lanes") if getattr(array, name) > 1]
    return Hierarchy(levels=tuple(found), mac_pj=accelerator.energy.mac_pj)


def _dram(accelerator: Accelerator) -> Temporal:
    energy = accelerator.energy.dram_pj_per_byte
    memory = Memory(read_pj_per_byte=energy, write_pj_per_byte=energy)
    bandwidth = accelerator.dram.bandwidth_bytes_per_second
    both = rate(bandwidth, accelerator.clock_hz)
    return Temporal(name="dram", memories=(memory,), both=both)


def _buffer(accelerator: Accelerator, array: SpatialArraySpec) -> list[Temporal]:
    roles = frozenset(ROLES) - set(array.bypass_buffer)
    if not roles:
        return []
    energy = accelerator.energy.buffer_pj_per_byte
    memory = Memory(
        roles=roles,
        capacity_bytes=accelerator.buffer.capacity_bytes,
        read_pj_per_byte=energy,
        write_pj_per_byte=energy,
    )
    return [
        Temporal(
            name="buffer",
            memories=(memory,),
            read=accelerator.read_rate,
            write=accelerator.write_rate,
        )
    ]


def _fan(array: SpatialArraySpec, name: Fan) -> Spatial:
    return Spatial(name=name, fanout=getattr(array, name), reduces=name in array.reduces)
