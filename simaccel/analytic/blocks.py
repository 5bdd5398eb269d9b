"""What one piece of work takes: a block on a unit, a transfer of a tile."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TypeVar

from simaccel.analytic.array import Edges
from simaccel.analytic.family import Bools, Floats, Ints, ints
from simaccel.analytic.pointwise import anywhere, larger, plain, smaller, up

_ZERO: Ints = plain(ints(0))


@dataclass(frozen=True)
class Share:
    """Cycles of a block, those in which it uses a port, and all where others always do as well.

    A port serves in turns, so that of two each gets half.
    """

    cycles: Floats
    mine: Floats
    turns: Floats
    at_once: bool = False
    """Whether it asks for all that it needs when it begins: not so several folds."""

    @cached_property
    def waits(self) -> Bools:
        """Whether it is longer where others use the port: two at a time at most."""
        most = larger(self.turns, 3 * self.mine) if self.at_once else self.turns
        found: Bools = most > self.cycles
        return found

    @cached_property
    def others(self) -> Floats:
        """Cycles that others get in all of its turns, at least 1."""
        return larger(self.turns - self.mine, 1)

    def longer(self, given: Floats) -> Floats:
        """Return by how much it is longer where others got so many cycles in its turns."""
        if self.at_once:
            return larger(self.mine + given - self.cycles, 0)
        return up(given / self.others * (self.turns - self.cycles))

    def beside(
        self, begin: Floats, given: Floats, other: Floats, left: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return since when it takes turns with another, for how long, and what the other gets.

        It begins at ``begin``, and others got ``given`` in its turns before; the other has ``left``
        cycles from ``other`` on.
        """
        if self.at_once:
            start = larger(other, begin)
            since = start - begin
            had = larger((since + 1) // 2, since - given)  # turn by turn with those before
            shared = smaller(larger(self.mine - had, 0), larger(other + left - start, 0))
            third = smaller(larger(given - since + had, 0), shared)
            return start, 2 * shared + third, shared
        begin = begin + self.longer(given)
        start = larger(other, begin)
        part = larger(begin + self.cycles - start, 0) / larger(self.cycles, 1)
        part = smaller(part, larger(other + left - start, 0) / self.others)
        return start, part * self.turns, part * self.others

    def without(self, other: Share) -> Share:
        """Return what is left beside another part of the block."""
        return Share(self.cycles - other.cycles, self.mine - other.mine, self.turns - other.turns)


@dataclass(frozen=True)
class Block:
    """One command: cycles of its unit, of both ports, and around the folds of a systolic array."""

    cycles: Floats
    read: Ints
    write: Ints
    edges: Edges | None = None
    reading: Ints = _ZERO
    """Cycles of its folds where others read all the time."""
    writing: Ints = _ZERO
    folds: tuple[Block, ...] = ()
    """Its folds one by one, of candidates that have few."""
    several: bool = False
    """Whether it stands for several blocks."""

    @property
    def at_once(self) -> bool:
        """Whether it asks for its ports when it begins: not so several folds or blocks."""
        return self.edges is None and not self.several

    @cached_property
    def at_read(self) -> Share:
        """Its share of the read port."""
        turns = larger(self.reading, larger(self.cycles, 2 * self.read))
        return Share(self.cycles, self.read, turns, self.at_once)

    @cached_property
    def at_write(self) -> Share:
        """Its share of the write port."""
        turns = larger(self.writing, larger(self.cycles, 2 * self.write))
        return Share(self.cycles, self.write, turns, self.at_once)

    @cached_property
    def waits(self) -> Bools:
        """Whether it takes longer where others use a port."""
        found: Bools = self.at_read.waits | self.at_write.waits
        for fold in self.folds:
            found = found | fold.waits
        return found

    @cached_property
    def parts_at_read(self) -> tuple[Share, ...]:
        """Shares of the read port one after the other: folds, or what is not told apart."""
        folds = [fold.at_read for fold in self.folds if anywhere(fold.cycles)]
        return (*folds, functools.reduce(Share.without, folds, self.at_read))

    @cached_property
    def parts_at_write(self) -> tuple[Share, ...]:
        """Shares of the write port one after the other."""
        folds = [fold.at_write for fold in self.folds if anywhere(fold.cycles)]
        return (*folds, functools.reduce(Share.without, folds, self.at_write))


@dataclass(frozen=True)
class Move:
    """One transfer: cycles at the memory outside, at a port of the buffer, and on a pipe to PEs.

    ``latency``: until it is there; ``on_chip``: the memory outside is the buffer.
    """

    service: Ints
    port: Ints
    latency: int
    on_chip: bool
    memory: str = "dram"
    """The memory outside, by its name."""
    pipe: Ints = _ZERO

    @cached_property
    def longest(self) -> Ints:
        """Cycles at memory and port if nothing else is on its way."""
        return larger(self.service, self.port)


_Cost = TypeVar("_Cost", Block, Edges)


def levelled(cost: _Cost) -> _Cost:
    """Return a cost with plain numbers where all candidates have the same."""
    return replace(cost, **{one.name: plain(getattr(cost, one.name)) for one in fields(cost)})
