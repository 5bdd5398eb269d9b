"""States of each dimension in an invocation of a cluster level: first, steady and last tiles.

A *case* is one combination of the states of all maps; it occurs as often as the product says.
All arrays are over cases, so that what a case moves is a product of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
        return values[self.chosen[place]]

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


@dataclass(frozen=True)
class MapStep:
    """One state of a map: where it stands, how often, and the tiles that are there.

    ``active`` sub-clusters have tiles of ``size`` positions, the last one of them ``last``. A map
    in time has one tile. ``unrolled``: it doesn't move in the invocation.
    """

    position: int
    count: int
    unrolled: bool
    active: int
    size: int
    last: int


def steps_of(dim_map: DimMap, size: int, units: int) -> tuple[MapStep, ...]:
    """Return the states of a map over ``size`` positions, shared by ``units`` where it is spatial.

    >>> [(step.position, step.count, step.active, step.last)
    ...  for step in steps_of(DimMap("K", 2, 2, spatial=True), 15, 3)]
    [(0, 1, 3, 2), (1, 1, 3, 2), (2, 1, 2, 1)]
    >>> [(step.count, step.size) for step in steps_of(DimMap("K", 4, 4), 10, 1)]
    [(1, 4), (1, 4), (1, 2)]
    """
    at_once = units if dim_map.spatial else 1
    tiles = 1 if size <= dim_map.size else -(-(size - dim_map.size) // dim_map.offset) + 1
    tiles = min(tiles, -(-size // dim_map.offset))
    last = min(size - (tiles - 1) * dim_map.offset, dim_map.size)
    full, rest = divmod(tiles, at_once)
    if rest == 0 and last < dim_map.size and full:
        full, rest = full - 1, at_once
    whole = min(dim_map.size, size)
    if full == 0:
        first = MapStep(INIT, 1, unrolled=True, active=rest, size=whole, last=last)
        return (replace(first, size=last) if rest == 1 else first,)
    is_all = full == 1 and rest == 0
    steps = [MapStep(INIT, 1, unrolled=is_all, active=at_once, size=whole, last=whole)]
    if full > 1:
        steps.append(replace(steps[0], position=STEADY, count=full - 1))
    if rest:
        size_of = last if rest == 1 else dim_map.size
        steps.append(MapStep(EDGE, 1, unrolled=False, active=rest, size=size_of, last=last))
    return tuple(steps)


def nominal_steps(one: DimMap, size: int, nominal: int, units: int) -> tuple[MapStep, ...]:
    """Return the states of the actual size with the tiles of the nominal one (defect 6)."""
    known = {step.position: step for step in steps_of(one, nominal, units)}
    found = []
    for step in steps_of(one, size, units):
        like = known.get(step.position, known[INIT])
        found.append(replace(step, active=like.active, size=like.size, last=like.last))
    return tuple(found)
