"""Checks across the sections of an accelerator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from simaccel.hardware.array import ArraySpec
from simaccel.hardware.links import shape_text
from simaccel.hardware.memory import DramSpec
from simaccel.hardware.quantity import format_quantity
from simaccel.hardware.spatial import SpatialArraySpec

_KIBIBYTE = 2**10
_MOST_CYCLES_PER_BYTE = 2**20
_MOST_BYTES = 2**50

Contradictions = Iterator[tuple[str, object, str]]
"""Field, value and what is allowed of values that are valid by themselves but contradict others."""


def smallest_buffer(array: ArraySpec | SpatialArraySpec) -> int:
    """Return the least capacity of a buffer in bytes: one 2-byte operand of a fold."""
    return 2 * array.pes


def contradictions(sections: Mapping[str, Any]) -> Contradictions:
    """Yield every value that contradicts other sections; a section that is itself wrong is missing.

    ``sections``: values of the fields of an accelerator.
    """
    clock_hz, array, buffer = (sections.get(name) for name in ("clock_hz", "array", "buffer"))
    room = None if buffer is None else buffer.capacity_bytes or _MOST_BYTES
    small = False
    if isinstance(array, ArraySpec) and room is not None and room < smallest_buffer(array):
        small = True
        allowed = f"at least {format_quantity(smallest_buffer(array), 'B')}, one 2-byte operand of "
        allowed += f"a {array.rows} x {array.cols} fold"
        allowed += "; a number without a unit is one of B" * (room < _KIBIBYTE)
        yield "buffer.capacity_bytes", room, allowed
    for section, way in (("buffer", "read_"), ("buffer", "write_"), ("links", "")):
        field = f"{way}bytes_per_second"
        rate = getattr(sections.get(section), field, None)
        yield from _slow(clock_hz, f"{section}.{field}", rate)
    memories = sections["memories"].by_class() if "memories" in sections else {}
    for name, memory in memories.items():
        if memory.fifo and isinstance(array, SpatialArraySpec):
            allowed = "false, as PEs with memories of their own take tiles over the NoC"
            yield f"memories.{name}.fifo", memory.fifo, allowed
    yield from _wrong_chips(sections)
    backing = {"dram": sections["dram"]} if "dram" in sections else {}
    backing |= {f"memories.{name}": memory for name, memory in memories.items()}
    for name, memory in backing.items():
        if room is not None and not small:  # else the buffer is what is wrong
            yield from _wide_stripe(name, memory, room)
        rate = memory.bandwidth_bytes_per_second
        yield from _slow(clock_hz, f"{name}.bandwidth_bytes_per_second", rate, memory.channels)


def _wrong_chips(sections: Mapping[str, Any]) -> Contradictions:
    """Yield what is wrong with a buffer that cores share, and with the shape of the chips."""
    links, chips = sections.get("links"), sections.get("chips")
    shared, field = getattr(sections.get("cores"), "shared_buffer", None), "cores.shared_buffer"
    if shared is not None:
        name, rate = f"{field}.bandwidth_bytes_per_second", shared.bandwidth_bytes_per_second
        yield from _slow(sections.get("clock_hz"), name, rate)
        if chips is not None and math.prod(chips) > 1:
            yield "chips", shape_text(chips), f"1, with a {field}"
    if links is not None and chips is not None and (allowed := links.wrong_shape(chips)):
        yield "chips", shape_text(chips), allowed


def _wide_stripe(section: str, memory: DramSpec, room: int) -> Contradictions:
    """Yield channels, or their pieces, of which one each has no room in a buffer."""
    if memory.channels > room:
        yield f"{section}.channels", memory.channels, f"at most {room}, a byte each"
    elif memory.interleave_bytes * memory.channels > room:
        allowed = f"at most {format_quantity(room // memory.channels, 'B')}, so that one piece of "
        allowed += f"each of {memory.channels} channels fits the buffer"
        yield f"{section}.interleave_bytes", memory.interleave_bytes, allowed


def _slow(
    clock_hz: int | None, field: str, per_second: int | None, parts: int = 1
) -> Contradictions:
    """Yield a bandwidth that moves less than a byte in 2^20 cycles on each of its channels."""
    if clock_hz is None or per_second is None:
        return
    least = -(-clock_hz * parts // _MOST_CYCLES_PER_BYTE)
    if per_second < least:
        allowed = f"at least {format_quantity(least, 'B/s')}, one byte in 2^20 cycles of "
        allowed += f"{format_quantity(clock_hz, 'Hz')} on each of {parts} channel(s); "
        yield field, per_second, f"{allowed}a number without a unit is one of B/s"
