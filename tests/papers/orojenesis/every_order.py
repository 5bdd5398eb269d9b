"""Bounds by brute force: every tiling and every order executed, with sets of elements.

Nothing is shared with the code under test: a tile is the set of positions in its bounding box, a
step brings the positions that the tile before it hasn't got.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

Dims = tuple[dict[str, int], ...]
"""A tensor: per dimension the coefficient of each rank."""


@dataclass(frozen=True, eq=False)
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
            room, sum(one.width * len(_box(one.dims, full, sizes, tiles)) for one in tensors)
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
    sizes: dict[str, int], tensors: Sequence[Tensor], *, imperfect: bool, loops: int = 2
) -> list[tuple[int, int]]:
    """Return the front of all trees with up to so many loops a rank and keeps at any depth."""
    chains = [[c for c in _chains(sizes[r], imperfect=imperfect) if len(c) <= loops] for r in sizes]
    points: set[tuple[int, int]] = set()
    for chosen in product(*chains):
        by_rank = dict(zip(sizes, chosen, strict=True))
        names = [rank for rank, chain in by_rank.items() for _ in chain]
        for order in set(permutations(names)):
            nest, seen = [], dict.fromkeys(sizes, 0)
            for rank in order:
                nest.append((rank, by_rank[rank][seen[rank]]))
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
    each = [
        front(_at_depth(tuple(sizes.items()), one, tuple(nest[:d])) for d in range(len(nest) + 1))
        for one in tensors
    ]
    for points in product(*each):
        yield sum(room for room, _ in points), sum(moved for _, moved in points)


@cache
def _at_depth(
    sizes: tuple[tuple[str, int], ...], one: Tensor, outside: tuple[tuple[str, int], ...]
) -> tuple[int, int]:
    """Execute the loops outside of a keep, one position after the other.

    A window slides in the innermost loop that moves it, if that is in a sum of ranks.
    """
    ranks = {rank for dim in one.dims for rank in dim}
    sums = {rank for dim in one.dims if len(dim) > 1 for rank in dim}
    innermost = max((at for at, (rank, _) in enumerate(outside) if rank in ranks), default=-1)
    tile = dict(sizes) | dict(outside)
    volume = math.prod(1 + sum(c * (tile[r] - 1) for r, c in dim.items()) for dim in one.dims)
    moved, held, last = 0, frozenset[tuple[int, ...]](), None
    written: set[tuple[int, ...]] = set()
    for block, stepped in _blocks(dict(sizes), outside):
        starts = {rank: start for rank, (start, _) in block.items()}
        lengths = {rank: stop - start for rank, (start, stop) in block.items()}
        box = _box(one.dims, starts, {r: starts[r] + n for r, n in lengths.items()}, lengths)
        if (mine := tuple(block[rank] for rank in sorted(ranks))) == last:
            continue
        slides = stepped == innermost >= 0 and outside[stepped][0] in sums
        new = box - held if slides else box
        moved += len(new) + (len(new & written) if one.is_output else 0)
        written |= new
        held, last = box, mine
    return volume * one.width, moved * one.width


def _blocks(
    sizes: dict[str, int], nest: Sequence[tuple[str, int]]
) -> Iterator[tuple[dict[str, tuple[int, int]], int]]:
    """Yield blocks with the number of the loop that stepped before; -1 for the first."""

    def walk(
        at: int, block: dict[str, tuple[int, int]], stepped: int
    ) -> Iterator[tuple[dict[str, tuple[int, int]], int]]:
        if at == len(nest):
            yield block, stepped
            return
        rank, tile = nest[at]
        start, stop = block[rank]
        for first in range(start, stop, tile):
            inside = {**block, rank: (first, min(first + tile, stop))}
            yield from walk(at + 1, inside, stepped if first == start else at)

    yield from walk(0, {rank: (0, size) for rank, size in sizes.items()}, -1)
