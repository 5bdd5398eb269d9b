"""Pieces of a rank along a path: how many there are of each size, remainders included.

Cutting pieces of a few sizes by a tile makes pieces of the tile's size and remainders, so the
pieces at any depth are a short list of (count, size), exact for every chain of tiles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from simaccel.analytic.family import Bools, Cut, Entry, Fan, Ints, Kept, Loops, Path, ints
from simaccel.mapping.space import Space
from simaccel.mapping.view import View

Box = tuple[Ints, Ints]
"""How many pieces, and their size."""
Mode = bool | Bools
Terms = tuple[tuple[str, int], ...]
_WIDTH = 16
"""Places in one entry, more than ranks."""


def cut(boxes: Sequence[Box], tile: Ints, counts: Mode = True) -> list[Box]:
    """Cut pieces by a tile; where ``counts`` is False take the first piece of each only.

    >>> [(int(n), int(s)) for n, s in cut([(ints(1), ints(10))], ints(4))]
    [(2, 4), (1, 2)]
    """
    found: list[Box] = []
    for count, size in boxes:
        full, rest = size // tile, size % tile
        more: Ints
        last: Bools
        if counts is True:
            more, last = full, rest > 0
        elif counts is False:
            more, last = ints(full > 0), full == 0
        else:
            more = np.where(counts, full, full > 0)
            last = np.where(counts, rest > 0, full == 0)
        found.append((count * more, tile + 0 * size))
        if np.any(last):
            found.append((count * last, rest))
    return [(n, s) for n, s in found if np.any(n)] or found[:1]


def number(boxes: Sequence[Box]) -> Ints:
    """Return how many pieces there are."""
    return ints(sum(n for n, _ in boxes))


class Cuts:
    """The cuts of every rank along a path."""

    def __init__(self, space: Space, path: Path) -> None:
        self.space = space
        self.entries = path.entries

    @cached_property
    def full(self) -> list[dict[str, Ints]]:
        """Size of a full piece of each rank, as it enters each entry, and the leaf."""
        sizes = {rank: ints(size) for rank, size in self.space.sizes.items()}
        found = [dict(sizes)]
        for entry in self.entries:
            for rank, tile in tiles(entry):
                sizes[rank] = np.minimum(sizes[rank], tile)
            found.append(dict(sizes))
        return found

    @cached_property
    def places(self) -> dict[tuple[int, str], Ints]:
        """Place of each loop among all, from the outermost; -1 where it makes one piece."""
        found = {}
        for at, entry in enumerate(self.entries):
            if isinstance(entry, Loops):
                for rank, tile, place in zip(entry.ranks, entry.tiles, entry.places, strict=True):
                    real = self.full[at][rank] > tile
                    if np.any(real):
                        found[at, rank] = np.where(real, at * _WIDTH + place, -1)
        return found

    def position(self, ranks: frozenset[str], upto: int) -> Ints:
        """Return the place of the innermost loop outside an entry that moves one of the ranks."""
        found = ints(-1)
        for (at, rank), place in self.places.items():
            if at < upto and rank in ranks:
                found = np.maximum(found, place)
        return found

    def pieces(
        self, rank: str, upto: int, counts: Callable[[int], Mode] = lambda _: True, start: int = 0
    ) -> list[Box]:
        """Return the pieces of a rank that enter an entry; ``counts``: which loops count."""
        boxes: list[Box] = [(ints(1), ints(self.space.sizes[rank]))]
        for at in range(start, upto):
            entry = self.entries[at]
            if isinstance(entry, Cut):
                if entry.rank == rank:
                    boxes = [(ints(1), ints(entry.size))]
                continue
            for one, tile in tiles(entry):
                if one == rank and np.any(self.full[at][rank] > tile):
                    boxes = cut(boxes, tile, counts(at))
        return boxes

    def cut_once(self, boxes: list[Box], rank: str, at: int) -> list[Box]:
        """Cut pieces by an entry; of the instances of a fan-out take the first."""
        entry = self.entries[at]
        for one, tile in tiles(entry):
            if one == rank:
                boxes = cut(boxes, tile, not isinstance(entry, Fan))
        return boxes

    def loop_counts(self, rank: str, upto: int, position: Ints | None) -> Ints:
        """Return how often the loops of a rank up to a place run, all fan-outs left out."""

        def counts(at: int) -> Mode:
            if not isinstance(self.entries[at], Loops):
                return False
            if position is None:
                return True
            place = self.places.get((at, rank))
            return False if place is None else place <= position

        return number(self.pieces(rank, upto, counts))


def tiles(entry: Entry) -> Iterator[tuple[str, Ints]]:
    """Yield the ranks that an entry cuts, with the size of their pieces."""
    if isinstance(entry, Loops):
        yield from zip(entry.ranks, entry.tiles, strict=True)
    elif isinstance(entry, Fan):
        yield entry.rank, entry.tile
    elif isinstance(entry, Cut):
        yield entry.rank, ints(entry.size)


def expanded(space: Space, view: View) -> tuple[Terms, ...]:
    """Return the dimensions of a view in ranks that loops cut: without derived ones."""
    return tuple(_expand(space, dim) for dim in view.terms)


def _expand(space: Space, dim: Terms) -> Terms:
    found: list[tuple[str, int]] = []
    for rank, factor in dim:
        inner = space.derived.get(rank)
        if inner is None:
            found.append((rank, factor))
        else:
            found += [(one, factor * c) for one, c in _expand(space, inner)]
    return tuple(found)


def extent(dim: Terms, sizes: dict[str, Ints]) -> Ints:
    """Return the extent of a dimension for ranks of these sizes."""
    ((rank, factor), *rest) = dim
    side = sizes[rank] if factor == 1 else factor * (sizes[rank] - 1) + 1
    for other, c in rest:
        side = side + c * (sizes[other] - 1)
    return side


def total_extent(dim: Terms, boxes: dict[str, list[Box]]) -> Ints:
    """Sum the extents of a dimension over all combinations of pieces of its ranks."""
    total = ints(0)
    for combination in itertools.product(*(boxes[rank] for rank, _ in dim)):
        sizes = {rank: size for (rank, _), (_, size) in zip(dim, combination, strict=True)}
        total = total + math.prod(n for n, _ in combination) * extent(dim, sizes)
    return total


def kept_at(path: Path, tensor: str) -> list[tuple[int, Kept]]:
    """Return where a tensor is kept along a path, from the outermost in."""
    return [
        (at, entry)
        for at, entry in enumerate(path.entries)
        if isinstance(entry, Kept) and entry.tensor == tensor
    ]
