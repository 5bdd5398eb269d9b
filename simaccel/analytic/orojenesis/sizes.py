"""Tile sizes of a rank: those that divide it, those that matter, or all."""

from __future__ import annotations

import math
from collections.abc import Iterable

MOST_TILINGS = 20_000_000
"""Tilings above which ranks in sums take even pieces only, as other ranks do."""


def divisors(size: int) -> list[int]:
    """Return the sizes that divide a rank (perfect factors).

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    low = [n for n in range(1, math.isqrt(size) + 1) if size % n == 0]
    return sorted({*low, *(size // n for n in low)})


def even_pieces(size: int) -> list[int]:
    """Return, for every number of pieces that there can be, the smallest size that makes it.

    A rank that stands alone in every tensor moves as much with any other size of as many pieces.

    >>> even_pieces(10)
    [1, 2, 3, 4, 5, 10]
    """
    pieces, tile = [], size
    while tile >= 1:
        tile = -(-size // -(-size // tile))
        pieces.append(tile)
        tile -= 1
    return pieces[::-1]


def orders(cut_ranks: Iterable[int]) -> int:
    """Return how many mappings there are: of every tiling, the orders of loops of several trips.

    ``cut_ranks``: for each rank, in how many ways it makes several pieces.

    >>> orders([12, 12, 12])
    11269
    """
    ways = [1]
    for n in cut_ranks:
        ways = [
            (ways[k] if k < len(ways) else 0) + (n * ways[k - 1] if k else 0)
            for k in range(len(ways) + 1)
        ]
    return sum(n * math.factorial(k) for k, n in enumerate(ways))
