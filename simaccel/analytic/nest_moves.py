"""What one tensor of a nest moves between two levels, in elements.

A transfer has two sides: what the parent's instances read (for sums: write) once for all children
that need it at the same time, and what each child gets (gives). Both are a sum over the tiles that
the loops outside bring, of the tile's volume, less what a sliding window still has.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simaccel.analytic.nest_loops import Loops, Mode, Tiles
from simaccel.hardware.levels import Temporal
from simaccel.mapping.nest import Bools, Ints

Term = tuple[int, int]
"""Rank and coefficient of an index."""


@dataclass(frozen=True)
class Shape:
    """A tensor's dimensions as terms, the ranks that it lacks, and its bytes per element."""

    dims: tuple[tuple[Term, ...], ...]
    others: tuple[int, ...]
    width: int

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that it has."""
        return tuple(rank for dim in self.dims for rank, _ in dim)


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """The tiles of a tensor that a level keeps; ``child`` is the level, or the depth for MACs.

    MACs get a tile each time, whatever the loops.
    """

    loops: Loops
    shape: Shape
    child: int

    @cached_property
    def position(self) -> Ints:
        """The place of the innermost loop that brings another tile."""
        return self.loops.position(self.shape.ranks, self.child)


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Tiles on their way to a level.

    The instances at the spatial levels from ``shared`` to the child are served together (none if
    ``shared`` is the child). ``alone``: count what passes the first instance only of the spatial
    levels outside ``shared``.
    """

    to: Tiling
    shared: int
    alone: bool = False

    @property
    def loops(self) -> Loops:
        """The loops around."""
        return self.to.loops

    @property
    def shape(self) -> Shape:
        """What moves."""
        return self.to.shape

    @property
    def child(self) -> int:
        """Where it moves."""
        return self.to.child

    @property
    def position(self) -> Ints:
        """The place of the innermost loop that brings another tile."""
        return self.to.position

    def counts(self, level: int) -> bool | None:
        """Say whether all instances of a spatial level count; None where it is temporal."""
        hierarchy = self.loops.hierarchy
        if isinstance(hierarchy.levels[level], Temporal):
            return None
        return level < self.shared and not self.alone

    def _repeats(self, rank: int) -> Ints:
        """How often the loops of a rank that the tensor lacks bring the same tile."""

        def mode(level: int) -> Mode:
            counts = self.counts(level)
            if counts is not None:
                return counts
            if self.child == self.loops.depth:
                return True
            place = self.loops.places[self.loops.hierarchy.temporal.index(level)][rank]
            return place <= self.position

        return self.loops.tiles(rank, self.child, mode).count

    def _first_repeats(self, rank: int) -> Ints:
        """As before, but for the first time that an instance gets a tile."""
        return self.loops.tiles(rank, self.child, lambda level: bool(self.counts(level))).count

    def covered(self, rank: int) -> Ints:
        """Sum of the sizes of all tiles of a rank that stands alone in its index."""
        if not self.alone:
            return self.loops.sizes[rank]

        def mode(level: int) -> Mode:
            return self.counts(level) is not False or level >= self.shared

        return self.loops.tiles(rank, self.child, mode).total

    def sums(self) -> tuple[Ints, Ints]:
        """Elements of an output that move up over all residencies, and over the first of each."""
        tile = _product([self.covered(rank) for rank in self.shape.ranks], self.loops)
        every = _product([self._repeats(rank) for rank in self.shape.others], self.loops)
        first = _product([self._first_repeats(rank) for rank in self.shape.others], self.loops)
        return tile * every, tile * first

    def elements(self) -> Ints:
        """Elements of an input that move down."""
        dims = [_Dim(self, dim) for dim in self.shape.dims]
        volumes = [dim.volume for dim in dims]
        repeats = _product([self._repeats(rank) for rank in self.shape.others], self.loops)
        kept = [
            _product([dim.kept, *volumes[:i], *volumes[i + 1 :]], self.loops)
            for i, dim in enumerate(dims)
            if len(dim.terms) > 1 and self.child < self.loops.depth
        ]
        whole = _product(volumes, self.loops)
        return repeats * (whole - sum(kept[1:], kept[0]) if kept else whole)


@dataclass(frozen=True)
class _Dim:
    """One index of a tensor, a sum of ranks."""

    transfer: Transfer
    terms: tuple[Term, ...]

    @cached_property
    def volume(self) -> Ints:
        """Sum of the extents of all tiles."""
        if len(self.terms) == 1:
            ((rank, coefficient),) = self.terms
            if coefficient == 1:
                return self.transfer.covered(rank)
        counts = [tiles.count for tiles in self.tiles.values()]
        total = math.prod(counts, start=1 - sum(c for _, c in self.terms))
        for i, (rank, coefficient) in enumerate(self.terms):
            others = counts[:i] + counts[i + 1 :]
            total = total + math.prod(others, start=coefficient * self.tiles[rank].total)
        return np.asarray(total)

    @cached_property
    def tiles(self) -> dict[int, Tiles]:
        """The boxes along each rank."""
        return {rank: self._boxes(rank) for rank, _ in self.terms}

    def _boxes(self, rank: int, first: int | None = None) -> Tiles:
        """Count the boxes along a rank, of the loop at level ``first`` those of its first trip.

        Instances that are served together share a box where their positions adjoin: where no
        loop of the rank runs between their spatial level and the child.
        """
        transfer, loops = self.transfer, self.transfer.loops

        def mode(level: int) -> Mode:
            return level != first and transfer.counts(level) is not False

        found = loops.tiles(rank, transfer.shared, mode)
        apart = self._apart(rank)
        for level in range(transfer.shared, transfer.child) if apart else ():
            loop = loops.loops[level][rank]
            more = found.count
            if level != first:  # which is innermost, so what it leaves of the last doesn't matter
                more = more * loop.trips - found.last * loop.lacks
            found = Tiles(
                np.where(apart[level], more, found.count),
                found.last,
                np.where(apart[level], loop.size, found.size),
                np.where(apart[level], loop.last_size, found.last_size),
            )
        return found

    def _apart(self, rank: int) -> dict[int, Bools]:
        """Say by level whose pieces don't share a box; empty where all do."""
        transfer, loops = self.transfer, self.transfer.loops
        found: dict[int, Bools] = {}
        apart = np.zeros(len(loops.sizes[rank]), dtype=np.bool_)
        for level in range(transfer.child - 1, transfer.shared - 1, -1):
            if transfer.counts(level) is None:
                many = loops.loops[level][rank].trips > 1
                apart = apart | many
                found[level] = many
            else:
                found[level] = apart
        return found if apart.any() else {}

    @cached_property
    def kept(self) -> Ints:
        """Sum of the extents that windows share with the ones before them, where they slide."""
        loops, total = self.transfer.loops, np.zeros_like(self.transfer.position)
        for index, level in enumerate(loops.hierarchy.temporal):
            for rank, coefficient in self.terms if level < self.transfer.child else ():
                loop = loops.loops[level][rank]
                if loop.single:
                    continue
                here = (self.transfer.position == loops.places[index][rank]) & (loop.trips > 1)
                if here.any():
                    moved = self.tiles[rank].count - self._boxes(rank, first=level).count
                    skip = coefficient * (1 + loop.size - self.tiles[rank].size)
                    total = total + here * moved * self._overlap(rank, skip)
        return total

    def _overlap(self, moving: int, skip: Ints) -> Ints:
        """Sum of what windows share with the ones before over the tiles of the other ranks."""
        others = [(self.tiles[rank], c) for rank, c in self.terms if rank != moving]
        total = np.zeros_like(skip)
        for is_last in itertools.product((False, True), repeat=len(others)):
            reach, weight = 1 - skip, np.ones_like(skip)
            for (tiles, coefficient), last in zip(others, is_last, strict=True):
                reach = reach + coefficient * ((tiles.last_size if last else tiles.size) - 1)
                weight = weight * (tiles.last if last else tiles.count - tiles.last)
            total = total + weight * np.maximum(reach, 0)
        return total


def _product(factors: list[Ints], loops: Loops) -> Ints:
    found, *rest = factors or [loops.ones]
    return math.prod(rest, start=found)
