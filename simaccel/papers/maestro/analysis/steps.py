"""The tiles of a map over outputs, exactly: how many, how large the last, how many at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simaccel.papers.maestro.analysis.states import EDGE, INIT, STEADY
from simaccel.papers.maestro.dataflows.dataflow import DimMap


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
