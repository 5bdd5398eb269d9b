"""What a mapping makes the resources do, and how long the whole then takes.

Everything is an array with one entry per candidate mapping (or a plain number, which numpy
broadcasts), in integer cycles and bytes. Costs of single pieces come from the hardware
specs; how they compose is written here from the mapping alone, without the program and
without the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from simaccel.hardware import Accelerator

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating[Any]]
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
    "read_port",
    "write_port",
    "chain",
    "pace",
    "noc",
)


@dataclass
class Work:
    """Totals of one operator (or fused group) by resource, and what surrounds them.

    ``chain`` is the time that array and SFU need when nothing holds them up, ``pace`` the time
    that they take beside the transfers of double buffering (``simaccel.analytic.pace``).
    ``fill`` passes before the first command can start, ``drain`` after the last has ended.
    """

    macs: Ints
    elements: Ints
    moved: dict[Level, Ints]
    tiles: dict[str, tuple[Ints, Ints]]
    """Buffer space by tile: bytes of a slot, slots."""
    array: Ints
    sfu: Ints
    dram: Ints
    read_port: Ints
    write_port: Ints
    chain: Ints
    pace: Ints
    fill: Ints
    drain: Ints
    noc: Ints = field(default_factory=lambda: ints(0))
    """The busier pipe of a spatial array; that of a systolic one is part of its folds."""

    @property
    def buffer_bytes(self) -> Ints:
        """Buffer requirement in bytes."""
        return np.asarray(sum(n_bytes * slots for n_bytes, slots in self.tiles.values()))

    def bound(self) -> Ints:
        """Resource bound: the total work of the busiest resource. No run is shorter."""
        return most(self.array, self.sfu, self.dram, self.read_port, self.write_port, self.noc)

    def cycles(self) -> Ints:
        """Estimated cycles from the first load to the last store.

        The first operands come, then array and SFU keep their pace, then the last output goes.
        """
        return most(self.fill + self.pace + self.drain, self.bound())

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
            **joined,
        )


def energy_pj(work: Work, accelerator: Accelerator) -> dict[str, npt.NDArray[np.float64]]:
    """Energy by level in pJ."""
    energies = accelerator.energy_by_level(work.macs, work.elements, work.moved)
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
        """Turns that a request takes on channel 0."""
        return ceil_div(self.dram(n_bytes), ints(self.accelerator.dram.turn_cycles))

    def write(self, n_bytes: Ints) -> Ints:
        """Cycles of a load on the buffer's write port."""
        return self.accelerator.write_rate.cycles(n_bytes)

    def read(self, n_bytes: Ints) -> Ints:
        """Cycles of a store on the buffer's read port."""
        return self.accelerator.read_rate.cycles(n_bytes)


def contention(chain: Ints, ports: Sequence[tuple[Ints, Ints]]) -> Floats:
    """Factor by which array and SFU slow down where others use a port that they need.

    ``ports``: for each port the cycles of its own users' and of the others' requests. Let a
    fold need a port for a share s of its time. Beside another requester it gets every second
    cycle, so for s > 1/2 the fold takes 2 s instead of 1, and s of it are left to the other:
    each cycle that the other is served costs (2 s - 1) / s.
    """
    delay = np.zeros(())
    for own, others in ports:
        share = np.clip(own / np.maximum(1, chain), 0.25, 1.0)
        delay = np.maximum(delay, others * np.maximum(0.0, 2 - 1 / share))
    return np.asarray(1 + delay / np.maximum(1, chain), dtype=np.float64)
