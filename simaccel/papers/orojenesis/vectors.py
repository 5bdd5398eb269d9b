"""Vector operators alone: rows in and out; where its axis is cut, it is read twice."""

from __future__ import annotations

from itertools import permutations

from simaccel.analytic.family import Family, FamilyLoops, ints
from simaccel.analytic.sizes import even_pieces
from simaccel.mapping.space import aliases_of, mergeable, space_of
from simaccel.mapping.tree import BUFFER, Do, Group, Keep
from simaccel.papers.orojenesis.segment import Segment, of_families
from simaccel.units import SFU
from simaccel.workload import VECTORS, Vector, Workload

_FEW = 4
"""Ranks of which all orders are tried."""


def vector_segment(workload: Workload, vector: Vector) -> Segment:
    """Return a vector operator on its own: one position of each rank at a time, or rows."""
    merged = mergeable(workload, [vector.name])
    group = Group(operators=(vector.name,), tree=(), merged=merged)
    space = space_of(workload, group)
    op = space.bound_operator(vector.name)
    axis = space.axes.get(vector.name)
    outer = [rank for rank in op.ranks if rank != axis and rank in op.output.names]
    ranks = [*outer, *([axis] if axis else [])]
    axes = [space.sizes[axis]] if axis else [1]
    if axis and "normalise" in VECTORS[vector.kind].steps:
        axes = even_pieces(space.sizes[axis]).tolist()
    orders = list(permutations(range(len(ranks)))) if len(ranks) <= _FEW else [range(len(ranks))]
    families = []
    for sizes in ([axes[-1]], axes[:-1]):
        if not sizes:
            continue
        tiles = [ints(1) for _ in outer]
        tiles += [ints(sizes).reshape(1, -1)] if axis else []
        places = tuple(
            ints([order[at] for order in orders]).reshape(-1, 1) for at in range(len(ranks))
        )
        loops = FamilyLoops(tuple(ranks), tuple(tiles), places)
        in_place = op.inputs[0].ranks == op.output.ranks
        names = list(dict.fromkeys([*op.names] if in_place else [*op.names, op.output.name]))
        aliases = aliases_of(space, tuple(Keep(name) for name in names), ())
        keeps = tuple(Keep(name, BUFFER, ints(1)) for name in names)
        families.append(Family(space, (loops, *keeps, Do(op.name, SFU)), aliases))
    return of_families(group, families)
