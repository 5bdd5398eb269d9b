"""How the iterations of a tile loop follow one another: double buffering, step by step.

While array and SFU work on the tiles of iteration i, the DRAM loads those of iteration i + 1
into the other slot and stores those of i - 1. So a step lasts as long as the longer of the
work and the transfers that belong to it, and with remainders the neighbours differ: a short
last tile has to cover the loads of the full tile that follows. Loops nest: the work of a step
is itself a loop, and its transfers share the DRAM with those of the levels inside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from simaccel.analytic.work import Bools, Ints

Cycles = npt.NDArray[np.floating[Any]]


def _none() -> Cycles:
    return np.zeros(())


@dataclass(frozen=True)
class Flow:
    """DRAM traffic: service in cycles and turns on the channel, by direction."""

    load: Cycles = field(default_factory=_none)
    store: Cycles = field(default_factory=_none)
    load_turns: Cycles = field(default_factory=_none)
    store_turns: Cycles = field(default_factory=_none)

    def plus(self, other: Flow) -> Flow:
        """Add up."""
        return Flow(
            self.load + other.load,
            self.store + other.store,
            self.load_turns + other.load_turns,
            self.store_turns + other.store_turns,
        )

    def times(self, factor: Ints | Cycles | Bools) -> Flow:
        """Repeat, or keep only where a condition holds."""
        return Flow(
            factor * self.load,
            factor * self.store,
            factor * self.load_turns,
            factor * self.store_turns,
        )

    def loads(self) -> Flow:
        """Keep the loads only."""
        return Flow(load=self.load, load_turns=self.load_turns)

    def stores(self) -> Flow:
        """Keep the stores only."""
        return Flow(store=self.store, store_turns=self.store_turns)

    def cycles(self, turnaround: int) -> Cycles:
        """Service, and two changes of direction for each pair of turns that meet."""
        changes = 2 * turnaround * np.minimum(self.load_turns, self.store_turns)
        return np.asarray(self.load + self.store + changes, dtype=np.float64)


@dataclass(frozen=True)
class Step:
    """One iteration: its work, the traffic inside it, what it loads and stores itself."""

    work: Cycles
    inside: Flow
    own: Flow

    @property
    def dram(self) -> Flow:
        """All traffic of the iteration."""
        return self.inside.plus(self.own)


@dataclass(frozen=True)
class Slots:
    """How a loop's tiles are buffered: DRAM latency, and which tiles have a single slot.

    ``chained``: a tile is loaded into the slot that a store has to free first.
    """

    latency: int
    turnaround: int
    single_in: Bools
    single_out: Bools
    chained: Bools

    def step(self, at: Step, after: Flow, before: Flow) -> Cycles:
        """Cycles of an iteration beside the loads ``after`` it and the stores ``before`` it."""
        own = at.own
        loads = own.load + self.latency * (own.load > 0)
        waits: Cycles = self.single_in * loads + self.single_out * own.store
        dram = at.inside.plus(after).plus(before).cycles(self.turnaround)
        arrives = (after.load + self.latency) * (after.load > 0)
        # two slots: a tile comes, is used (and goes) within two steps
        comes = at.work + arrives + before.store * self.chained
        goes = at.work + before.store
        ring = np.maximum(comes * (after.load > 0), goes * (before.store > 0)) / 2
        chain = arrives + before.store * self.chained
        return most_of(at.work + waits, dram, chain, ring)


def most_of(first: Cycles, *others: Cycles) -> Cycles:
    """Give the largest, entry by entry."""
    for other in others:
        first = np.maximum(first, other)
    return first


def loop_cycles(
    full: tuple[Ints, Step], edge: tuple[Ints, Step], slots: Slots, cyclic: Bools
) -> Cycles:
    """Cycles of a loop of ``full`` equal iterations and at most one smaller ``edge`` one.

    ``cyclic``: the loop is itself repeated, so its first iteration follows its last one;
    otherwise nothing is stored before it and nothing loaded after it.
    """
    n, f = full
    has, e = edge
    has_edge = np.asarray(has > 0)
    to_full, to_edge = f.own.loads(), e.own.loads()
    from_full, from_edge = f.own.stores(), e.own.stores()
    next_after_full = to_edge.times(has_edge).plus(to_full.times(~has_edge & cyclic))
    last_before = from_edge.times(has_edge & cyclic).plus(from_full.times(~has_edge & cyclic))
    alone = slots.step(f, next_after_full, last_before)
    first = slots.step(f, to_full, last_before)
    middle = slots.step(f, to_full, from_full)
    last = slots.step(f, next_after_full, from_full)
    ending = slots.step(e, to_full.times(cyclic), from_full)
    many = first + np.maximum(n - 2, 0) * middle + last
    return np.asarray(np.where(n > 1, many, alone) + has * ending, dtype=np.float64)
