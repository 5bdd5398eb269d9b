"""The hierarchy of levels that an accelerator's spec describes."""

from __future__ import annotations

from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.levels import (
    ROLES,
    Hierarchy,
    Level,
    Memory,
    Pipes,
    Role,
    SpatialLevel,
    TemporalLevel,
)
from simaccel.hardware.quantity import rate
from simaccel.hardware.spatial import Fan, SpatialArraySpec


def levels(accelerator: Accelerator) -> Hierarchy:
    """Return the levels dram, buffer, rows, cols, pe, vectors and lanes, outermost first.

    Without the buffer if all roles bypass it, and without vectors or lanes if there is one. A
    systolic array has rows and columns, and no memories in its PEs.
    """
    array = accelerator.array
    all_levels: list[Level] = [_dram(accelerator)]
    if isinstance(array, SpatialArraySpec):
        all_levels += _buffer(accelerator, frozenset(ROLES) - set(array.bypass_buffer))
        all_levels += [_fan(array, "rows"), _fan(array, "cols"), _pe(array)]
        all_levels += [
            _fan(array, name) for name in ("vectors", "lanes") if getattr(array, name) > 1
        ]
    else:
        all_levels += _buffer(accelerator, frozenset(ROLES))
        all_levels += [
            SpatialLevel(name="rows", fanout=array.rows),
            SpatialLevel(name="cols", fanout=array.cols),
        ]
    return Hierarchy(
        levels=tuple(all_levels),
        mac_pj=accelerator.prices.mac_pj,
        pipes=_pipes(accelerator),
    )


def _pipes(accelerator: Accelerator) -> Pipes | None:
    """Return the NoC's pipes, if they take time or energy."""
    found = Pipes(
        down=accelerator.distribution_rate,
        up=accelerator.collection_rate,
        multicast=accelerator.noc.distribution.multicasts,
        pj_per_byte=accelerator.prices.noc_pj_per_byte,
    )
    free = found.down.unlimited and found.up.unlimited and not found.pj_per_byte
    return None if free else found


def _pe(array: SpatialArraySpec) -> TemporalLevel:
    return TemporalLevel(
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


def _dram(accelerator: Accelerator) -> TemporalLevel:
    energy = accelerator.prices.dram_pj_per_byte
    memory = Memory(read_pj_per_byte=energy, write_pj_per_byte=energy)
    bandwidth = accelerator.dram.bandwidth_bytes_per_second
    both = rate(bandwidth, accelerator.clock_hz)
    return TemporalLevel(name="dram", memories=(memory,), both=both)


def _buffer(accelerator: Accelerator, roles: frozenset[Role]) -> list[TemporalLevel]:
    if not roles:
        return []
    energy = accelerator.prices.buffer_pj_per_byte
    memory = Memory(
        roles=roles,
        capacity_bytes=accelerator.buffer.capacity_bytes,
        read_pj_per_byte=energy,
        write_pj_per_byte=energy,
    )
    return [
        TemporalLevel(
            name="buffer",
            memories=(memory,),
            read=accelerator.read_rate,
            write=accelerator.write_rate,
        )
    ]


def _fan(array: SpatialArraySpec, name: Fan) -> SpatialLevel:
    return SpatialLevel(name=name, fanout=getattr(array, name), reduces=name in array.reduces)
