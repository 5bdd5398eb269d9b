"""Cycles around blocks in which the array doesn't work: what comes first, between, and last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simaccel.analytic.array import Edges
from simaccel.analytic.counting.transfers import blocks_of
from simaccel.analytic.family import Cut, Entry, Family, Fan, Ints, Kept, Loops, Path, ints
from simaccel.analytic.pieces import Cuts, expanded, extent
from simaccel.analytic.units import Units
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import BUFFER
from simaccel.numbers import in_bytes

Sizes = dict[str, Ints]


@dataclass
class Fills:
    """Cycles that every candidate of a family has before, between and behind its blocks at least.

    Between a block and what takes its results, or the other way round, the array fills or drains;
    blocks that follow one another hide that.
    """

    family: Family
    accelerator: Accelerator

    @cached_property
    def units(self) -> Units:
        """What a block costs."""
        return Units(self.family, self.accelerator)

    def first(self) -> Ints:
        """Return the cycles before the first command: its inputs come from DRAM, and enter.

        In which order they come is left open.
        """
        path = next(self.family.paths())
        cuts = Cuts(self.family.space, path)
        inputs = self.family.space.seen(path.leaf.operator).uses[:-1]
        block = _first(self._sizes, path.entries)
        known: dict[str, Ints] = {}
        found = ints(0)
        for number, (use, view) in enumerate(inputs):
            for at, entry in enumerate(path.entries):
                if not isinstance(entry, Kept) or entry.tensor != use:
                    continue
                if use in self.family.space.made:
                    continue
                sides = (extent(dim, cuts.full[at]) for dim in expanded(self.family.space, view))
                n_bytes = in_bytes(math.prod(sides, start=ints(1)), view.bits)
                backing = self.accelerator.backing(view.kind)
                spec = backing.dram
                service = backing.channel_read_rate.cycles(spec.channel_bytes(n_bytes, 0))
                name, mine = self.accelerator.memory(view.kind), service * (entry.slots > 0)
                known[name] = known.get(name, ints(spec.latency_cycles)) + mine
                alone = spec.latency_cycles + mine + self._entering(path, cuts, block, number)
                found = np.maximum(found, alone)
                break
        for here in known.values():
            found = np.maximum(found, here + self._entering(path, cuts, block))
        return ints(found)

    @property
    def _sizes(self) -> Sizes:
        return {rank: ints(size) for rank, size in self.family.space.sizes.items()}

    def _entering(self, path: Path, cuts: Cuts, sizes: Sizes, number: int | None = None) -> Ints:
        """Return the cycles from an operand's arrival to the folds of its block.

        ``number``: of the operand; None where it may be any.
        """
        if path.leaf.unit != "array":
            return ints(0)
        found = ints(self.accelerator.lead_latency_cycles)
        if number is None:
            return found
        edges = self._edges(path, cuts, sizes)
        return ints(found + (edges.held == number) * edges.lead)

    def last(self) -> Ints:
        """Return the cycles behind the last command of the array: what it made goes to DRAM."""
        *_, path = self.family.paths()
        output = self.family.space.seen(path.leaf.operator).output
        if path.leaf.unit != "array" or output.name not in self.family.space.escapes:
            return ints(0)
        every = self._sizes
        cuts = Cuts(self.family.space, path)
        for at, entry in enumerate(path.entries):
            if isinstance(entry, Cut | Fan):
                break  # the last of these are not in one piece
            if isinstance(entry, Kept) and entry.tensor == output.name and entry.level == BUFFER:
                sizes = _last(every, path.entries[:at])
                sides = (extent(dim, sizes) for dim in expanded(self.family.space, output))
                n_bytes = in_bytes(math.prod(sides, start=ints(1)), output.bits)
                spec = self.accelerator.dram
                service = self.accelerator.channel_rate.cycles(spec.channel_bytes(n_bytes, 0))
                return ints(service * (entry.slots > 0) + self._leaving(path, cuts, every))
        return ints(0)

    def between(self, before: Path, behind: Path, name: str, inside: int) -> Ints:
        """Return the cycles in which results leave, and what is made of them enters, all together.

        ``name``: of what ``behind`` takes; entries of both paths from ``inside`` on are their own.
        Behind a vector operator that is online it enters while sums are rescaled.
        """
        space, total = self.family.space, ints(0)
        used = space.seen(behind.leaf.operator)
        number = [view.name for view in used.inputs].index(name)
        out, come = Cuts(space, before), Cuts(space, behind)
        whole = ints(1)
        for axis in space.axes.values():
            whole = whole * (come.full[inside][axis] == space.sizes[axis])
        for count, sizes in blocks_of(out, tuple(space.sizes), upto=inside):
            leaving = self._leaving(before, out, sizes, inside)
            first = _first(sizes, behind.entries[inside:])
            entering = self._entering(behind, come, first, number)
            total = total + count * (leaving + whole * entering)
        return total

    def _leaving(self, path: Path, cuts: Cuts, sizes: Sizes, inside: int = 0) -> Ints:
        """Return the cycles from the end of the last block to its last result in the buffer."""
        if path.leaf.unit != "array":
            return ints(0)
        last = _last(sizes, path.entries[inside:])
        return ints(self._edges(path, cuts, last).tail + self.accelerator.tail_latency_cycles)

    def _edges(self, path: Path, cuts: Cuts, sizes: Sizes) -> Edges:
        return self.units.matmul(path, cuts, self.units.widened(sizes)).edges()


def _first(sizes: Sizes, entries: Sequence[Entry]) -> Sizes:
    """Return the sizes of the first block that some loops leave."""
    found = dict(sizes)
    for entry in entries:
        if isinstance(entry, Loops):
            for rank, tile in zip(entry.ranks, entry.tiles, strict=True):
                found[rank] = np.minimum(tile, found[rank])
    return found


def _last(sizes: Sizes, entries: Sequence[Entry]) -> Sizes:
    """Return the sizes of the last block that some loops leave."""
    found = dict(sizes)
    for entry in entries:
        if isinstance(entry, Loops):
            for rank, tile in zip(entry.ranks, entry.tiles, strict=True):
                piece = np.minimum(tile, found[rank]).clip(1)
                found[rank] = ints(found[rank] - (-(-found[rank] // piece) - 1) * piece)
    return found
