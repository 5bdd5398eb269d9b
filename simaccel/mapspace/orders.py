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


@dataclass(frozen=True)
class Dependence:
    """The ranks of one tensor, by index, and those that share a dimension with another rank."""

    ranks: frozenset[int]
    sliding: frozenset[int] = frozenset()


def dependences(einsum: Einsum) -> tuple[Dependence, ...]:
    """Return what the operands of an einsum depend on, by role; a second input may be missing."""
    index = {rank: at for at, rank in enumerate(einsum.ranks)}
    found = []
    for operand in (*einsum.inputs, einsum.output):
        windows: set[int] = set()
        for dim in operand.projection:
            several = [index[rank] for rank, _ in dim.terms if einsum.ranks[rank] > 1]
            windows.update(several if len(several) > 1 else ())
        ranks = frozenset(index[rank] for rank in operand.ranks)
        found.append(Dependence(ranks, frozenset(windows)))
    missing = [Dependence(frozenset())] * (len(ROLES) - len(found))
    return (*found[:-1], *missing, found[-1])


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
    given = [rank for rank in fixed if rank in active]
    found: dict[tuple[object, ...], tuple[int, ...]] = {}
    for order in permutations(sorted(active)):
        if [rank for rank in order if rank in given] == given:
            found.setdefault(moves(order, tensors), order)
    return np.array(sorted(found.values()), dtype=np.int64).reshape(len(found), len(active))


def moves(order: tuple[int, ...], tensors: tuple[Dependence, ...]) -> tuple[object, ...]:
    """Say for each tensor which loops make it move, and along which window."""
    found: list[object] = []
    for tensor in tensors:
        at = max((i for i, rank in enumerate(order) if rank in tensor.ranks), default=-1)
        window = order[at] if at >= 0 and order[at] in tensor.sliding else None
        found.append((frozenset(order[: at + 1]), window))
    return tuple(found)
