"""States of each dimension as MAESTRO's public tool finds them; divisions truncate towards 0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simaccel.papers.maestro.analysis.states import EDGE, INIT, STEADY, Bools, Cases
from simaccel.papers.maestro.dataflows.dataflow import DimMap


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


class ReleasedCases(Cases):
    """All combinations of the states of a level's maps."""

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
