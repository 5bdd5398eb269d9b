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
    return _NONE


_NONE = np.zeros(())


def _plus(one: Cycles, other: Cycles) -> Cycles:
    """Add; traffic that there is none of costs nothing."""
    if other is _NONE:
        return one
    return other if one is _NONE else one + other


def _times(factor: Ints | Cycles | Bools, value: Cycles) -> Cycles:
    return value if value is _NONE else factor * value


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
            _plus(self.load, other.load),
            _plus(self.store, other.store),
            _plus(self.load_turns, other.load_turns),
            _plus(self.store_turns, other.store_turns),
        )

    def times(self, factor: Ints | Cycles | Bools) -> Flow:
        """Repeat, or keep only where a condition holds."""
        return Flow(
            _times(factor, self.load),
            _times(factor, self.store),
            _times(factor, self.load_turns),
            _times(factor, self.store_turns),
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
    """How a loop's tiles are buffered: the DRAM's delays, slots of what comes and of what goes.

    ``chained``: a tile is loaded into the slot that a store has to free first.
    """

    latency: int
    turnaround: int
    come: Ints
    go: Ints
    chained: Bools

    def held(self, at: Step) -> Cycles:
        """Cycles of an iteration with what it has to wait for where tiles have one slot."""
        own = at.own
        loads = own.load + self.latency * (own.load > 0)
        return np.asarray(at.work + ((self.come == 1) * loads + (self.go == 1) * own.store))

    def arrival(self, after: Flow) -> Arrival:
        """Give the loads after an iteration."""
        loads = after.load > 0
        return Arrival(after, loads, (after.load + self.latency) * loads)

    def departure(self, before: Flow) -> Departure:
        """Give the stores before an iteration."""
        return Departure(before, before.store > 0, before.store * self.chained)

    def step(
        self, at: Step, held: Cycles, after: Arrival, before: Departure, *, ragged: Bools
    ) -> Cycles:
        """Cycles of an iteration beside the loads ``after`` it and the stores ``before`` it.

        S slots hold S tiles on their way: a tile comes, is used (and goes) within S steps.
        Between tiles of different sizes (``ragged``) the transfers of two slots have to fit
        into this very step.
        """
        dram = at.inside.plus(after.flow).plus(before.flow).cycles(self.turnaround)
        comes = (at.work + after.cycles) * after.loads / self.come
        goes = (at.work + before.flow.store + after.cycles * self.chained) * before.stores / self.go
        chain = ragged * np.where(
            self.chained,
            (self.go == 2) * (after.cycles + before.chained),  # noqa: PLR2004 - two slots
            (self.come == 2) * after.cycles,  # noqa: PLR2004
        )
        return most_of(held, dram, comes, goes, np.asarray(chain))


@dataclass(frozen=True)
class Arrival:
    """The loads after an iteration, where there are any, and when the last one has come."""

    flow: Flow
    loads: Bools
    cycles: Cycles


@dataclass(frozen=True)
class Departure:
    """The stores before an iteration, where there are any, and where a load waits for them."""

    flow: Flow
    stores: Bools
    chained: Cycles


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
    held = slots.held(f)
    to_next, to_last = slots.arrival(to_full), slots.arrival(next_after_full)
    from_one, from_last = slots.departure(from_full), slots.departure(last_before)
    alone = slots.step(f, held, to_last, from_last, ragged=has_edge)
    first = slots.step(f, held, to_next, from_last, ragged=has_edge)
    middle = slots.step(f, held, to_next, from_one, ragged=np.zeros((), dtype=bool))
    last = slots.step(f, held, to_last, from_one, ragged=has_edge)
    to_first = slots.arrival(to_full.times(cyclic))
    ending = slots.step(e, slots.held(e), to_first, from_one, ragged=has_edge)
    many = first + np.maximum(n - 2, 0) * middle + last
    return np.asarray(np.where(n > 1, many, alone) + has * ending, dtype=np.float64)
