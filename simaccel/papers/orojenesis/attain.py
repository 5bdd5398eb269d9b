"""Trees of one einsum that attain a bound: loops, and tensors kept inside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from simaccel.analytic.family import Family, FamilyLoops, Ints, ints, tree_of
from simaccel.analytic.floor.problem import BoundProblem
from simaccel.mapping.tree import BUFFER, Do, Group, Keep, Loop
from simaccel.units import ARRAY, MAC

FACTORS = 2
"""Tensors that a systolic array multiplies."""


def nest(problem: BoundProblem, parts: Iterable[Mapping[str, Ints] | str]) -> Family:
    """Return the trees of a nest: ``parts`` are loops with tiles by rank, or tensors kept inside.

    Loops over the batch come first.
    """
    nodes: list[FamilyLoops | Keep[Ints]] = []
    for part in (dict.fromkeys(problem.batch, ints(1)), *parts):
        if isinstance(part, str):
            nodes.append(Keep(part, BUFFER, ints(1)))
        elif part:
            places = tuple(map(ints, range(len(part))))
            nodes.append(FamilyLoops(tuple(part), tuple(part.values()), places))
    return Family(problem.space, (*nodes, Do(problem.operator.name, ARRAY, "ws")), {})


def group_of(problem: BoundProblem, one: Family) -> Group:
    """Return the group of a tree: for a systolic array if that can fold it, else for PEs."""
    tree = tree_of(one)
    tiles = {node.rank: node.tile for node in tree if isinstance(node, Loop)}
    whole = any(
        tiles.get(rank, problem.sizes[rank]) > 1 for rank in problem.free if is_alone(problem, rank)
    )
    if whole or len(problem.operator.inputs) != FACTORS:
        tree = (*tree[:-1], Do(problem.operator.name, MAC))
    return Group(operators=(problem.operator.name,), tree=tree, merged=problem.merged)


def is_alone(problem: BoundProblem, rank: str) -> bool:
    """Return whether a rank is in one tensor only, which a systolic array can't fold."""
    return sum(rank in operand.ranks for operand in problem.operands) < FACTORS
