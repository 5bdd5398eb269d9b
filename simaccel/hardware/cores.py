"""Cores of a chip: how many there are, and how engines of each are named."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Final

from pydantic import (
    Field,
)

from simaccel.hardware.core_noc import CoreNocSpec
from simaccel.hardware.memory import MemorySpec
from simaccel.hardware.quantity import Bytes, BytesPerSecond, Count, Cycles, Picojoules
from simaccel.hardware.spec import Spec, unset_fields
from simaccel.numbers import SHARED

_MOST_CORES: Final = 256
CHIP: Final = 1024
"""Where chips run side by side, the numbers of a chip's cores begin at its own times this."""
REMOTE: Final = CHIP - 1
"""The number among a chip's cores of what sends to other chips and receives from them, memory to
memory, beside the cores."""


_NAME: Final = re.compile(r"(?:chip(\d+)\.)?(?:core(\d+)\.|(remote)\.)?(.*)", re.DOTALL)


class SharedBufferSpec(Spec):
    """A buffer between the DRAM and the buffers of all cores, which take turns at it.

    What operators hand to one another lies there instead of in DRAM, as far as it fits
    (`simaccel.workload.shared`). ``pj_per_byte``: as in a core's buffer if it isn't said.
    """

    capacity_bytes: Bytes
    bandwidth_bytes_per_second: BytesPerSecond
    latency_cycles: Cycles = 0
    pj_per_byte: Picojoules | None = None

    @cached_property
    def memory(self) -> MemorySpec:
        """The buffer as a memory beside the DRAM, of one channel."""
        return MemorySpec(
            bandwidth_bytes_per_second=self.bandwidth_bytes_per_second,
            latency_cycles=self.latency_cycles,
            capacity_bytes=self.capacity_bytes,
        )

    @property
    def absent(self) -> set[str]:
        """Fields that are not set."""
        return unset_fields(self, "pj_per_byte")


class CoresSpec(Spec):
    """Cores of one kind behind the same DRAM channels, and a buffer that they share, if any.

    Each has all that the accelerator has but DRAM, memories beside it, and links: arrays, SFU, DMA
    queues, buffer with its ports, NoC.
    """

    count: Annotated[Count, Field(le=_MOST_CORES)] = 1
    noc: CoreNocSpec = Field(default_factory=CoreNocSpec)
    shared_buffer: SharedBufferSpec | None = None

    @property
    def absent(self) -> set[str]:
        """Fields that are not set."""
        return unset_fields(self, "shared_buffer")

    def _impossible(self) -> Iterator[tuple[str, str]]:
        if self.noc.shape is not None and math.prod(self.noc.shape) != self.count:
            yield "noc.shape", f"sizes whose product is cores.count, {self.count}"

    def links(self, core: int, *, write: bool) -> tuple[str, ...]:
        """Return the links of the NoC from memories to a core, or (``write``) from it to them.

        What sends to other chips is at the memories.
        """
        core %= CHIP
        return () if core == REMOTE else self._links[int(write)][core]

    @cached_property
    def _links(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        return tuple(
            tuple(self.noc.links(core, self.count, write=write) for core in range(self.count))
            for write in (False, True)
        )

    @property
    def every_link(self) -> tuple[str, ...]:
        """All links by name, those of core 0 first."""
        ways = (way for both in zip(*self._links, strict=True) for way in both)
        return tuple(dict.fromkeys(link for way in ways for link in way))

    def latency_cycles(self, core: int, *, write: bool = False) -> int:
        """Cycles until the first byte from a memory is at a core, or one of it in the memory."""
        return len(self.links(core, write=write)) * self.noc.hop_cycles

    @property
    def alone(self) -> CoresSpec:
        """Core 0 without the others, with its links."""
        noc = self.noc.model_copy(update={"shape": None, "multicast": False})
        return CoresSpec(noc=noc, shared_buffer=self.shared_buffer)

    @property
    def shared_pj_per_byte(self) -> float | None:
        """Energy of a byte from or to the shared buffer, if it is given."""
        return None if self.shared_buffer is None else self.shared_buffer.pj_per_byte

    @property
    def memories(self) -> dict[str, MemorySpec]:
        """The shared buffer, if any, by the class of its tensors."""
        return {} if self.shared_buffer is None else {SHARED: self.shared_buffer.memory}


def on_chip(core: int, name: str) -> str:
    """Return the name of what the cores of a core's chip share; chip 0 has those of an only one.

    >>> on_chip(1, "dram"), on_chip(2 * CHIP + 1, "dram")
    ('dram', 'chip2.dram')
    """
    return f"chip{core // CHIP}.{name}" if core >= CHIP else name


def on_core(core: int, name: str) -> str:
    """Return the name of an engine, channel or tile of a core; core 0 has those of an only one.

    >>> on_core(0, "array"), on_core(3, "array"), on_core(2 * CHIP, "array")
    ('array', 'core3.array', 'chip2.array')
    >>> on_core(2 * CHIP + 3, "array"), on_core(REMOTE, "link")
    ('chip2.core3.array', 'remote.link')
    """
    number = core % CHIP
    within = f"core{number}.{name}" if number else name
    return on_chip(core, f"remote.{name}" if number == REMOTE else within)


def core_of_name(name: str) -> int:
    """Return the core of an engine, channel or tile.

    >>> core_of_name("core3.array"), core_of_name("array"), core_of_name("chip2.remote.link")
    (3, 0, 3071)
    """
    chip, core, remote, _ = _split_name(name)
    return int(chip or 0) * CHIP + (REMOTE if remote else int(core or 0))


def without_core(name: str) -> str:
    """Return the name that a thing has on core 0 of chip 0.

    >>> without_core("core3.array"), without_core("array"), without_core("chip2.core1.array")
    ('array', 'array', 'array')
    """
    return _split_name(name)[3]


def _split_name(name: str) -> tuple[str | None, str | None, str | None, str]:
    """Return the numbers of chip and core, whether it is what sends, and the name without them."""
    split = _NAME.fullmatch(name)
    assert split is not None  # noqa: S101 - everything matches
    return split[1], split[2], split[3], split[4]
