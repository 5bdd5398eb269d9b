"""States of each dimension in an invocation of a cluster level: first, steady and last tiles.

A *case* is one combination of the states of all maps; it occurs as often as the product says.
All arrays are over cases, so that what a case moves is a product of arrays. Divisions truncate
towards zero, as in the tool whose rules these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


def quotient(dividend: int, divisor: int) -> int:
    """Divide and cut off the fraction, towards zero.

    >>> quotient(7, 2), quotient(-7, 2)
    (3, -3)
    """
    found = abs(dividend) // abs(divisor)
    return found if (dividend < 0) == (divisor < 0) else -found


@dataclass(frozen=True)
class State:
    """One state of a map in time: its position, how often it occurs, and what is special.

    ``unrolled``: one tile (one set of sub-clusters) holds all. ``edge``: less than a full
    tile (than all sub-clusters). ``partial``: the last active sub-cluster has a smaller tile.
    """

    position: int
    count: int = 1
    unrolled: bool = False
    edge: bool = False
    partial: bool = False


def states_of(one: DimMap, size: int, units: int) -> tuple[State, ...]:
    """Return the states of a map over a dimension of this size, of which the first is Init."""
    return _spatial(one, size, units) if one.spatial else _temporal(one, size)


def _temporal(one: DimMap, size: int) -> tuple[State, ...]:
    steps = quotient(size - one.size, one.offset)
    found = [State(INIT, unrolled=size <= one.size, edge=size < one.size)]
    if one.size < size and steps > 0:
        found.append(State(STEADY, steps))
    if size >= one.size and steps * one.offset + one.size < size:
        found.append(State(EDGE, edge=True))
    return tuple(found)


def _spatial(dim_map: DimMap, size: int, units: int) -> tuple[State, ...]:
    covered = dim_map.size + dim_map.offset * (units - 1)
    steps = quotient(quotient(size - dim_map.size, dim_map.offset) + 1, units) - 1
    stride = dim_map.offset * units
    first = State(INIT, unrolled=size <= covered, edge=size < covered, partial=size < covered)
    states = [first]
    if covered < size and steps > 0:
        states.append(State(STEADY, steps))
    is_left = (steps + 1) * stride + covered > size and steps * stride + covered != size
    if not first.unrolled and is_left:
        left = size - (steps + 1) * stride
        active = 1 if left < dim_map.size else quotient(left - dim_map.size, dim_map.offset) + 1
        partial = (active - 1) * dim_map.offset + dim_map.size < left
        states.append(State(EDGE, edge=True, partial=partial))
    return tuple(states)


class Cases:
    """All combinations of the states of a level's maps.

    The order is the tool's: it matters for figures that are taken from the first or last case.
    States may be of any class that has ``position``, ``count`` and ``unrolled``.
    """

    def __init__(self, maps: Sequence[DimMap], states: Sequence[Sequence[object]]) -> None:
        """Combine the states, the first of which is Init."""
        self.maps, self.states = maps, states
        self.count = prod(len(one) for one in states)
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
    def edges(self) -> Bools:
        """Whether each map (rows) is at an edge in each case."""
        return np.array(
            [self.field_of(place, "edge") for place in range(len(self.maps))], dtype=bool
        )

    @cached_property
    def partials(self) -> Bools:
        """Whether the last active sub-cluster has a smaller tile of each map (rows)."""
        return np.array(
            [self.field_of(place, "partial") for place in range(len(self.maps))], dtype=bool
        )

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
        """Place of the innermost map that isn't at its first position; -1 at the very start."""
        places = np.arange(len(self.maps))[:, None]
        found: Ints = np.where(self.positions != INIT, places, -1).max(axis=0)
        return found
