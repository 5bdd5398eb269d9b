"""Checks across the sections of an accelerator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from simaccel.hardware.array import ArraySpec
from simaccel.hardware.cores import CoresSpec
from simaccel.hardware.links import LinksSpec, shape_text
from simaccel.hardware.memory import BufferSpec, DramSpec, MemoriesSpec
from simaccel.hardware.quantity import format_quantity
from simaccel.hardware.spatial import SpatialArraySpec

_MOST_CYCLES_PER_BYTE = 2**20
_MOST_BYTES = 2**50


def smallest_buffer(array: ArraySpec | SpatialArraySpec) -> int:
    """Return the least capacity of a buffer in bytes: one 2-byte operand of a fold."""
    return 2 * array.pes


@dataclass(frozen=True)
class ImpossibleValue:
    """A value that is valid by itself but contradicts others, with what is allowed."""

    field: str
    value: object
    allowed: str


@dataclass(frozen=True, kw_only=True)
class Sections:
    """The sections that may contradict each other; None stands for one that is itself wrong."""

    clock_hz: int | None
    array: ArraySpec | None
    buffer: BufferSpec | None
    dram: DramSpec | None
    memories: MemoriesSpec | None = None
    cores: CoresSpec | None = None
    links: LinksSpec | None = None
    chips: tuple[int, ...] | None = None
    spatial: bool = False
    """Whether the array is a spatial one."""

    def impossible(self) -> list[ImpossibleValue]:
        """Return every value that contradicts other sections."""
        found = [*self._fold(), *self._slow_ports(), *self._fifos(), *self._shared_buffer()]
        found += self._shape()
        for field, memory in self._backing():
            found += [*self._stripe(field, memory), *self._slow(field, memory)]
        return found

    def _backing(self) -> Iterator[tuple[str, DramSpec]]:
        """Yield all memories of an accelerator, each with the name of its section."""
        if self.dram is not None:
            yield "dram", self.dram
        if self.memories is not None:
            for name, memory in self.memories.by_class().items():
                yield f"memories.{name}", memory

    def _shared_buffer(self) -> Iterator[ImpossibleValue]:
        shared = None if self.cores is None else self.cores.shared_buffer
        if shared is None:
            return
        field = "cores.shared_buffer"
        given = shared.bandwidth_bytes_per_second
        yield from self._slow_rate(f"{field}.bandwidth_bytes_per_second", given, 1)
        if self.chips is not None and math.prod(self.chips) > 1:
            yield ImpossibleValue("chips", shape_text(self.chips), f"1, with a {field}")

    def _shape(self) -> Iterator[ImpossibleValue]:
        if self.links is None or self.chips is None:
            return
        if allowed := self.links.wrong_shape(self.chips):
            yield ImpossibleValue("chips", shape_text(self.chips), allowed)

    def _fifos(self) -> Iterator[ImpossibleValue]:
        memories = self.memories.by_class() if self.memories is not None else {}
        for name, memory in memories.items():
            if memory.fifo and self.spatial:
                allowed = "false, as PEs with memories of their own take tiles over the NoC"
                yield ImpossibleValue(f"memories.{name}.fifo", memory.fifo, allowed)

    def _fold(self) -> Iterator[ImpossibleValue]:
        if self.array is None or self.buffer is None or self.buffer.capacity_bytes is None:
            return
        one_fold = smallest_buffer(self.array)
        if self.buffer.capacity_bytes < one_fold:
            yield ImpossibleValue(
                "buffer.capacity_bytes",
                self.buffer.capacity_bytes,
                f"at least {format_quantity(one_fold, 'B')}, one 2-byte operand of a "
                f"{self.array.rows} x {self.array.cols} fold",
            )

    def _stripe(self, section: str, memory: DramSpec) -> Iterator[ImpossibleValue]:
        if self.buffer is None or any(self._fold()):  # then the buffer is what is wrong
            return
        room = self.buffer.capacity_bytes or _MOST_BYTES
        if memory.channels > room:
            yield ImpossibleValue(
                f"{section}.channels", memory.channels, f"at most {room}, a byte each"
            )
        elif memory.interleave_bytes * memory.channels > room:
            yield ImpossibleValue(
                f"{section}.interleave_bytes",
                memory.interleave_bytes,
                f"at most {format_quantity(room // memory.channels, 'B')}, so that one piece of "
                f"each of {memory.channels} channels fits the buffer",
            )

    def _slow_ports(self) -> Iterator[ImpossibleValue]:
        if self.buffer is not None:
            for way in ("read", "write"):
                field = f"{way}_bytes_per_second"
                yield from self._slow_rate(f"buffer.{field}", getattr(self.buffer, field), 1)
        if self.links is not None:
            given = self.links.bytes_per_second
            yield from self._slow_rate("links.bytes_per_second", given, 1)

    def _slow(self, section: str, memory: DramSpec) -> Iterator[ImpossibleValue]:
        field = "bandwidth_bytes_per_second"
        yield from self._slow_rate(f"{section}.{field}", getattr(memory, field), memory.channels)

    def _slow_rate(
        self, field: str, per_second: int | None, parts: int
    ) -> Iterator[ImpossibleValue]:
        if self.clock_hz is None or per_second is None:
            return
        least = -(-self.clock_hz * parts // _MOST_CYCLES_PER_BYTE)
        if per_second < least:
            yield ImpossibleValue(
                field,
                per_second,
                f"at least {format_quantity(least, 'B/s')}, one byte in 2^20 cycles of "
                f"{format_quantity(self.clock_hz, 'Hz')} on each of {parts} channel(s); "
                "a number without a unit is one of B/s",
            )
