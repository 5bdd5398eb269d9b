"""Tile sizes that a grid tries, and loops over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simaccel.analytic.family import FamilyLoops, Ints, ints
from simaccel.mapping.space import IterationSpace

FEW: Final = 16
"""Ranks of up to this many positions have all tile sizes."""
_EVEN_PIECES = 8
"""Most even pieces that a rank is cut into; more differ little from sizes of whole array sides."""
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
    if extent <= FEW:
        return list(range(1, extent + 1))
    sizes = {extent}
    for pieces in (2, 3, 4, 6, 8, 12, 16):
        size = -(-extent // pieces)
        if pieces <= _EVEN_PIECES:
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
        tiles.append(left.clip(1, size))
        left = -(-left // size)
    if not ranks:
        return []
    places = tuple(ints(at) for at in range(len(ranks)))
    return [FamilyLoops(tuple(ranks), tuple(reversed(tiles)), places)]
