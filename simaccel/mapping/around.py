"""What is kept around groups: which tensors a keep holds, from which group to which, and its bytes.

A keep lives from the first group inside that makes or reads what it holds to the last one that
does: a chain of layers holds what goes from one to the next, and not all of it at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simaccel.mapping.space import held_around
from simaccel.mapping.tree import Around, Keep
from simaccel.numbers import in_bytes
from simaccel.workload import Workload, operands_of


@dataclass(frozen=True)
class Life:
    """A keep around groups: the ``first`` group that touches what it holds, and the ``last``.

    ``tensors``: its own, and those that are made in it in place. ``n_bytes``: of all its slots, as
    wide as the widest of these.
    """

    keep: Keep
    first: int
    last: int
    tensors: tuple[str, ...]
    n_bytes: int


def lives(workload: Workload, around: Around) -> list[Life]:
    """Return the life of each keep; one that no group touches lives in all of them."""
    touched: dict[str, list[int]] = {}
    held: dict[str, dict[str, None]] = {keep.tensor: {} for keep in around.keeps}
    for at, group in enumerate(around.groups):
        for name in group.operators:
            for _, given in operands_of(workload.operator(name)):
                tensor = held_around(workload, given.tensor, around.keeps)
                if tensor in held:
                    touched.setdefault(tensor, []).append(at)
                    held[tensor][given.tensor] = None
    found = []
    for keep in around.keeps:
        groups = touched.get(keep.tensor, [0, len(around.groups) - 1])
        tensors = tuple(held[keep.tensor]) or (keep.tensor,)
        n_bytes = kept_bytes(workload, keep, tensors)
        found.append(Life(keep, groups[0], groups[-1], tensors, n_bytes))
    return found


def kept_bytes(workload: Workload, keep: Keep, tensors: Sequence[str]) -> int:
    """Return the bytes of all slots of a keep that holds some tensors."""
    spans = [span.stop - span.start for span in keep.region]
    elements = math.prod(spans or workload.shapes[keep.tensor])
    width = max(workload.tensors[one].bits for one in (keep.tensor, *tensors))
    return keep.slots * in_bytes(elements, width)


def bytes_around(living: Sequence[Life], at: int) -> int:
    """Return the bytes of what lives around one of the groups."""
    return sum(one.n_bytes for one in living if one.first <= at <= one.last)
