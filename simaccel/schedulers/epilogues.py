"""Epilogues: vector operators that are fused with an einsum and follow it tile by tile.

As in compilers, a bias, an activation or a residual is applied to each output tile once its sums
are complete. The intermediates never leave the chip, nor are they ever whole on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from simaccel.analytic.family import Branch, Family, FamilyLoops, Ints, ints, take, tree_of
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.space import IterationSpace, aliases_of
from simaccel.mapping.tree import BUFFER, Do, Fork, Keep
from simaccel.schedulers.chains import OperatorChain, chain_of, made_in_place
from simaccel.schedulers.einsums import RankRoles, batch_loops, roles, tiles_by_rank
from simaccel.schedulers.group_search import GroupSearch
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.core_cuts import on_cores
from simaccel.units import ARRAY, SFU
from simaccel.workload import Vector, Workload
from simaccel.workload.names import tensor_of

LONGEST = 8
"""Most vector operators of an epilogue."""


def epilogue(workload: Workload, names: Sequence[str]) -> OperatorChain | None:
    """Return an einsum with the elementwise operators after it as a chain; None if they are none.

    An einsum whose output has a dimension made of several ranks (tokens in groups) has no epilogue:
    over chips it is cut along one of these ranks, where later operators have a single rank for the
    dimension.
    """
    others = [workload.operator(name) for name in names[1:]]
    if not all(isinstance(after, Vector) and not after.axis for after in others):
        return None
    if any(len(dim.terms) > 1 for dim in workload.operator(names[0]).output.projection):
        return None
    chain = chain_of(workload, names) if others else None
    return chain if chain is not None and is_epilogue(chain) else None


def is_epilogue(chain: OperatorChain) -> bool:
    """Return whether a chain is an einsum followed by elementwise operators on its output."""
    first, *others = chain.space.operators
    vectors = [isinstance(one.operator, Vector) for one in (first, *others)]
    if vectors[0] or not all(vectors[1:]):
        return False
    alike = all(set(one.ranks) == first.output.names for one in others)
    return alike and first.output.names == set(chain.rows)


def chains(workload: Workload) -> dict[str, OperatorChain]:
    """Return each einsum with its longest epilogue, by the einsum's name."""
    known: dict[str, OperatorChain] = {}
    names = [operator.name for operator in workload.operators]
    for at in range(len(names)):
        for stop in range(min(at + 1 + LONGEST, len(names)), at + 1, -1):
            chain = epilogue(workload, names[at:stop])
            if chain is not None:
                known[names[at]] = chain
                break
    return known


def search_epilogue(
    search: TreeSearch, chain: OperatorChain, kept: Sequence[str] = ()
) -> GroupSearch:
    """Return the search for an einsum with its epilogue, while ``kept`` tensors stay on chip."""

    def families(space: IterationSpace) -> list[Family]:
        return families_of(replace(chain, space=space), search.accelerator, kept)

    on = replace(search.goal, is_spread=search.goal.is_spread and not kept)
    return search.group_search(
        chain.group,
        chain.space,
        lambda: [on_cores(chain.group, chain.space, on, families)],
        "epilogue",
        kept,
        label="kept" if kept else "alone",
    )


def families_of(
    chain: OperatorChain, accelerator: Accelerator, kept: Sequence[str] = ()
) -> list[Family]:
    """Return the family of an einsum with its epilogue, empty if the chain is no epilogue.

    The sums of a tile are complete before the epilogue begins. Array axes: stationarity, loop order
    of the output, slots, tiles of m, of k and of n.

    Raises:
        NotMappableError: the einsum is none that a systolic array folds.

    """
    space, first = chain.space, chain.space.operators[0]
    if not is_epilogue(chain):
        return []
    parts = roles(space, first)
    outer, sums = _loops(space, parts, accelerator)
    slots = ints([2, 1]).reshape(1, 1, -1, 1, 1, 1)

    def keeps(names: Iterable[str]) -> list[Keep[Ints]]:
        own = dict.fromkeys(name for name in names if tensor_of(name) not in kept)
        return [Keep(name, BUFFER, slots) for name in own]

    made = [seen.output.name for seen in space.operators if not made_in_place(chain, seen)]
    beside = [name for seen in space.operators[1:] for name in seen.names if name not in space.made]
    own: Branch = (*sums, *keeps(first.names), Do(first.name, ARRAY, STATIONARITIES[0]))
    behind: list[Branch] = [(Do(seen.name, SFU),) for seen in space.operators[1:]]
    branch: Branch = (*outer, *keeps(beside), *keeps(made), Fork((own, *behind)))
    held = ints(range(len(STATIONARITIES))).reshape(-1, 1, 1, 1, 1, 1)
    around = tuple(Keep(name) for name in kept)
    family = Family(space, branch, {}, around, {first.name: held})
    tree = tree_of(take(family, tuple(ints(0) for _ in family.shape)))
    return [replace(family, aliases=aliases_of(space, tree, around))]


def _loops(
    space: IterationSpace, parts: RankRoles, accelerator: Accelerator
) -> tuple[list[FamilyLoops], list[FamilyLoops]]:
    """Return the loops around a tile of the output, and those over its sums."""
    tiles, places = tiles_by_rank(space, parts, accelerator), {}
    count = len((*parts.m, *parts.n))
    for ranks, first in ((parts.m, [0, 1]), (parts.k, [0, 1]), (parts.n, [1, 0])):
        for number, rank in enumerate(ranks):
            places[rank] = ints(first).reshape(1, -1, 1, 1, 1, 1) * count + number

    def loops(ranks: Sequence[str]) -> list[FamilyLoops]:
        every = (tuple(made[rank] for rank in ranks) for made in (tiles, places))
        return [FamilyLoops(tuple(ranks), *every)] if ranks else []

    return [*batch_loops(parts), *loops((*parts.m, *parts.n))], loops(parts.k)
