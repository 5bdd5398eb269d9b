"""The chains of a rank, and their number, by the tiles that arrive at each level."""

from collections.abc import Sequence
from functools import lru_cache

from simaccel.search.mapspace.chains import Mapspace, SplitLimit, choices


def count_chains(size: int, splits: Sequence[SplitLimit], mapspace: Mapspace) -> int:
    """Count the canonical chains of a rank without making them.

    ``splits`` are the levels from the innermost to the one below the outermost, which takes what
    is left. The number of chains depends on the number of tiles that arrive at a level only.

    >>> count_chains(100, [SplitLimit(spatial=True, most=6), SplitLimit()], "pfm")
    24
    """

    @lru_cache(None)
    def count(n: int, level: int) -> int:
        if level == len(splits):
            return 1
        pieces = choices(n, splits[level], mapspace)
        return sum(count(-(-n // p), level + 1) for p in pieces.tolist())

    return count(size, 0)


def list_chains(size: int, splits: Sequence[SplitLimit], mapspace: Mapspace) -> list[list[int]]:
    """List the canonical chains: the pieces of each level, and what the outermost takes.

    >>> list_chains(5, [SplitLimit(spatial=True, most=3)], "ruby-s")
    [[1, 5], [2, 3], [3, 2]]
    """
    if not splits:
        return [[size]]
    return [
        [p, *outer]
        for p in choices(size, splits[0], mapspace).tolist()
        for outer in list_chains(-(-size // p), splits[1:], mapspace)
    ]
