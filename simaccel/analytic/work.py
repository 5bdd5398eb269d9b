"""What a mapping makes the resources do, and how long the whole then takes.

Everything is an array with one entry per candidate mapping (or a plain number, which numpy
broadcasts), in integer cycles and bytes. Costs of single pieces come from the hardware
specs; how they compose is written here from the mapping alone, without the program and
without the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from simaccel.hardware import Accelerator

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Cost = Callable[[Ints], Ints]
"""Cycles of a request of so many bytes (or of a piece of work of so many elements)."""
Level = tuple[str, str]
"""(level and direction, tensor), e.g. ("dram_read", "K")."""


def ints(value: object) -> Ints:
    """Give a number (or an array of them) as 64-bit integers."""
    return np.asarray(value, dtype=np.int64)


def most(first: Ints, *others: Ints) -> Ints:
    """Give the largest, entry by entry."""
    for other in others:
        first = np.maximum(first, other)
    return ints(first)


def ceil_div(a: Ints, b: Ints) -> Ints:
    """Divide and round up."""
    return -(-a // b)


def split(extent: Ints, tile: Ints) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Give (count, size) of the full tiles of a rank and of the smaller last one.

    >>> split(np.array([10, 8]), np.array([4, 4]))
    ((array([2, 2]), array([4, 4])), (array([1, 0]), array([2, 0])))
    """
    rest = extent % tile
    return (extent // tile, tile + 0 * extent), ((rest > 0).astype(np.int64), rest)


def over_blocks(
    cost: Callable[[Ints, Ints], Ints],
    rows: tuple[Ints, Ints],
    cols: tuple[Ints, Ints],
) -> Ints:
    """Sum ``cost(height, width)`` over the tiles of a 2-D tensor; each pair is extent, tile."""
    total = ints(0)
    for n_rows, height in split(*rows):
        for n_cols, width in split(*cols):
            total = total + n_rows * n_cols * cost(height, width)
    return np.asarray(total)


_ADDITIVE = (
    "macs",
    "elements",
    "array",
    "sfu",
    "dram",
    "turnarounds",
    "read_port",
    "write_port",
    "chain",
)


@dataclass
class Work:
    """Totals of one operator (or fused group) by resource, and what surrounds them.

    ``chain`` is the time that array and SFU need when nothing holds them up; ``rings`` bound
    the time by the slots of each tile (load, latency, use, divided by slots). ``fill`` passes
    before the first command can start, ``drain`` after the last has ended; ``last`` is what
    array and SFU still do when the last load has come.
    """

    macs: Ints
    elements: Ints
    moved: dict[Level, Ints]
    tiles: dict[str, tuple[Ints, Ints]]
    """Buffer space by tile: bytes of a slot, slots."""
    array: Ints
    sfu: Ints
    dram: Ints
    turnarounds: Ints
    read_port: Ints
    write_port: Ints
    chain: Ints
    fill: Ints
    drain: Ints
    last: Ints
    rings: list[Ints] = field(default_factory=list)

    @property
    def buffer_bytes(self) -> Ints:
        """Buffer requirement in bytes."""
        return np.asarray(sum(n_bytes * slots for n_bytes, slots in self.tiles.values()))

    def bound(self) -> Ints:
        """Resource bound: the total work of the busiest resource. No run is shorter."""
        return most(self.array, self.sfu, self.dram, self.read_port, self.write_port)

    def cycles(self) -> Ints:
        """Estimated cycles from the first load to the last store.

        Either array and SFU set the pace (after the fill, and until the drain), or the DRAM
        does (after the first latency, then the last commands), or the slots of one tile.
        """
        pace = most(self.chain, *self.rings)
        memory = most(self.dram + self.turnarounds, self.read_port, self.write_port)
        return most(self.fill + pace + self.drain, memory + self.last)

    def plus(self, after: Work) -> Work:
        """Join with the part of the same operator that follows without a break."""
        moved = dict(self.moved)
        for level, n_bytes in after.moved.items():
            moved[level] = moved.get(level, ints(0)) + n_bytes
        tiles = dict(self.tiles)
        for name, (n_bytes, slots) in after.tiles.items():
            known = tiles.get(name, (ints(0), ints(0)))
            tiles[name] = (np.maximum(known[0], n_bytes), np.maximum(known[1], slots))
        joined = {name: getattr(self, name) + getattr(after, name) for name in _ADDITIVE}
        return Work(
            moved=moved,
            tiles=tiles,
            fill=self.fill,
            drain=after.drain,
            last=after.last,
            rings=[a + b for a, b in zip(self.rings, after.rings, strict=True)],
            **joined,
        )


def energy_pj(work: Work, accelerator: Accelerator) -> dict[str, npt.NDArray[np.float64]]:
    """Energy by level in pJ: actions times energy per action."""
    energy = accelerator.energy

    def level(*names: str) -> Ints:
        found = [n for (name, _), n in work.moved.items() if name in names]
        return ints(sum(found))

    energies = {
        "mac": work.macs * energy.mac_pj,
        "sfu": work.elements * energy.sfu_pj_per_element,
        "buffer": level("buffer_read", "buffer_write") * energy.buffer_pj_per_byte,
        "noc": level("noc_distribution", "noc_collection") * energy.noc_pj_per_byte,
        "dram": level("dram_read", "dram_write") * energy.dram_pj_per_byte,
    }
    return {name: np.asarray(value, dtype=np.float64) for name, value in energies.items()}


class Traffic:
    """Service of DMA requests on the busiest DRAM channel (channel 0) and on the ports."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.latency = accelerator.dram.latency_cycles

    def dram(self, n_bytes: Ints) -> Ints:
        """Cycles of one request on channel 0, which no other channel exceeds."""
        spec = self.accelerator.dram
        return self.accelerator.channel_rate.cycles(spec.channel_bytes(n_bytes, 0))

    def turns(self, n_bytes: Ints) -> Ints:
        """Cycles lost when a store is served between loads: into and out of each turn."""
        spec = self.accelerator.dram
        turns = ceil_div(self.dram(n_bytes), ints(spec.turn_cycles))
        return 2 * spec.turnaround_cycles * turns

    def write(self, n_bytes: Ints) -> Ints:
        """Cycles of a load on the buffer's write port."""
        return self.accelerator.write_rate.cycles(n_bytes)

    def read(self, n_bytes: Ints) -> Ints:
        """Cycles of a store on the buffer's read port."""
        return self.accelerator.read_rate.cycles(n_bytes)
