"""Chains of operators, fused by the rows that they share: intermediates never leave the chip.

All operators of a chain process one block of rows before the next block begins. An intermediate has
all its columns on chip, as a row of S has in FLAT.

An epilogue is a chain of an einsum and vector operators that follow it tile by tile. As in
compilers, a bias, an activation or a residual is applied to each output tile once its sums are
complete. There the intermediates are never whole on the chip, either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from simaccel.analytic.family import Branch, Family, FamilyLoops, Ints, ints, take, tree_of
from simaccel.errors import SimaccelError
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.space import BoundOperator, IterationSpace, aliases_of, mergeable, space_of
from simaccel.mapping.structure import fusion_faults
from simaccel.mapping.tree import BUFFER, Do, Fork, Group, Keep
from simaccel.mapping.view import TensorView, transposed_ranks
from simaccel.schedulers.einsums import RankRoles, batch_loops, roles, tiles_by_rank
from simaccel.schedulers.group_search import GroupSearch
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.neighbours import nested_loops, tile_sizes
from simaccel.units import ARRAY, SFU
from simaccel.workload import Einsum, Vector, Workload
from simaccel.workload.names import tensor_of

_INPUTS = 2
_MANY = 2
"""Einsums of a chain up to which stationarities vary independently and all tile sizes are tried."""


@dataclass(frozen=True)
class OperatorChain:
    """Consecutive operators, each but the first reading an output of another of them.

    ``rows``: ranks that all operators have and none reduces or normalises over; sliding windows are
    excluded, as their blocks would overlap, and what an intermediate is made but not read in.
    ``between``: tensors that only these operators use.
    """

    group: Group
    space: IterationSpace
    rows: tuple[str, ...]
    between: frozenset[str]


def chain_of(workload: Workload, names: Sequence[str]) -> OperatorChain | None:
    """Return operators as a chain; None if they don't form one or have no rows in common."""
    try:
        merged = mergeable(workload, names)
        group = Group(operators=tuple(names), tree=(), merged=merged)
        space = space_of(workload, group)
    except SimaccelError:
        return None
    if fusion_faults(workload, group):
        return None
    between = frozenset(set(space.made) - space.escapes)
    linked = all(any(view.name in between for view in view.inputs) for view in space.operators[1:])
    einsums = [operator for operator in space.operators if isinstance(operator.operator, Einsum)]
    if not linked or any(len(einsum.inputs) != _INPUTS for einsum in einsums):
        return None
    if any(name in space.escapes for name in space.made if name in space.read):
        return None
    inputs = (operand for bound in space.operators for operand in bound.operator.inputs)
    if any(operand.start and len(space.read[operand.tensor]) > 1 for operand in inputs):
        return None  # a tile that several read begins at one place
    rows = tuple(
        rank
        for rank in space.sizes
        if all(rank in bound.ranks and rank in bound.output.names for bound in space.operators)
        and rank not in space.axes.values()
        and rank not in _ranks_read_otherwise(space)
    )
    first = space.operators[0]
    order = [rank for rank in first.ranks if rank in rows]
    return OperatorChain(group, space, tuple(order), between) if order else None


def _ranks_read_otherwise(space: IterationSpace) -> set[str]:
    """Return the ranks whose blocks are not the same part of a tensor to all that use it.

    A dimension is made in them and read in others, or they stand in different dimensions.
    """
    made = {op.output.name: space.plain(op.output).terms for op in space.operators}
    views = [space.plain(view) for op in space.operators for _, view in op.uses]
    otherwise = {
        rank
        for view in views
        for own, read in zip(made.get(view.name, view.terms), view.terms, strict=True)
        if own != read
        for rank, _ in own
    }
    return otherwise | transposed_ranks(views)


def fusion_fault(workload: Workload, names: Sequence[str]) -> str:
    """Return why no tree fuses operators of which the last reads outputs of the others.

    Empty if some tree does, or if already a shorter part of them can't be fused.
    """
    why = _reason_apart(workload, names)
    shorter = (names[1:], names[:-1]) if len(names) > 2 else ()  # noqa: PLR2004 - a pair
    return "" if any(_reason_apart(workload, some) for some in shorter) else why


def _reason_apart(workload: Workload, names: Sequence[str]) -> str:
    made = {workload.operator(name).output.tensor for name in names[:-1]}
    if not made & {given.tensor for given in workload.operator(names[-1]).inputs}:
        return ""
    group = Group(operators=tuple(names), tree=())
    findings = (allowed for _, _, allowed in fusion_faults(workload, group))
    return next(findings, "").removeprefix("another group: ")


def chain_family(chain: OperatorChain, accelerator: Accelerator) -> Family:
    """Return the candidate trees of a chain as one family."""
    numbers, space = count(), chain.space

    def axis(values: Iterable[int]) -> Ints:
        """Return values along a new array axis; axes are numbered from the last."""
        return ints(list(values)).reshape(-1, *(1,) * next(numbers))

    slots = axis([2, 1])
    every = math.prod(space.sizes[rank] for rank in chain.rows)
    rows = nested_loops(space, chain.rows, axis(tile_sizes(every, accelerator.array.rows)))
    outside = [use for op in space.operators for use in op.uses[:-1]]
    parts: dict[str, set[TensorView]] = {}
    for name, view in outside:
        parts.setdefault(name, set()).add(view)
    shared = dict.fromkeys(
        name
        for name, view in outside
        if view.name not in space.made and view.names & set(chain.rows) and len(parts[name]) == 1
    )
    made = (op for op in space.operators if op.output.name in chain.between)
    kept = [op.output.name for op in made if not made_in_place(chain, op)]
    branches: list[Branch] = []
    einsums = [operator for operator in space.operators if isinstance(operator.operator, Einsum)]
    few = len(einsums) > _MANY
    kinds = range(len(STATIONARITIES))
    held = dict.fromkeys([einsum.name for einsum in einsums], axis(kinds))
    for op in space.operators:
        own = [name for name, view in op.uses if view.name not in chain.between]
        keeps = [Keep(name, BUFFER, slots) for name in dict.fromkeys(own) if name not in shared]
        if not isinstance(op.operator, Einsum):
            branches.append((*keeps, Do(op.name, SFU)))
            continue
        if not few:
            held[op.name] = axis(kinds)
        branches.append(_einsum_branch(chain, op, keeps, axis, accelerator, few=few))
    branch: Branch = (
        *rows,
        *(Keep(name, BUFFER, slots) for name in shared),
        *(Keep(name, BUFFER, ints(1)) for name in kept),
        Fork(tuple(branches)),
    )
    return _with_aliases(Family(space, branch, {}, held=held))


def _with_aliases(family: Family) -> Family:
    """Return a family with the tensors that are written in place, which are those of any tree."""
    tree = tree_of(take(family, tuple(ints(0) for _ in family.shape)))
    return replace(family, aliases=aliases_of(family.space, tree, family.around))


def _einsum_branch(
    chain: OperatorChain,
    op: BoundOperator,
    keeps: Sequence[Keep[Ints]],
    axis: Callable[[Iterable[int]], Ints],
    accelerator: Accelerator,
    *,
    few: bool,
) -> Branch:
    """Return the branch of one einsum; the sums of a tile are complete before the next begins.

    Loops over ranks of its own have four sizes, or two if ``few``.
    """

    def loops(ranks: Sequence[str]) -> list[FamilyLoops]:
        every = math.prod(chain.space.sizes[rank] for rank in ranks)
        if every == 1:
            return []
        sizes = tile_sizes(every, accelerator.array.cols)
        step = max(1, len(sizes) // (1 if few else 3))
        return nested_loops(chain.space, ranks, axis(sorted({*sizes[::step], every})))

    own = [rank for rank in op.ranks if rank not in chain.rows]
    columns = loops([r for r in own if r in op.output.names and r in chain.space.sizes])
    sums = loops([rank for rank in own if rank in op.reduced])
    out = [keep for keep in keeps if keep.tensor == op.output.name]
    weights = [keep for keep in keeps if keep.tensor != op.output.name]
    return (*columns, *out, *sums, *weights, Do(op.name, ARRAY, STATIONARITIES[0]))


def made_in_place(chain: OperatorChain, op: BoundOperator) -> bool:
    """Return whether an operator may overwrite its first input, which no later operator reads."""
    source = op.inputs[0]
    return (
        not isinstance(op.operator, Einsum)
        and source.name in chain.between
        and source.ranks == op.output.ranks
        and chain.space.read[source.name][-1] == op.name
    )


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


def longest_epilogues(workload: Workload) -> dict[str, OperatorChain]:
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

    def families(space: IterationSpace) -> list[list[Family]]:
        return [families_of(replace(chain, space=space), search.accelerator, kept)]

    return search.group_search(chain.group, chain.space, families, "epilogue", kept)


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

    made = [op.output.name for op in space.operators if not made_in_place(chain, op)]
    beside = [
        name
        for op in space.operators[1:]
        for name in op.names
        if name not in space.made and name not in first.names
    ]
    own: Branch = (*sums, *keeps(first.names), Do(first.name, ARRAY, STATIONARITIES[0]))
    behind: list[Branch] = [  # of what the einsum reads, vector operators read other parts
        (*keeps(name for name in op.names if name in first.names), Do(op.name, SFU))
        for op in space.operators[1:]
    ]
    branch: Branch = (*outer, *keeps(beside), *keeps(made), Fork((own, *behind)))
    held = ints(range(len(STATIONARITIES))).reshape(-1, 1, 1, 1, 1, 1)
    around = tuple(Keep(name) for name in kept)
    return [_with_aliases(Family(space, branch, {}, around, {first.name: held}))]


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
