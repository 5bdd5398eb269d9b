"""Bounds by brute force: every tiling and every order executed, with sets of elements.

Nothing is shared with the code under test: a tile is the set of positions in its bounding box, a
step brings the positions that the tile before it hasn't got.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product

Dims = tuple[dict[str, int], ...]
"""A tensor: per dimension the coefficient of each rank."""


@dataclass(frozen=True)
class Tensor:
    """A tensor, the bytes of an element, and whether it is written."""

    dims: Dims
    width: int = 1
    is_output: bool = False


def front(points: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the points that no other beats in both, by buffer."""
    found: list[tuple[int, int]] = []
    for room, moved in sorted(set(points)):
        if not found or moved < found[-1][1]:
            found.append((room, moved))
    return found


def even_front(
    sizes: dict[str, int], tensors: Sequence[Tensor], *, imperfect: bool = False
) -> list[tuple[int, int]]:
    """Return the front of all tilings with one loop a rank, in every order."""
    ranks = list(sizes)
    options = [[t for t in range(1, sizes[r] + 1) if imperfect or sizes[r] % t == 0] for r in ranks]
    return front(
        _executed(sizes, tensors, dict(zip(ranks, tiles, strict=True)), order)
        for tiles in product(*options)
        for order in permutations(ranks)
    )


def _executed(
    sizes: dict[str, int], tensors: Sequence[Tensor], tiles: dict[str, int], order: Sequence[str]
) -> tuple[int, int]:
    held: list[frozenset[tuple[int, ...]]] = [frozenset()] * len(tensors)
    moved = room = 0
    written: list[set[tuple[int, ...]]] = [set() for _ in tensors]
    for starts in product(*(range(0, sizes[r], tiles[r]) for r in order)):
        at = dict(zip(order, starts, strict=True))
        for n, one in enumerate(tensors):
            box = _box(one.dims, at, sizes, tiles)
            new = box - held[n]
            moved += len(new) * one.width
            if one.is_output:  # sums that have been written before come back first
                moved += len(new & written[n]) * one.width
                written[n] |= new
            held[n] = box
        full = dict.fromkeys(order, 0)
        room = max(
            room,
            sum(one.width * len(_box(one.dims, full, sizes, tiles)) for one in tensors),
        )
    return room, moved


def _box(
    dims: Dims, at: dict[str, int], sizes: dict[str, int], tiles: dict[str, int]
) -> frozenset[tuple[int, ...]]:
    spans = []
    for dim in dims:
        start = sum(c * at[rank] for rank, c in dim.items())
        reach = sum(c * (min(tiles[r], sizes[r] - at[r]) - 1) for r, c in dim.items())
        spans.append(range(start, start + reach + 1))
    return frozenset(product(*spans))


def uneven_front(
    sizes: dict[str, int], tensors: Sequence[Tensor], *, imperfect: bool
) -> list[tuple[int, int]]:
    """Return the front of all trees with up to two loops a rank and keeps at any depth."""
    chains = [[c for c in _chains(sizes[r], imperfect=imperfect) if len(c) < 3] for r in sizes]
    points: set[tuple[int, int]] = set()
    for chosen in product(*chains):
        loops = dict(zip(sizes, chosen, strict=True))
        names = [rank for rank, chain in loops.items() for _ in chain]
        for order in set(permutations(names)):
            nest, seen = [], dict.fromkeys(sizes, 0)
            for rank in order:
                nest.append((rank, loops[rank][seen[rank]]))
                seen[rank] += 1
            points |= set(_kept_anywhere(sizes, tensors, nest))
    return front(points)


def _chains(size: int, *, imperfect: bool) -> Iterator[tuple[int, ...]]:
    yield ()
    for tile in range(1, size):
        if imperfect or size % tile == 0:
            for rest in _chains(tile, imperfect=imperfect):
                yield (tile, *rest)


def _kept_anywhere(
    sizes: dict[str, int], tensors: Sequence[Tensor], nest: list[tuple[str, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the sums over tensors, each at its best or any depth."""
    each = []
    for one in tensors:
        ranks = {rank for dim in one.dims for rank in dim}
        each.append(front(_at_depth(sizes, one, ranks, nest[:d]) for d in range(len(nest) + 1)))
    for points in product(*each):
        yield sum(room for room, _ in points), sum(moved for _, moved in points)


def _at_depth(
    sizes: dict[str, int], one: Tensor, ranks: set[str], outside: list[tuple[str, int]]
) -> tuple[int, int]:
    """Execute the loops outside of a keep, one position after the other."""
    tile = sizes | dict(outside)
    volume = math.prod(tile[next(iter(dim))] for dim in one.dims)
    moved, last, written = 0, None, set()
    for block in _blocks(sizes, outside):
        mine = tuple(block[rank] for rank in sorted(ranks))
        if mine == last:
            continue
        n = math.prod(stop - start for start, stop in mine)
        moved += n * (2 if one.is_output and mine in written else 1)
        written.add(mine)
        last = mine
    return volume * one.width, moved * one.width


def _blocks(
    sizes: dict[str, int], nest: list[tuple[str, int]]
) -> Iterator[dict[str, tuple[int, int]]]:
    def walk(at: int, block: dict[str, tuple[int, int]]) -> Iterator[dict[str, tuple[int, int]]]:
        if at == len(nest):
            yield block
            return
        rank, tile = nest[at]
        start, stop = block[rank]
        for first in range(start, stop, tile):
            yield from walk(at + 1, {**block, rank: (first, min(first + tile, stop))})

    yield from walk(0, {rank: (0, size) for rank, size in sizes.items()})
