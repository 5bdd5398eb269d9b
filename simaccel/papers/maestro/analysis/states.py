"""States of each dimension in an invocation of a cluster level: first, steady and last tiles.

A *case* is one combination of the states of all maps; it occurs as often as the product says.
All arrays are over cases, so that what a case moves is a product of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simaccel.papers.maestro.dataflows.dataflow import DimMap

INIT: Final = 0
STEADY: Final = 1
EDGE: Final = 2

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Cases:
    """All combinations of the states of a level's maps.

    The order is the tool's: it matters for figures that are taken from the first or last case.
    States may be of any class that has ``position``, ``count`` and ``unrolled``.
    """

    def __init__(self, maps: Sequence[DimMap], states: Sequence[Sequence[object]]) -> None:
        """Combine the states, the first of which is Init."""
        self.maps, self.states = maps, states
        self.count = prod(len(state) for state in states)
        at = np.arange(self.count)
        self.chosen: list[Ints] = []
        inner = self.count
        for one in states:
            inner //= len(one)
            self.chosen.append(-(-at // inner) % len(one))
        self.index = {one.dim: place for place, one in enumerate(maps)}

    def field_of(self, place: int, field: str) -> Ints:
        """Return a field of the state of the map at this place, for each case.

        A dimension that is mapped twice has the state of its last map, but counts both.
        """
        if field != "count":
            place = self.index[self.maps[place].dim]
        values = np.array([getattr(one, field) for one in self.states[place]], dtype=np.int64)
        found: Ints = values[self.chosen[place]]
        return found

    @cached_property
    def positions(self) -> Ints:
        """Position of each map (rows) in each case."""
        return np.array([self.field_of(place, "position") for place in range(len(self.maps))])

    @cached_property
    def unrolled(self) -> Bools:
        """Whether one tile holds all of each map's dimension (rows)."""
        return np.array(
            [self.field_of(place, "unrolled") for place in range(len(self.maps))], dtype=bool
        )

    @cached_property
    def occurrences(self) -> Ints:
        """Times that each case occurs in the invocation."""
        found = np.ones(self.count, dtype=np.int64)
        for place in range(len(self.maps)):
            found = found * self.field_of(place, "count")
        return found

    @cached_property
    def changing(self) -> Ints:
        """Index of the innermost map that isn't at its first position; -1 in the first step."""
        places = np.arange(len(self.maps))[:, None]
        found: Ints = np.where(self.positions != INIT, places, -1).max(axis=0)
        return found
