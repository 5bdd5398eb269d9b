"""Tile chains of one rank: how Ruby splits a rank over temporal and spatial levels.

Ruby (equation 5) writes a rank of size D as D - 1 = sum of (R_n - 1) * P_0 ... P_(n-1): at level n
a tile is split into P_n pieces, and into R_n <= P_n pieces the last time. R_n = P_n everywhere is a
perfect factorisation (equation 1). Given the P, the R are the digits of D - 1 in the mixed radix of
the P, each plus one; so a chain is its P, from the innermost level out, and the outermost level
takes what is left. With N_0 = D and N_(n+1) = ceil(N_n / P_n), N_n is the number of tiles that
level n gets, and R_n = P_n if and only if P_n divides N_n.

All tiles of a level but the last one have the same size, P_0 ... P_(n-1), so their number, the sum
of their sizes and the last size say all that accesses and cycles follow from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from simaccel.analytic.orojenesis.sizes import divisors, even_pieces

Factors = npt.NDArray[np.int64]
"""Chains by row: the P from the innermost level to the outermost."""
Mapspace = Literal["pfm", "ruby", "ruby-s", "ruby-t"]
MAPSPACES: Final[tuple[Mapspace, ...]] = ("pfm", "ruby", "ruby-s", "ruby-t")


@dataclass(frozen=True, kw_only=True)
class SplitLimit:
    """The limits of a rank at a level: ``most`` pieces at most (None: any number).

    ``exactly``: that many pieces, and no chain where fewer tiles arrive. ``whole``: as many pieces
    as tiles arrive, so that the levels outside get one.
    """

    spatial: bool = False
    most: int | None = None
    exactly: int | None = None
    whole: bool = False

    def may_leave(self, mapspace: Mapspace) -> bool:
        """Return whether the last tile may be split into fewer pieces than the others here.

        >>> SplitLimit(spatial=True).may_leave("ruby-s"), SplitLimit().may_leave("ruby-s")
        (True, False)
        """
        if mapspace == "ruby":
            return True
        return mapspace == ("ruby-s" if self.spatial else "ruby-t")


@lru_cache(1 << 16)
def choices(n: int, split: SplitLimit, mapspace: Mapspace) -> Factors:
    """Return the numbers of pieces that a level may make of ``n`` tiles.

    Where it may leave a remainder, of all P with the same ceil(n / P) the smallest: it makes as
    many groups, none larger. Every count of accesses and cycles depends on the number of groups and
    on the sum of their sizes, which are the same, and buffers and fan-out need no more.

    >>> choices(7, SplitLimit(spatial=True, most=5), "ruby-s").tolist()
    [1, 2, 3, 4]
    """
    if split.whole:
        pieces = np.array([n], dtype=np.int64)
    elif split.exactly is not None:
        # Taken as it is asked for, also where a smaller one makes as many groups.
        fits = split.exactly <= n and (n % split.exactly == 0 or split.may_leave(mapspace))
        pieces = np.array([split.exactly] if fits else [], dtype=np.int64)
    else:
        pieces = even_pieces(n, split.most) if split.may_leave(mapspace) else divisors(n)
    return pieces if split.most is None else pieces[pieces <= split.most]
