"""Cores of a chip: their number, and the names of their engines, channels and tiles."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, ClassVar, Final

from pydantic import (
    Field,
)

from simaccel.hardware.core_noc import CoreNocSpec
from simaccel.hardware.memory import MemorySpec
from simaccel.hardware.quantity import Bytes, BytesPerSecond, Count, Cycles, Picojoules
from simaccel.hardware.spec import Spec
from simaccel.numbers import SHARED

_MOST_CORES: Final = 256
CHIP: Final = 1024
"""Offset between the core numbers of chips that run side by side: chip n begins at n x CHIP."""
REMOTE: Final = CHIP - 1
"""The core number, within a chip, of the engines that send to and receive from other chips; they
move data from memory to memory, beside the cores."""


_NAME: Final = re.compile(r"(?:chip(\d+)\.)?(?:core(\d+)\.|(remote)\.)?(.*)", re.DOTALL)


class SharedBufferSpec(Spec):
    """A buffer between the DRAM and the buffers of all cores, which take turns at it.

    Intermediates lie there instead of in DRAM as far as they fit (`simaccel.workload.shared`).
    ``pj_per_byte``: by default that of a core's buffer.
    """

    OMITTED: ClassVar = ("pj_per_byte",)

    capacity_bytes: Bytes
    bandwidth_bytes_per_second: BytesPerSecond
    latency_cycles: Cycles = 0
    pj_per_byte: Picojoules | None = None

    @cached_property
    def memory(self) -> MemorySpec:
        """The buffer as a memory beside the DRAM, with one channel."""
        return MemorySpec(
            bandwidth_bytes_per_second=self.bandwidth_bytes_per_second,
            latency_cycles=self.latency_cycles,
            capacity_bytes=self.capacity_bytes,
        )


class CoresSpec(Spec):
    """Equal cores behind the same DRAM channels, and their shared buffer, if any.

    Each core has its own arrays, SFU, DMA queues, buffer with ports, and NoC; DRAM, memories beside
    it, and links are shared.
    """

    OMITTED: ClassVar = ("shared_buffer",)

    count: Annotated[Count, Field(le=_MOST_CORES)] = 1
    noc: CoreNocSpec = Field(default_factory=CoreNocSpec)
    shared_buffer: SharedBufferSpec | None = None

    def _impossible(self) -> Iterator[tuple[str, str]]:
        if self.noc.shape is not None and math.prod(self.noc.shape) != self.count:
            yield "noc.shape", f"sizes whose product is cores.count, {self.count}"

    def links(self, core: int, *, write: bool) -> tuple[str, ...]:
        """Return the links of the NoC from memories to a core, or (``write``) from it to them.

        Engines that send to other chips are at the memories and cross none.
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
        """Return the latency in cycles from the memories to a core, or (``write``) back."""
        return len(self.links(core, write=write)) * self.noc.hop_cycles

    @property
    def alone(self) -> CoresSpec:
        """Core 0 without the others, with its links."""
        noc = self.noc.model_copy(update={"shape": None, "multicast": False})
        return CoresSpec(noc=noc, shared_buffer=self.shared_buffer)

    @property
    def memories(self) -> dict[str, MemorySpec]:
        """The shared buffer, if any, by the class of its tensors."""
        return {} if self.shared_buffer is None else {SHARED: self.shared_buffer.memory}


def on_chip(core: int, name: str) -> str:
    """Return the name of a shared unit on a core's chip; on chip 0 that of an only chip.

    >>> on_chip(1, "dram"), on_chip(2 * CHIP + 1, "dram")
    ('dram', 'chip2.dram')
    """
    return f"chip{core // CHIP}.{name}" if core >= CHIP else name


def on_core(core: int, name: str) -> str:
    """Return the name of an engine, channel or tile of a core; on core 0 that of an only core.

    >>> on_core(0, "array"), on_core(3, "array"), on_core(2 * CHIP, "array")
    ('array', 'core3.array', 'chip2.array')
    >>> on_core(2 * CHIP + 3, "array"), on_core(REMOTE, "link")
    ('chip2.core3.array', 'remote.link')
    """
    number = core % CHIP
    within = f"core{number}.{name}" if number else name
    return on_chip(core, f"remote.{name}" if number == REMOTE else within)


def core_of_name(name: str) -> int:
    """Return the core number in the name of an engine, channel or tile.

    >>> core_of_name("core3.array"), core_of_name("array"), core_of_name("chip2.remote.link")
    (3, 0, 3071)
    """
    chip, core, remote, _ = _split_name(name)
    return int(chip or 0) * CHIP + (REMOTE if remote else int(core or 0))


def without_core(name: str) -> str:
    """Return the name of an engine, channel or tile without chip and core.

    >>> without_core("core3.array"), without_core("array"), without_core("chip2.core1.array")
    ('array', 'array', 'array')
    """
    return _split_name(name)[3]


def _split_name(name: str) -> tuple[str | None, str | None, str | None, str]:
    """Return the chip's number, the core's number, ``remote`` or None, and the rest of a name."""
    split = _NAME.fullmatch(name)
    assert split is not None  # noqa: S101 - everything matches
    return split[1], split[2], split[3], split[4]
