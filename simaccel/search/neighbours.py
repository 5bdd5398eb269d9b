"""Tile sizes: those that a grid tries, and the neighbours of a good candidate.

A grid has few sizes of each rank; better ones often lie between them, or have other numbers of
slots. So candidates of its family that differ from the best in one or two numbers are judged like
the grid, and then the neighbours of the best of these, until nothing improves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from operator import itemgetter, ne

import numpy as np

from simaccel.analytic.family import Family, FamilyLoops, Ints, ints, maximum, minimum, with_arrays
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import Keep, nodes
from simaccel.search.effort import EFFORT

_SIDES = (1, 2, 3, 4, 6, 8)
"""Numbers of array sides that a tile fills if inner ranks take a part of one."""


def tile_sizes(extent: int, side: int) -> list[int]:
    """Return candidate tile sizes of a rank: all of it, even cuts, and doublings of an array side.

    Cuts are even, or rounded up to whole array sides, so that only the last tile has partial folds.
    Ranks of few positions have all sizes.

    >>> tile_sizes(512, 32)
    [32, 64, 86, 96, 128, 171, 192, 256, 512]
    >>> tile_sizes(7, 32)
    [1, 2, 3, 4, 5, 6, 7]
    """
    if extent <= EFFORT.every_size:
        return list(range(1, extent + 1))
    sizes = {extent}
    for pieces in (2, 3, 4, 6, 8, 12, 16):
        size = -(-extent // pieces)
        if pieces <= EFFORT.even_pieces:
            sizes.add(size)
        sizes.add(min(extent, -(-size // side) * side) if extent > side else size)
    size = side
    while size < extent:
        sizes.add(size)
        size *= 2
    if extent <= side:
        sizes |= {s for s in (1, 2, 4, 8, 16) if s < extent}
    return sorted(s for s in sizes if s <= extent)


def filling_tiles(extent: int, whole: int, side: int) -> list[int]:
    """Return tiles of a rank that fill whole array sides, with ``whole`` positions each.

    These are the largest that need no further side: of an output 56 wide, 9 rows are 504 positions,
    which fill two sides of 256, and 10 rows begin a third.

    >>> filling_tiles(56, 56, 256)
    [4, 9, 13, 18, 27, 36]
    """
    sizes = {pieces * side // whole for pieces in _SIDES}
    return sorted(size for size in sizes if 1 <= size < extent)


def nested_loops(space: IterationSpace, ranks: Sequence[str], tile: Ints) -> list[FamilyLoops]:
    """Return loops over several ranks whose blocks have ``tile`` positions together.

    Inner ranks stay whole as long as the block is larger than they are.
    """
    tiles = []
    left = tile
    for rank in reversed(ranks):
        size = space.sizes[rank]
        tiles.append(minimum(maximum(left, 1), size))
        left = -(-left // size)
    if not ranks:
        return []
    places = tuple(ints(at) for at in range(len(ranks)))
    return [FamilyLoops(tuple(ranks), tuple(reversed(tiles)), places)]


_SLOTS = (1, 2, 3)
_PIECES = (-2, -1, 1, 2)
"""Differences in the number of pieces of a rank between neighbours."""
Row = dict[int, int]
"""The numbers of one candidate, by the array of its family."""


@dataclass(frozen=True)
class Limit:
    """The range of one number of a family's candidates, and what it is a multiple of.

    A number that the grid holds fixed, or in multiples of a head's rows, is a constraint of the
    scheduler, which neighbours obey.
    """

    low: int
    high: int
    unit: int

    def allows(self, value: int) -> bool:
        """Return whether a tile may have this size."""
        return self.low <= value <= self.high and value % self.unit == 0


@dataclass(frozen=True)
class _FamilyAxis:
    """An array of a family that may vary: a tile, an order, slots, or what an array holds."""

    key: int
    kind: str
    size: int = 0
    """Of the rank, for a tile."""
    limit: Limit = Limit(0, 0, 1)


def limits_of(family: Family) -> list[Limit]:
    """Return the limits of all numbers of a family's candidates, in the order of its nodes."""
    return [
        Limit(int(np.min(array)), int(np.max(array)), int(np.gcd.reduce(np.ravel(array))) or 1)
        for array, _ in _arrays(family)
    ]


def neighbours(
    starts: Sequence[Family], limits: Sequence[Limit], accelerator: Accelerator
) -> Family | None:
    """Return some candidates and their neighbours as one family; None if no number may vary.

    Those with the fewest changes come first. ``starts``: the candidates as families of one, whose
    varying numbers are arrays of one entry. ``limits``: of the family that they come from.
    """
    every = [list(_rows(start, limits, accelerator)) for start in starts]
    if not any(every):
        return None
    changes = [(sum(map(ne, row, rows[0])), row) for rows in every for row in rows]
    unique = list(dict.fromkeys(row for _, row in sorted(changes, key=itemgetter(0))))
    first = starts[0]
    varied = [array for array, _ in _arrays(first) if np.ndim(array)]
    columns = {
        id(array): ints(column)
        for array, column in zip(varied, zip(*unique, strict=True), strict=True)
    }
    return with_arrays(first, lambda array: columns.get(id(array), array))


def _rows(
    family: Family, limits: Sequence[Limit], accelerator: Accelerator
) -> Iterator[tuple[int, ...]]:
    """Yield a candidate's numbers, and those of its neighbours, in the order of its nodes."""
    every = [
        replace(axis, limit=limit)
        for (array, axis), limit in zip(_arrays(family), limits, strict=True)
        if np.ndim(array)
    ]
    values = _values(family)
    start = {axis.key: values[axis.key] for axis in every}
    axes = [axis for axis in every if axis.limit.low < axis.limit.high]
    if not axes:
        return
    moves = {axis.key: list(_moves(axis, start[axis.key], accelerator)) for axis in axes}
    yield tuple(start.values())
    for axis in axes:
        for value in moves[axis.key]:
            yield tuple({**start, axis.key: value}.values())
    for first, second in combinations([axis for axis in axes if axis.kind == "tile"], 2):
        for a, b in product(moves[first.key], moves[second.key]):
            yield tuple({**start, first.key: a, second.key: b}.values())
    slots = [axis.key for axis in axes if axis.kind == "slots"][: EFFORT.slots]
    for numbers in product(_SLOTS, repeat=len(slots)):
        yield tuple({**start, **dict(zip(slots, numbers, strict=True))}.values())
    for row in _swap_loops(family, start):
        yield tuple(row.values())


def _arrays(one: Family) -> Iterator[tuple[Ints, _FamilyAxis]]:
    """Yield the arrays of a family that vary, in the order of its nodes."""
    for array in one.held.values():
        yield array, _FamilyAxis(id(array), "held")
    for node in nodes(one.branch):
        if isinstance(node, Keep):
            yield node.slots, _FamilyAxis(id(node.slots), "slots")
        elif isinstance(node, FamilyLoops):
            for rank, tile in zip(node.ranks, node.tiles, strict=True):
                yield tile, _FamilyAxis(id(tile), "tile", one.space.sizes[rank])
            for place in node.places:
                yield place, _FamilyAxis(id(place), "place")


def _values(one: Family) -> Row:
    found: Row = {}

    def note(array: Ints) -> Ints:
        if np.ndim(array):
            found[id(array)] = int(array[0])
        return array

    with_arrays(one, note)
    return found


def _moves(axis: _FamilyAxis, value: int, accelerator: Accelerator) -> Iterator[int]:
    if axis.kind == "slots":
        yield from (n for n in _SLOTS if n != value)
    elif axis.kind == "held":
        yield from (n for n in range(len(STATIONARITIES)) if n != value)
    elif axis.kind == "tile":
        sizes = set(_sizes(axis.size, value, accelerator)) - {value}
        yield from sorted(size for size in sizes if axis.limit.allows(size))


def _sizes(size: int, tile: int, accelerator: Accelerator) -> Iterator[int]:
    """Yield sizes near a tile's: a piece more or fewer, doubled, halved, in whole array sides."""
    array = accelerator.array
    pieces = -(-size // tile)
    yield from (1, size)
    for count in (pieces, *(pieces + more for more in _PIECES), 2 * pieces, math.ceil(pieces / 2)):
        if not 1 <= count <= size:
            continue
        even = -(-size // count)
        yield even
        for side in {array.rows, array.cols}:
            yield min(size, -(-even // side) * side)
            yield max(1, even // side * side)


def _swap_loops(one: Family, here: Row) -> Iterator[Row]:
    """Yield the orders in which two loops have changed places."""
    for node in nodes(one.branch):
        if isinstance(node, FamilyLoops):
            keys = [id(place) for place in node.places if id(place) in here]
            for first, second in combinations(keys, 2):
                yield {**here, first: here[second], second: here[first]}
