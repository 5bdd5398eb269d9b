"""Compulsory traffic: the bytes that must be read and written with any buffer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simaccel.analytic.floor.problem import positions
from simaccel.mapping.space import IterationSpace, space_of
from simaccel.mapping.tree import Group
from simaccel.numbers import in_bytes
from simaccel.workload import Workload


def compulsory_bytes(workload: Workload, groups: Sequence[Sequence[str]]) -> int:
    """Return the bytes that groups of operators exchange with others, each once, repeats included.

    Tensors that only their own group uses don't count, as they may stay on chip. Of inputs with
    strides only used elements count.
    """
    return sum(workload.times(one[0]) * group_bytes(workload, one) for one in groups)


def group_bytes(workload: Workload, operators: Sequence[str]) -> int:
    """Return the least bytes that one group reads from and writes to DRAM."""
    space = space_of(workload, Group(operators=tuple(operators), tree=()))
    both = (*read_bytes(space).items(), *written_bytes(space).items())
    return sum(n_bytes for name, n_bytes in both if not workload.tensors[name].shared)


def read_bytes(space: IterationSpace) -> dict[str, int]:
    """Return the bytes of each tensor that a group reads from outside."""
    sizes = space.widen(space.sizes)
    found: dict[str, int] = {}
    for seen in space.operators:
        for view in seen.inputs:
            if view.name not in space.made:
                elements = math.prod(positions(dim, sizes) for dim in view.terms)
                n_bytes = in_bytes(elements, view.bits)
                found[view.name] = max(found.get(view.name, 0), n_bytes)
    return found


def written_bytes(space: IterationSpace) -> dict[str, int]:
    """Return the bytes of each tensor that a group writes for others."""
    views = (one.output for one in space.operators if one.output.name in space.escapes)
    return {view.name: view.n_bytes for view in views}
