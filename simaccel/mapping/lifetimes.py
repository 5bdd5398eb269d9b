"""Lifetimes of tensors that stay on chip around several groups, and their bytes.

A keep around groups occupies the buffer from the first group inside that makes or reads its tensor
to the last one that does: a chain of layers holds only what goes from one layer to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from simaccel.mapping.space import holding_tensor
from simaccel.mapping.tree import Group, Keep, ResidentScope, Tree, nodes
from simaccel.numbers import in_bytes
from simaccel.workload import Workload, operands_of
from simaccel.workload.names import tensor_of


@dataclass(frozen=True)
class Lifetime:
    """A keep around groups, and the indices of the first and the last group that use its tile.

    ``tensors``: those that are in the tile, made in place of one another. ``bits``: of an element
    of the widest of them. ``n_bytes``: of all slots, with elements of that width.
    """

    keep: Keep
    first: int
    last: int
    tensors: tuple[str, ...]
    n_bytes: int
    bits: int


def resident_tensor(
    workload: Workload, group: Group, tensor: str, keeps: Sequence[Keep]
) -> str | None:
    """Return which of the tensors kept around a group has ``tensor`` in its tile; None if none has.

    It is the tensor itself, or one in place of which it is made. A tensor that the group's own tree
    keeps, or that is made in place of such a one, has another tile; except where only a region is
    kept around, as the tree then keeps the other regions.
    """
    whole = {keep.tensor: not keep.region for keep in keeps}
    held = holding_tensor(workload, tensor, keeps)
    if held not in whole:
        return None
    while whole[held] and tensor != held:
        if tensor in _kept_tensors(group.tree):
            return None
        tensor = workload.in_place[tensor]
    return held


@lru_cache(maxsize=4096)
def _kept_tensors(tree: Tree) -> frozenset[str]:
    return frozenset(tensor_of(one.tensor) for one in nodes(tree) if isinstance(one, Keep))


def lifetimes(workload: Workload, around: ResidentScope) -> list[Lifetime]:
    """Return the lifetime of each keep; all groups, for one that no group uses."""
    touched: dict[str, list[int]] = {}
    held: dict[str, dict[str, None]] = {keep.tensor: {} for keep in around.keeps}
    for at, group in enumerate(around.groups):
        for name in group.operators:
            for _, operand in operands_of(workload.operator(name)):
                tensor = resident_tensor(workload, group, operand.tensor, around.keeps)
                if tensor is not None:
                    touched.setdefault(tensor, []).append(at)
                    held[tensor][operand.tensor] = None
    lifetimes = []
    for keep in around.keeps:
        groups = touched.get(keep.tensor, [0, len(around.groups) - 1])
        tensors = tuple(held[keep.tensor]) or (keep.tensor,)
        n_bytes = kept_bytes(workload, keep, tensors)
        bits = _bits(workload, keep, tensors)
        lifetimes.append(Lifetime(keep, groups[0], groups[-1], tensors, n_bytes, bits))
    return lifetimes


def kept_bytes(workload: Workload, keep: Keep, tensors: Sequence[str]) -> int:
    """Return the bytes of all slots of a keep, as wide as the widest tensor in it."""
    spans = [span.stop - span.start for span in keep.region]
    elements = math.prod(spans or workload.shapes[keep.tensor])
    return keep.slots * in_bytes(elements, _bits(workload, keep, tensors))


def _bits(workload: Workload, keep: Keep, tensors: Sequence[str]) -> int:
    return max(workload.tensors[one].bits for one in (keep.tensor, *tensors))


def bytes_around(living: Sequence[Lifetime], at: int) -> int:
    """Return the bytes that keeps around groups occupy during one of the groups."""
    return sum(one.n_bytes for one in living if one.first <= at <= one.last)
