"""Tiles of a tensor that engines of one core wait for while other cores write them."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class AwaitedTiles:
    """The tiles of a tensor that a reader takes from a maker on other cores, one per iteration.

    In one round ``made`` tiles are written and ``read`` tiles read. The reader's n-th tile is
    complete when n + ``ahead`` tiles are written, or all of the round.
    """

    tensor: str
    made: int
    read: int
    ahead: int = 0

    def needed_count(self, taken: int) -> int:
        """Return the tiles that must have been written before the next one after ``taken`` is read.

        >>> [AwaitedTiles("S", made=4, read=3, ahead=2).needed_count(n) for n in range(5)]
        [3, 4, 4, 7, 8]
        """
        rounds, number = divmod(taken, self.read)
        return rounds * self.made + min(self.made, number + 1 + self.ahead)

    def steady_count(self, taken: int) -> int:
        """Return the number of next tiles that each need exactly one more written tile.

        >>> AwaitedTiles("S", made=9, read=9, ahead=2).steady_count(3)
        4
        """
        if self.made == self.read and not self.ahead:
            return sys.maxsize
        return min(self.made - self.ahead, self.read) - taken % self.read
