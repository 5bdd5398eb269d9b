"""The mapping that attains a point of a bound, as a tree that the machine runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simaccel.analytic.orojenesis.problem import BoundProblem
from simaccel.mapping.tree import BUFFER, Do, Group, Keep, Loop
from simaccel.units import ARRAY, MAC, LeafUnit

FACTORS = 2
"""Tensors that a systolic array multiplies."""


def even_group(problem: BoundProblem, tiles: Mapping[str, int], order: Sequence[str]) -> Group:
    """Return a tree with one loop a rank, in an order, and all tensors kept inside."""
    sizes = {**dict.fromkeys(problem.batch, 1), **tiles}
    loops = tuple(
        Loop(rank, sizes[rank])
        for rank in (*problem.batch, *order)
        if sizes[rank] < problem.sizes[rank]
    )
    keeps = tuple(Keep(operand.name, BUFFER) for operand in problem.operands)
    unit = unit_of(problem, sizes)
    leaf = Do(problem.operator.name, unit, "ws" if unit == ARRAY else None)
    return Group(
        operators=(problem.operator.name,), tree=(*loops, *keeps, leaf), merged=problem.merged
    )


def unit_of(problem: BoundProblem, tiles: Mapping[str, int]) -> LeafUnit:
    """Return which array takes the tiles: a systolic one where it can, else PEs with memories."""
    whole = any(tiles[rank] > 1 for rank in problem.free if is_alone(problem, rank))
    factors = len(problem.operator.inputs) == FACTORS
    return ARRAY if factors and not whole else MAC


def is_alone(problem: BoundProblem, rank: str) -> bool:
    """Return whether a rank is in one tensor only, which a systolic array can't fold."""
    return sum(rank in one.ranks for one in problem.operands) < FACTORS
