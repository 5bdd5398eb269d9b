"""The trips of a loop over what arrives."""

from __future__ import annotations

import numpy as np

from simaccel.analytic.family import Bools, Ints
from simaccel.analytic.schedule import FALSE, TRUE


class Trips:
    """The trips of a loop over what arrives: full ones, and a smaller last one."""

    def __init__(self, size: Ints, tile: Ints) -> None:
        self.one = not bool((size > tile).any())
        tile = np.minimum(tile, size)
        self.size = size
        self.full, rest = size // tile, size % tile
        self.most, self.least = int(self.full.max()), int(self.full.min())
        self.has_rest: Bools = rest > 0
        self.ragged = bool(self.has_rest.any())
        once = self.full + self.has_rest == 1
        self.once: Bools = TRUE if once.all() else once if once.any() else FALSE
        self.rest: Ints = np.maximum(rest, 1)
        self.tile = tile
        self.known: dict[int, Ints] = {}

    def runs(self, number: int) -> Bools:
        """Say which candidates have an iteration of a full tile with this number."""
        return TRUE if number < self.least else self.full > number

    def more(self, number: int, outside: Bools) -> Bools:
        """Say where an iteration follows, or one of a loop outside does."""
        if outside is TRUE or number + 1 < self.least:
            return TRUE
        return (number + 1 < self.full + self.has_rest) | outside

    def following(self, number: int) -> Ints:
        """Return the size of the piece after the full one with this number."""
        if number + 1 < self.least:
            return self.tile
        if number not in self.known:
            ends = (number + 1 >= self.full) & self.has_rest
            self.known[number] = np.where(ends, self.rest, self.tile)
        return self.known[number]
