"""Chains of operators, fused by the rows that they share: intermediates never leave the chip.

All operators of a chain process one block of rows before the next block begins. An intermediate has
all its columns on chip, as a row of S has in FLAT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from simaccel.analytic.family import Branch, Entry, Family, FamilyLoops, Ints, ints, take
from simaccel.analytic.family import tree_of as tree_of_one
from simaccel.errors import SimaccelError
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.space import BoundOperator, IterationSpace, aliases_of, mergeable, space_of
from simaccel.mapping.structure import fusion_faults
from simaccel.mapping.tree import BUFFER, Do, Fork, Group, Keep
from simaccel.search.sizes import nested_loops, tile_sizes
from simaccel.units import ARRAY, SFU
from simaccel.workload import Einsum, Workload

_INPUTS = 2
_MANY = 2
"""Einsums of a chain up to which stationarities vary independently and all tile sizes are tried."""


@dataclass(frozen=True)
class OperatorChain:
    """Consecutive operators, each but the first reading an output of another of them.

    ``rows``: ranks that all operators have and none reduces or normalises over; sliding windows are
    excluded, as their blocks would overlap. ``between``: tensors that only these operators use.
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
    boxes = [
        operand.tensor
        for bound in space.operators
        for operand in bound.operator.inputs
        if operand.start
    ]
    if any(len(space.read[name]) > 1 for name in boxes):
        return None  # a tile that several read begins at one place
    rows = tuple(
        rank
        for rank in space.sizes
        if all(rank in bound.ranks and rank in bound.output.names for bound in space.operators)
        and rank not in space.axes.values()
    )
    first = space.operators[0]
    order = [rank for rank in first.ranks if rank in rows]
    return OperatorChain(group, space, tuple(order), between) if order else None


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
    branch, held = _whole(chain, accelerator)
    family = Family(chain.space, branch, {}, held=held)
    first = take(family, tuple(ints(0) for _ in family.shape))
    return replace(family, aliases=aliases_of(chain.space, tree_of_one(first), ()))


class _Grid:
    """Arrays of numbers, each along an axis of its own."""

    def __init__(self) -> None:
        self.next = count()

    def axis(self, values: Sequence[int]) -> Ints:
        """Return values along a new axis; it is numbered from the last."""
        return ints(list(values)).reshape(-1, *(1 for _ in range(next(self.next))))


def _row_blocks(chain: OperatorChain, grid: _Grid, accelerator: Accelerator) -> list[FamilyLoops]:
    every = int(np.prod([chain.space.sizes[rank] for rank in chain.rows]))
    return nested_loops(
        chain.space, chain.rows, grid.axis(tile_sizes(every, accelerator.array.rows))
    )


def _whole(chain: OperatorChain, accelerator: Accelerator) -> tuple[Branch, dict[str, Ints]]:
    """Return the trees of a chain, and what the array holds in each."""
    grid, space = _Grid(), chain.space
    slots = grid.axis([2, 1])
    outer: list[Entry] = [*_row_blocks(chain, grid, accelerator)]
    shared = _shared_inputs(chain)
    outer += [Keep(name, BUFFER, slots) for name in shared]
    outer += [Keep(name, BUFFER, ints(1)) for name in _kept_intermediates(chain)]
    branches: list[Branch] = []
    einsums = [operator for operator in space.operators if isinstance(operator.operator, Einsum)]
    few = len(einsums) > _MANY
    every = grid.axis(range(len(STATIONARITIES)))
    held = {einsum.name: every for einsum in einsums}
    for seen in space.operators:
        own = [rank for rank in seen.ranks if rank not in chain.rows]
        keeps = [Keep(name, BUFFER, slots) for name in _outer_tensors(chain, seen, shared)]
        if not isinstance(seen.operator, Einsum):
            branches.append((*keeps, Do(seen.name, SFU)))
            continue
        if not few:
            held[seen.name] = grid.axis(range(len(STATIONARITIES)))
        columns = [rank for rank in own if rank in seen.output.names and rank in space.sizes]
        sums = [rank for rank in own if rank in seen.reduced]
        out = [keep for keep in keeps if keep.tensor == seen.output.name]
        weights = [keep for keep in keeps if keep.tensor != seen.output.name]
        branches.append(
            (
                *_cut_loops(chain, grid.axis, columns, accelerator, few=few),
                *out,
                *_cut_loops(chain, grid.axis, sums, accelerator, few=few),
                *weights,
                Do(seen.name, ARRAY, STATIONARITIES[0]),
            )
        )
    return (*outer, Fork(tuple(branches))), held


def _cut_loops(
    chain: OperatorChain,
    axis: Callable[[Sequence[int]], Ints],
    ranks: Sequence[str],
    accelerator: Accelerator,
    *,
    few: bool,
) -> list[FamilyLoops]:
    """Return loops over ranks of one operator alone, with four or with two sizes."""
    every = int(np.prod([chain.space.sizes[rank] for rank in ranks]))
    if every == 1:
        return []
    sizes = tile_sizes(every, accelerator.array.cols)
    step = max(1, len(sizes) // (1 if few else 3))
    return nested_loops(chain.space, ranks, axis(sorted({*sizes[::step], every})))


def _shared_inputs(chain: OperatorChain) -> list[str]:
    """Return the inputs from outside that have rows; their tiles are around all operators."""
    return list(
        dict.fromkeys(
            name
            for seen in chain.space.operators
            for name, view in seen.uses[:-1]
            if view.name not in chain.space.made and view.names & set(chain.rows)
        )
    )


def _outer_tensors(chain: OperatorChain, seen: BoundOperator, shared: Sequence[str]) -> list[str]:
    """Return the tensors that an operator alone loads or stores."""
    return list(
        dict.fromkeys(
            name
            for name, view in seen.uses
            if view.name not in chain.between and name not in shared
        )
    )


def _kept_intermediates(chain: OperatorChain) -> list[str]:
    """Return the intermediates with tiles of their own: those that aren't made in place."""
    made = (seen for seen in chain.space.operators if seen.output.name in chain.between)
    return [seen.output.name for seen in made if not made_in_place(chain, seen)]


def made_in_place(chain: OperatorChain, seen: BoundOperator) -> bool:
    """Return whether an operator may overwrite its first input, which no later operator reads."""
    source = seen.inputs[0]
    return (
        not isinstance(seen.operator, Einsum)
        and source.name in chain.between
        and source.ranks == seen.output.ranks
        and chain.space.read[source.name][-1] == seen.name
    )
