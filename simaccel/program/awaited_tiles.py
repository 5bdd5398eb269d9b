"""Tiles of a tensor that engines of one core wait for, as those of others make them."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class AwaitedTiles:
    """Tiles of a tensor that other cores make, one for each iteration.

    ``made`` of them come while ``read`` are read, before all begins again. The n-th one is there
    when ``ahead`` more than n are made, or all.
    """

    tensor: str
    made: int
    read: int
    ahead: int = 0

    def needed_count(self, taken: int) -> int:
        """Return how many have to be made for one more, after so many were ``taken``.

        >>> [AwaitedTiles("S", made=4, read=3, ahead=2).needed_count(n) for n in range(5)]
        [3, 4, 4, 7, 8]
        """
        rounds, number = divmod(taken, self.read)
        return rounds * self.made + min(self.made, number + 1 + self.ahead)

    def steady_count(self, taken: int) -> int:
        """Return of how many more each needs one more made than the one before it.

        >>> AwaitedTiles("S", made=9, read=9, ahead=2).steady_count(3)
        4
        """
        if self.made == self.read and not self.ahead:
            return sys.maxsize
        return min(self.made - self.ahead, self.read) - taken % self.read
