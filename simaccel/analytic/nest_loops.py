"""The loops of nests: how often they run, and how many tiles they make, remainders included.

All arrays have one entry per candidate. The tiles of a rank at one level have one size but for the
last, so a count and whether the last is among them say all (docs/decisions/0007-nests.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simaccel.hardware.levels import Hierarchy
from simaccel.mapping.nest import Bools, Ints, Nests

Mode = bool | Bools
"""Whether all trips of a loop count, or its first only; or which, by candidate."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One rank at one level: ``trips`` of a full tile, ``last_trips`` of the last one.

    ``pieces`` is what it makes altogether, of ``size`` each but for the last, of ``last_size``.
    """

    trips: Ints
    last_trips: Ints
    pieces: Ints
    size: Ints
    last_size: Ints

    @cached_property
    def single(self) -> bool:
        """Whether it has one trip in all candidates."""
        return bool((self.trips == 1).all())

    @cached_property
    def lacks(self) -> Ints:
        """Trips that the last tile has less."""
        lacks: Ints = self.trips - self.last_trips
        return lacks

    @cached_property
    def last_is_single(self) -> Ints:
        """1 where the last tile has one trip, else 0."""
        single: Ints = (self.last_trips == 1).astype(np.int64)
        return single


@dataclass(frozen=True)
class Tiles:
    """Some tiles of a rank: how many, whether the last is one of them (0 or 1), and the sizes."""

    count: Ints
    last: Ints
    size: Ints
    last_size: Ints

    @property
    def total(self) -> Ints:
        """Sum of their sizes."""
        total: Ints = self.count * self.size - self.last * (self.size - self.last_size)
        return total


@dataclass(frozen=True, kw_only=True)
class Loops:
    """All loops by [level][rank], the outermost level first.

    ``places`` by [temporal level][rank]: where a loop stands among all temporal loops, from the
    outermost; -1 for those of one trip.
    """

    hierarchy: Hierarchy
    sizes: list[Ints]
    loops: list[list[Loop]]
    places: list[list[Ints]]
    ones: Ints

    @property
    def depth(self) -> int:
        """The number of levels, which is where the MACs are."""
        return len(self.loops)

    def entering(self, rank: int, level: int) -> tuple[Ints, Ints]:
        """Give the sizes of full and last tiles that a level gets."""
        if level == 0:
            return self.sizes[rank], self.sizes[rank]
        loop = self.loops[level - 1][rank]
        return loop.size, loop.last_size

    def tiles(self, rank: int, level: int, mode: Callable[[int], Mode]) -> Tiles:
        """Count the tiles that a level gets; ``mode`` says which trips of the levels outside."""
        count = last = self.ones
        everything = True
        for outer in range(level):
            loop = self.loops[outer][rank]
            if loop.single:
                continue
            counts = mode(outer)
            everything = everything and counts is True
            if everything:
                count = loop.pieces
                continue
            if counts is False:
                last = last * loop.last_is_single
                continue
            more = count * loop.trips - last * loop.lacks
            if counts is True:
                count = more
            else:
                count = np.where(counts, more, count)
                last = np.where(counts, last, last * loop.last_is_single)
        return Tiles(count, last, *self.entering(rank, level))

    def position(self, ranks: tuple[int, ...], level: int) -> Ints:
        """Give the place of the innermost loop outside ``level`` that changes these ranks' tile.

        -1 where none does.
        """
        found = -self.ones
        for index, outer in enumerate(self.hierarchy.temporal):
            for rank in ranks if outer < level else ():
                if not self.loops[outer][rank].single:
                    np.maximum(found, self.places[index][rank], out=found)
        return found


def make_loops(hierarchy: Hierarchy, nests: Nests, ranks: Sequence[int]) -> Loops:
    """Work out the loops of all candidates over some ranks; the others have one element."""
    sizes = [np.ascontiguousarray(nests.sizes[:, rank]) for rank in ranks]
    ones = np.ones_like(sizes[0])
    chains = [
        _chain(size, [np.ascontiguousarray(column) for column in nests.factors[:, :, rank].T], ones)
        for rank, size in zip(ranks, sizes, strict=True)
    ]
    loops = [list(level) for level in zip(*chains, strict=True)]
    places = [
        _places(hierarchy, nests.orders[:, index], index, loops[level], ranks)
        for index, level in enumerate(hierarchy.temporal)
    ]
    return Loops(hierarchy=hierarchy, sizes=sizes, loops=loops, places=places, ones=ones)


def _places(
    hierarchy: Hierarchy, orders: Ints, index: int, loops: list[Loop], ranks: Sequence[int]
) -> list[Ints]:
    """Give the places of the loops of one temporal level."""
    n, n_ranks = orders.shape
    if index < len(hierarchy.temporal) - 1:
        inverse = np.empty(n * n_ranks, dtype=np.int64)
        at = orders + np.arange(0, n * n_ranks, n_ranks)[:, np.newaxis]
        inverse[at.reshape(-1)] = np.tile(np.arange(n_ranks), n)
        where = inverse.reshape(n, n_ranks).T + index * n_ranks
    else:  # MACs get a tile each time, so the order of the innermost level changes nothing
        where = np.full((n_ranks, n), index * n_ranks)
    return [
        np.where(loop.trips > 1, where[rank], -1) for loop, rank in zip(loops, ranks, strict=True)
    ]


def _chain(total: Ints, factors: list[Ints], ones: Ints) -> list[Loop]:
    """Split a rank from the innermost level out; a factor beyond the tiles there are is those."""
    found: list[Loop] = []
    pieces, size, last_size = total, ones, ones
    for level in range(len(factors) - 1, -1, -1):
        if level and factors[level].max(initial=1) == 1:
            trips = last_trips = ones
            tiles = pieces
        else:
            trips = np.minimum(factors[level], pieces) if level else pieces
            tiles = -(-pieces // trips) if level else ones
            last_trips = pieces - (tiles - 1) * trips
        found.append(
            Loop(trips=trips, last_trips=last_trips, pieces=pieces, size=size, last_size=last_size)
        )
        if trips is not ones:
            pieces, size = tiles, size * trips
            last_size = total - (pieces - 1) * size
    return found[::-1]
