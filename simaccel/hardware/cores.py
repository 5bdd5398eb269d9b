"""Cores of a chip: their number, the names of their parts, and the NoC to the memories.

Memories are at router 0, that of core 0. Each hop is a link, including the last one from a router
into its core. Links are one-way, except for a bus, which is one link for all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import (
    Field,
)

from simaccel.hardware.memory import MemorySpec
from simaccel.hardware.quantity import Bytes, BytesPerSecond, Count, Cycles, Picojoules, Rate
from simaccel.hardware.spec import Spec
from simaccel.numbers import SHARED

CoreTopology = Literal["bus", "crossbar", "ring", "mesh"]
CORE_NOC: Final = "core_noc"
"""Prefix of its links' names, and the cause that waits for them are booked to."""
HOPS: Final = "hops"
"""The level that counts bytes times links crossed."""
HOP_WAYS: Final = (f"{HOPS}_read", f"{HOPS}_write")
HOPS_READ, HOPS_WRITE = HOP_WAYS
_FIGURES = ("shape", "link_bytes_per_cycle", "hop_cycles", "pj_per_bit_hop")


class CoreNocSpec(Spec):
    """The NoC from memories to cores. Without a ``topology`` it takes no time.

    ``multicast``: a load that several cores need alike is read once for all, as soon as each has a
    free slot. A link carries ``link_bytes_per_cycle``, with a latency of ``hop_cycles``.

    - ``bus``: one link that all cores share, both ways.
    - ``crossbar``: two links per core, one each way.
    - ``ring``, ``mesh``: a router per core, two links between neighbours. Routes take the shorter
      way round (of equal ones upwards), or go along the row and then the column. ``shape``: rows
      and columns of a mesh; by default the squarest, with no more rows than columns.
    """

    OMITTED: ClassVar = ("hop_cycles",)

    multicast: bool = False
    topology: CoreTopology | None = None
    shape: tuple[Count, Count] | None = None
    link_bytes_per_cycle: Count | None = None
    hop_cycles: Cycles = 0
    pj_per_bit_hop: Picojoules | None = None

    def _impossible(self) -> Iterator[tuple[str, str]]:
        if self.topology is None and any(getattr(self, name) for name in _FIGURES):
            yield "topology", ", ".join(get_args(CoreTopology))
        if self.topology is not None and self.link_bytes_per_cycle is None:
            yield "link_bytes_per_cycle", "the bytes that a link carries in a cycle"
        if self.topology not in (None, "mesh") and self.shape is not None:
            yield "shape", "nothing: only a mesh has a shape"

    @property
    def rate(self) -> Rate:
        """Bytes per cycle of a link."""
        return Rate(self.link_bytes_per_cycle or 1, 1)

    def links(self, core: int, count: int, *, write: bool) -> tuple[str, ...]:
        """Return the links from memories to one of ``count`` cores, or (``write``) from it to them.

        >>> mesh = CoreNocSpec(topology="mesh", link_bytes_per_cycle=8)
        >>> mesh.links(3, 4, write=False)
        ('core_noc_0_1', 'core_noc_1_3', 'core_noc_to3')
        >>> mesh.links(3, 4, write=True)
        ('core_noc_from3', 'core_noc_3_2', 'core_noc_2_0')
        """
        if self.topology is None:
            return ()
        if self.topology == "bus":
            return (f"{CORE_NOC}_bus",)
        own = f"{CORE_NOC}_{'from' if write else 'to'}{core}"
        if self.topology == "crossbar":
            return (own,)
        route = [*self._route(core, 0, count)] if write else [*self._route(0, core, count)]
        between = [f"{CORE_NOC}_{start}_{end}" for start, end in pairwise(route)]
        return (own, *between) if write else (*between, own)

    def _route(self, start: int, end: int, count: int) -> Iterator[int]:
        """Yield the routers on the route from one to another, both included."""
        yield start
        if self.topology == "ring":
            upwards = (end - start) % count
            step, hops = min((1, upwards), (-1, count - upwards), key=lambda way: way[1])
            yield from ((start + step * at) % count for at in range(1, hops + 1))
            return
        columns = (self.shape or squarest(count))[1]
        (row, column), (last_row, last_column) = divmod(start, columns), divmod(end, columns)
        yield from (row * columns + at for at in _steps(column, last_column))
        yield from (at * columns + last_column for at in _steps(row, last_row))


def squarest(count: int) -> tuple[int, int]:
    """Return the rows and columns of the squarest mesh with ``count`` routers.

    >>> squarest(12), squarest(7)
    ((3, 4), (1, 7))
    """
    rows = next(n for n in range(int(count**0.5), 0, -1) if count % n == 0)
    return rows, count // rows


def _steps(start: int, end: int) -> range:
    """Return the routers on the way from ``start`` (not included) to ``end``."""
    step = 1 if end >= start else -1
    return range(start + step, end + step, step)


_MOST_CORES: Final = 256
CHIP: Final = 1024
"""Offset between the core numbers of chips that run side by side: chip n begins at n x CHIP."""
REMOTE: Final = CHIP - 1
"""The core number, within a chip, of the engines that send to and receive from other chips; they
move data from memory to memory, beside the cores."""
PIPELINE: Final = CHIP - 2
"""Likewise, of those that send to the next stage of a pipeline and receive from the one before."""
_BESIDE: Final = {REMOTE: "remote", PIPELINE: "pipeline"}


_NAME: Final = re.compile(
    rf"(?:chip(\d+)\.)?(?:core(\d+)\.|({'|'.join(_BESIDE.values())})\.)?(.*)", re.DOTALL
)


class SharedBufferSpec(Spec):
    """A buffer between the DRAM and the buffers of all cores, which take turns at it.

    Intermediates lie there instead of in DRAM as far as they fit (`simaccel.workload.shared`).
    ``pj_per_byte``: by default that of a core's buffer.
    """

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
        return () if core >= PIPELINE else self._links[int(write)][core]

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
    place = _BESIDE.get(number, f"core{number}")
    return on_chip(core, f"{place}.{name}" if number else name)


def core_of_name(name: str) -> int:
    """Return the core number in the name of an engine, channel or tile.

    >>> core_of_name("core3.array"), core_of_name("array"), core_of_name("chip2.remote.link")
    (3, 0, 3071)
    """
    chip, core, beside, _ = _split_name(name)
    number = next((at for at, place in _BESIDE.items() if place == beside), int(core or 0))
    return int(chip or 0) * CHIP + number


def without_core(name: str) -> str:
    """Return the name of an engine, channel or tile without chip and core.

    >>> without_core("core3.array"), without_core("array"), without_core("chip2.core1.array")
    ('array', 'array', 'array')
    """
    return _split_name(name)[3]


def _split_name(name: str) -> tuple[str | None, str | None, str | None, str]:
    """Return the numbers of chip and core, the place beside cores, and the rest of a name."""
    split = _NAME.fullmatch(name)
    assert split is not None  # noqa: S101 - everything matches
    return split[1], split[2], split[3], split[4]
