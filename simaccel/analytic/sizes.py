"""Tile sizes of a rank: those that divide it, and those that make each number of pieces."""

import math

import numpy as np

from simaccel.analytic.family import Ints, ints


def divisors(size: int) -> Ints:
    """Return the sizes that divide a rank (perfect factors), in order.

    >>> divisors(12).tolist()
    [1, 2, 3, 4, 6, 12]
    """
    low = np.arange(1, math.isqrt(size) + 1)
    low = low[size % low == 0]
    return ints(sorted({*low.tolist(), *(size // low).tolist()}))


def even_pieces(size: int, most: int | None = None) -> Ints:
    """Return, for every number of pieces that there can be, the smallest size that makes it.

    None above ``most``. A rank that stands alone in every tensor moves as much with any other size
    of as many pieces. Up to the root of ``size`` each makes another number of pieces; beyond, each
    small number of pieces has one size.

    >>> even_pieces(10).tolist(), even_pieces(10**12, most=3).tolist()
    ([1, 2, 3, 4, 5, 10], [1, 2, 3])
    """
    root = math.isqrt(size)
    small = np.arange(1, min(root, size if most is None else most) + 1)
    if most is not None and most <= root:
        return ints(small)
    large = -(-size // np.arange(root + 1, 0, -1))
    sizes = np.concatenate([small, large[large > root]])
    pieces = -(-size // sizes)
    sizes = sizes[np.concatenate([[True], pieces[1:] != pieces[:-1]])]
    return ints(sizes if most is None else sizes[sizes <= most])
