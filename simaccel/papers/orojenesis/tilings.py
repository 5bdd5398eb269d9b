"""Tilings of an einsum: the sizes of each rank that matter, or all, and their combinations."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from simaccel.analytic.family import Family, FamilyLoops, Ints, ints, tree_of
from simaccel.analytic.floor.problem import BoundProblem
from simaccel.analytic.sizes import divisors, even_pieces
from simaccel.mapping.tree import BUFFER, Do, Group, Keep, Loop
from simaccel.units import ARRAY, MAC

MOST_TILINGS = 20_000_000
"""Tilings above which ranks in sums take even pieces only, as other ranks do."""
_CHUNK = 1 << 15
"""Tilings at a time: arrays that stay in a processor's cache."""


def orders(cut_ranks: Iterable[int]) -> int:
    """Return how many mappings there are: of every tiling, the orders of loops of several trips.

    ``cut_ranks``: for each rank, in how many ways it makes several pieces.

    >>> orders([12, 12, 12])
    11269
    """
    ways = [1]
    for n in cut_ranks:
        ways = [
            (ways[k] if k < len(ways) else 0) + (n * ways[k - 1] if k else 0)
            for k in range(len(ways) + 1)
        ]
    return sum(n * math.factorial(k) for k, n in enumerate(ways))


def options(
    problem: BoundProblem, *, imperfect: bool, whole: Collection[str] = ()
) -> tuple[dict[str, list[int]], bool]:
    """Return the tile sizes of each free rank, and whether they are all that matter.

    Ranks in ``whole`` are cut to 1.
    """
    sizes: dict[str, list[int]] = {rank: [1] for rank in whole}
    for rank in problem.free:
        size = problem.sizes[rank]
        if rank not in sizes:
            sizes[rank] = (even_pieces(size) if imperfect else divisors(size)).tolist()
    if not imperfect:
        return sizes, True
    sliding = problem.sliding - {*whole}
    every = {rank: list(range(1, problem.sizes[rank] + 1)) for rank in sliding}
    complete = math.prod(len(tiles) for tiles in (sizes | every).values()) <= MOST_TILINGS
    return (sizes | every if complete else sizes), complete


def tilings(sizes: Sequence[Sequence[int]]) -> Iterator[list[Ints]]:
    """Yield all combinations of sizes in pieces, an array for each rank."""
    shape = [len(one) for one in sizes]
    columns = [ints(one) for one in sizes]
    count = math.prod(shape)
    for start in range(0, count, _CHUNK):
        index = np.unravel_index(np.arange(start, min(start + _CHUNK, count)), shape or (1,))
        yield [column[at] for column, at in zip(columns, index, strict=False)]


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
