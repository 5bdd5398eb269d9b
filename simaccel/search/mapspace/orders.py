"""Loop orders of one temporal level that differ in what they cost.

The order of a level's loops decides one thing: for each tensor that is held further in, which loops
make it move. These are the innermost loop over one of the tensor's ranks and all loops outside of
it; where a sliding window runs along that innermost loop, the loop itself matters too. Two orders
with the same answer for every tensor cost the same, whatever the other levels do, so one of them is
enough. Loops of one trip have no order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
import numpy.typing as npt

from simaccel.hardware.levels import ROLES
from simaccel.workload import Einsum

Moves = tuple[tuple[frozenset[int], int | None], ...]
"""By tensor: the loops that move it, and the loop of its sliding window among them, if any."""


@dataclass(frozen=True)
class Dependence:
    """Indices of the ranks of one tensor, and of those that share a dimension with another rank."""

    ranks: frozenset[int]
    sliding: frozenset[int] = frozenset()


def dependences(einsum: Einsum) -> tuple[Dependence, ...]:
    """Return the ranks that each operand of an einsum depends on; a second input may be missing."""
    index = {rank: at for at, rank in enumerate(einsum.ranks)}
    by_role = []
    for operand in (*einsum.inputs, einsum.output):
        windows: set[int] = set()
        for dim in operand.projection:
            several = [index[rank] for rank, _ in dim.terms if einsum.ranks[rank] > 1]
            windows.update(several if len(several) > 1 else ())
        ranks = frozenset(index[rank] for rank in operand.ranks)
        by_role.append(Dependence(ranks, frozenset(windows)))
    missing = [Dependence(frozenset())] * (len(ROLES) - len(by_role))
    return (*by_role[:-1], *missing, by_role[-1])


@lru_cache(1 << 12)
def distinct_orders(
    active: tuple[int, ...], tensors: tuple[Dependence, ...], fixed: tuple[int, ...] = ()
) -> npt.NDArray[np.int64]:
    """Return one order, outer to inner, of each kind that costs differently; a row each.

    ``active`` are the ranks with more than one trip, ``tensors`` those that are held further in,
    ``fixed`` ranks whose order among each other is given.

    >>> gemm = (Dependence(frozenset({0, 1})), Dependence(frozenset({1, 2})))
    >>> distinct_orders((0, 1, 2), gemm).tolist()
    [[0, 1, 2], [0, 2, 1], [1, 2, 0]]
    """
    fixed_inside = [rank for rank in fixed if rank in active]
    by_moves: dict[Moves, tuple[int, ...]] = {}
    for order in permutations(sorted(active)):
        if [rank for rank in order if rank in fixed_inside] == fixed_inside:
            by_moves.setdefault(moves(order, tensors), order)
    return np.array(sorted(by_moves.values()), dtype=np.int64).reshape(len(by_moves), len(active))


@lru_cache(1 << 12)
def undominated_orders(
    orders: tuple[tuple[int, ...], ...], tensors: tuple[Dependence, ...]
) -> tuple[int, ...]:
    """Return the indices of the orders that no other one dominates; of equal ones the first.

    An order dominates another if each tensor moves with a subset of the loops, along the same
    window: then nothing moves more bytes, whatever the tile sizes and the other levels are.

    >>> product = (Dependence(frozenset({0})), Dependence(frozenset({0, 1})))
    >>> undominated_orders(((0, 1), (1, 0)), product)
    (0,)
    """
    kinds = [moves(order, tensors) for order in orders]
    different = dict.fromkeys(kinds)
    best = {kind for kind in different if not any(_beats(other, kind) for other in different)}
    return tuple(kinds.index(kind) for kind in different if kind in best)


def _beats(one: Moves, other: Moves) -> bool:
    return one != other and all(
        mine <= theirs and window == along
        for (mine, window), (theirs, along) in zip(one, other, strict=True)
    )


def moves(order: tuple[int, ...], tensors: tuple[Dependence, ...]) -> Moves:
    """Return for each tensor the loops that move it, and the window that it moves along."""
    found: list[tuple[frozenset[int], int | None]] = []
    for tensor in tensors:
        at = max((i for i, rank in enumerate(order) if rank in tensor.ranks), default=-1)
        window = order[at] if at >= 0 and order[at] in tensor.sliding else None
        found.append((frozenset(order[: at + 1]), window))
    return tuple(found)
