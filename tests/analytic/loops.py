"""Loop nests executed step by step: what a tile loop moves, counted without any formula."""

from collections import Counter
from collections.abc import Iterator
from itertools import product

RANKS = {"A": "mk", "B": "kn", "C": "mn"}
Sizes = dict[str, int]


def tiles(extent: int, tile: int) -> list[int]:
    """Sizes of the tiles of a rank, one after the other."""
    return [min(tile, extent - start) for start in range(0, extent, tile)]


def _elements(tensor: str, at: dict[str, int], extents: Sizes, tile: Sizes) -> int:
    count = 1
    for rank in RANKS[tensor]:
        count *= tiles(extents[rank], tile[rank])[at[rank]]
    return count


def steps(order: str, extents: Sizes, tile: Sizes, groups: int) -> Iterator[dict[str, int]]:
    """Tile coordinates of every step of the nest, the groups outermost."""
    trips = [range(groups), *(range(len(tiles(extents[r], tile[r]))) for r in order)]
    for at in product(*trips):
        yield dict(zip("g" + order, at, strict=True))


def dram_elements(
    order: str, extents: Sizes, tile: Sizes, groups: int = 1
) -> Counter[tuple[str, str]]:
    """Elements between DRAM and a buffer that holds the last tile of each tensor.

    A tile that is not held is read; an output tile goes out when another one takes its place
    and comes back with its partial sums if the reduction goes on.
    """
    moved: Counter[tuple[str, str]] = Counter()
    held: dict[str, tuple[tuple[int, ...], int]] = {}
    begun: set[tuple[int, ...]] = set()
    for at in steps(order, extents, tile, groups):
        for tensor, ranks in RANKS.items():
            which = (at["g"], *(at[rank] for rank in ranks))
            if tensor in held and held[tensor][0] == which:
                continue
            if tensor == "C" and "C" in held:
                moved["dram_write", "C"] += held["C"][1]
            held[tensor] = which, _elements(tensor, at, extents, tile)
            if tensor != "C" or which in begun:
                moved["dram_read", tensor] += held[tensor][1]
            if tensor == "C":
                begun.add(which)
    moved["dram_write", "C"] += held["C"][1]
    return moved


def array_elements(
    shape: tuple[int, int, int], sides: tuple[int, int], stationarity: str, *, accumulate: bool
) -> Counter[str]:
    """Elements between buffer and array: fold after fold, ``shape`` is m, k, n.

    Each fold takes its stationary operand once and streams the rest past it. Partial sums go
    out after every fold and come back for the next of the same outputs, unless the array
    keeps them (os); with ``accumulate`` the first fold finds sums, too.
    """
    m, k, n = shape
    high, wide, stream = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[stationarity]
    moved: Counter[str] = Counter()
    for cols in tiles(wide, sides[1]):
        for index, rows in enumerate(tiles(high, sides[0])):
            size = {
                "ws": {"a": stream * rows, "b": rows * cols, "out": stream * cols},
                "os": {"a": rows * stream, "b": stream * cols, "out": rows * cols},
                "is": {"a": rows * cols, "b": rows * stream, "out": cols * stream},
            }[stationarity]
            moved.update(size)
            moved["folds"] += 1
            if accumulate or (index and stationarity != "os"):
                moved["sums"] += size["out"]
    return moved
