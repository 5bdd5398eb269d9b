"""Tensors that are kept around groups: by which keep, from which group to which, and their bytes.

A keep lives from the first group inside that makes or reads what it holds to the last one that
does: a chain of layers holds what goes from one to the next, and not all of it at once.
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
    """A keep around groups: the ``first`` group that touches what it holds, and the ``last``.

    ``tensors``: its own, and those that are made in it in place. ``n_bytes``: of all its slots, as
    wide as the widest of these, ``bits`` an element.
    """

    keep: Keep
    first: int
    last: int
    tensors: tuple[str, ...]
    n_bytes: int
    bits: int


def holder(workload: Workload, group: Group, tensor: str, keeps: Sequence[Keep]) -> str | None:
    """Return the tensor kept around a group whose tile has one that the group uses, or nothing.

    It is the tensor itself, or the one that it is made over in place. What the group's tree keeps,
    and what is made over that, has a tile of its own, but where a part of it is kept around: that
    is in the other parts.
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


def lives(workload: Workload, around: ResidentScope) -> list[Lifetime]:
    """Return the life of each keep; one that no group touches lives in all of them."""
    touched: dict[str, list[int]] = {}
    held: dict[str, dict[str, None]] = {keep.tensor: {} for keep in around.keeps}
    for at, group in enumerate(around.groups):
        for name in group.operators:
            for _, operand in operands_of(workload.operator(name)):
                tensor = holder(workload, group, operand.tensor, around.keeps)
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
    """Return the bytes of all slots of a keep that holds some tensors."""
    spans = [span.stop - span.start for span in keep.region]
    elements = math.prod(spans or workload.shapes[keep.tensor])
    return keep.slots * in_bytes(elements, _bits(workload, keep, tensors))


def _bits(workload: Workload, keep: Keep, tensors: Sequence[str]) -> int:
    return max(workload.tensors[one].bits for one in (keep.tensor, *tensors))


def bytes_around(living: Sequence[Lifetime], at: int) -> int:
    """Return the bytes of what lives around one of the groups."""
    return sum(one.n_bytes for one in living if one.first <= at <= one.last)
