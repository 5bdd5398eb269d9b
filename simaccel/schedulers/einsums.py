"""Einsums and vector operators on their own: families of trees on a systolic array."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from simaccel.analytic.family import Branch, Family, FamilyKeep, FamilyLoops, Ints, ints
from simaccel.errors import SimaccelError
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.space import BoundOperator, IterationSpace, joined, mergeable, space_of
from simaccel.mapping.tree import BUFFER, Do, Group, Keep
from simaccel.schedulers.accounts import unnoted
from simaccel.schedulers.candidates import CandidateSet, NothingFitsError, ScoredTree
from simaccel.schedulers.canonical import NameList, Names, key_of, names_of, renamed
from simaccel.schedulers.core_cuts import Families, on_cores
from simaccel.schedulers.search import Goal, floored, search
from simaccel.schedulers.sizes import filling, tile_sizes
from simaccel.workload import Vector, Workload
from simaccel.workload.matmul import Part, part_of
from simaccel.workload.vectors import VECTORS

SLOTS = (2, 3, 1)
Merged = Mapping[str, tuple[str, ...]]


class NotMappableError(SimaccelError):
    """A dataflow doesn't take an operator of the workload; the message says which and why."""


@dataclass(frozen=True)
class RankRoles:
    """The ranks of an einsum by what they play on a systolic array, those of size 1 left out."""

    g: tuple[str, ...]
    m: tuple[str, ...]
    k: tuple[str, ...]
    n: tuple[str, ...]


def roles(space: IterationSpace, seen: BoundOperator) -> RankRoles:
    """Return which ranks play g, m, k and n.

    Raises:
        NotMappableError: the einsum is none that a systolic array folds.

    """
    name = f"operator {seen.name}"
    if len(seen.inputs) != 2:  # noqa: PLR2004 - a systolic array multiplies two
        raise NotMappableError(
            f"{name}: a systolic array multiplies two tensors, not {len(seen.inputs)}"
        )
    tensors = [view.names for _, view in seen.uses]
    by_part: dict[Part, list[str]] = {"g": [], "m": [], "k": [], "n": []}
    for rank in seen.ranks:
        if space.sizes[rank] == 1:
            continue
        part = part_of(rank, tensors)
        if part is None:
            raise NotMappableError(f"{name}: rank {rank} is in one of its tensors only")
        by_part[part].append(rank)
    if not (by_part["m"] or by_part["k"] or by_part["n"]) and by_part["g"]:
        raise NotMappableError(
            f"{name}: an elementwise product is no work for a systolic array; write it as a vector "
            f"operator of kind product"
        )
    return RankRoles(*(tuple(ranks) for ranks in by_part.values()))


def tilings(space: IterationSpace, ranks: tuple[str, ...], side: int) -> list[dict[str, int]]:
    """Return tiles of ranks that play one part: outer ones are cut first, inner ones stay whole."""
    tiles: list[dict[str, int]] = []
    for at, rank in enumerate(ranks):
        outer = dict.fromkeys(ranks[:at], 1)
        inner = {outer_rank: space.sizes[outer_rank] for outer_rank in ranks[at + 1 :]}
        whole = math.prod(inner.values())
        sizes = tile_sizes(space.sizes[rank], max(1, -(-side // whole)))
        if whole > 1:
            sizes = sorted({*sizes, *filling(space.sizes[rank], whole, side)})
        tiles += [{**outer, rank: size, **inner} for size in sizes]
    unique = {tuple(sorted(tiling.items())): tiling for tiling in tiles}
    return list(unique.values()) or [{}]


def einsum_families(
    space: IterationSpace,
    seen: BoundOperator,
    accelerator: Accelerator,
    *,
    kept: Sequence[str] = (),
    slots: Sequence[int] = SLOTS,
) -> list[Family]:
    """Return every order, stationarity and tile size; ``kept`` tensors are around the group."""
    parts = roles(space, seen)
    array = accelerator.systolic
    side = max(1, min(array.rows, array.cols))
    options = [tilings(space, ranks, side) for ranks in (parts.m, parts.k, parts.n)]
    ranks = (*parts.m, *parts.k, *parts.n)
    orders = np.array(list(permutations(range(3))), dtype=np.int64)
    tiles: dict[str, Ints] = {}
    places: dict[str, Ints] = {}
    for axis, (part, choices) in enumerate(zip((parts.m, parts.k, parts.n), options, strict=True)):
        shape = [1] * 6
        shape[3 + axis] = len(choices)
        for number, rank in enumerate(part):
            tiles[rank] = ints([choice[rank] for choice in choices]).reshape(shape)
            places[rank] = (orders[:, axis] * len(ranks) + number).reshape(-1, 1, 1, 1, 1)
    slot = ints(list(slots)).reshape(1, -1, 1, 1, 1)
    outer: Branch = ()
    if parts.g:
        ones = tuple(ints(1) for _ in parts.g)
        outer = (FamilyLoops(parts.g, ones, tuple(ints(at) for at in range(len(parts.g)))),)
    loops = FamilyLoops(ranks, tuple(tiles[r] for r in ranks), tuple(places[r] for r in ranks))
    names = dict.fromkeys((*seen.names, seen.output.name))
    keeps = tuple(
        FamilyKeep(tensor, BUFFER, slot) for tensor in names if tensor.partition("#")[0] not in kept
    )
    around = tuple(Keep(name) for name in kept)
    held = ints(range(len(STATIONARITIES))).reshape(-1, 1, 1, 1, 1, 1)
    branch = (*outer, loops, *keeps, Do(seen.name, "array", STATIONARITIES[0]))
    return [Family(space, branch, {}, around, {seen.name: held})]


def vector_families(
    space: IterationSpace,
    seen: BoundOperator,
    vector: Vector,
    accelerator: Accelerator,
    *,
    rows: int | None = None,
    kept: Sequence[str] = (),
    over: bool = False,
) -> Iterator[Family]:
    """Yield blocks of rows of a vector operator; where its axis may be cut, in two kinds.

    ``kept`` tensors are around the group; ``over``: the output takes the place of the first input,
    which is one of them.
    """
    axis = space.axes.get(seen.name)
    outer = [rank for rank in seen.ranks if rank != axis and rank in seen.output.names]
    inner = outer.pop() if outer else None
    array = accelerator.array
    heights = [1]
    if inner is not None:
        most = space.sizes[inner]
        heights = [min(rows, most)] if rows else tile_sizes(most, array.rows)
        heights = sorted({*heights, 1})
    widths = widths_of(space, seen, vector, accelerator)
    in_place = seen.inputs[0].ranks == seen.output.ranks
    if {seen.names[0], seen.output.name} & set(kept):
        in_place = over
    names = [*seen.names] if in_place else [*seen.names, seen.output.name]
    names = [tensor for tensor in names if tensor.partition("#")[0] not in kept]
    around = tuple(Keep(tensor) for tensor in kept)
    slots = ints([1, 2, 3]).reshape(-1, 1, 1)
    for part in ([widths[0]], widths[1:]):
        if not part:
            continue
        ranks = [*outer, *([inner] if inner else []), *([axis] if axis else [])]
        tiles = [ints(1) for _ in outer]
        tiles += [ints(heights).reshape(1, -1, 1)] if inner else []
        tiles += [ints(part).reshape(1, 1, -1)] if axis else []
        loops = FamilyLoops(tuple(ranks), tuple(tiles), tuple(ints(at) for at in range(len(ranks))))
        keeps = tuple(FamilyKeep(name, BUFFER, slots) for name in dict.fromkeys(names))
        aliases = {seen.output.name: seen.names[0]} if in_place else {}
        yield Family(space, (loops, *keeps, Do(seen.name, "sfu")), aliases, around)


def widths_of(
    space: IterationSpace, seen: BoundOperator, vector: Vector, accelerator: Accelerator
) -> list[int]:
    """Return the sizes of an axis's pieces, the largest first: all of it, and if it may be cut.

    Cut, it takes a pass for statistics and one to normalise, where a whole row takes three.
    """
    axis = space.axes.get(seen.name)
    if not axis:
        return [1]
    some = tile_sizes(space.sizes[axis], accelerator.array.cols)[-2::-1]
    return [space.sizes[axis], *(some if "statistics" in VECTORS[vector.kind].steps else [])]


def row_merges(vector: Vector) -> dict[str, tuple[str, ...]]:
    """Return the ranks of rows that a vector operator sees as one: all before the last.

    Without an axis all of them are one.
    """
    rows = tuple(rank for rank in vector.input.ranks if rank != vector.axis)
    together = rows[:-1] if vector.axis else rows
    if len(together) < 2 or any(  # noqa: PLR2004 - one rank is one already
        set(operand.ranks) != set(vector.ranks) or not operand.is_unit
        for operand in (*vector.inputs, vector.output)
    ):
        return {}
    return {joined(together): together}


@dataclass
class OperatorCandidateSet:
    """The candidates of one operator, and the names under which they were made."""

    group: Group
    made: Group
    """The group of the operator that they were made for."""
    families: Sequence[Family]
    """Of one core."""
    pieces: Callable[[], CandidateSet]
    """Makes the grid: all candidates of these families, and of those of pieces for cores."""
    goal: Goal
    names: Names
    known: dict[object, Any]
    """What is known of operators that are alike: the grid, and what was found in some room."""

    @property
    def smallest(self) -> int:
        """Buffer bytes of the smallest candidate."""
        return self.candidates.smallest

    @property
    def candidates(self) -> CandidateSet:
        """The grid: all candidates."""
        if "grid" not in self.known:
            self.known["grid"] = self.pieces()
        found: CandidateSet = self.known["grid"]
        return found

    def fastest(self, held_bytes: int = 0, limit: float = float("inf")) -> ScoredTree | None:
        """Return the best of all beside ``held_bytes`` of the buffer; None if nothing fits.

        What is not below ``limit`` may be missing.
        """
        scored = self._found(held_bytes, limit)
        if scored is None:
            goal = replace(self.goal, held_bytes=held_bytes)
            name = "kept" if self.families[0].around else "alone"
            searched = search(self.candidates, goal, limit, name)
            if searched.best is not None:
                self.goal.note(floored(searched.account, self.candidates, goal))
            scored = self.found[held_bytes] = searched.settled(goal.room, limit), limit
        best, _ = scored
        if best is None:
            return None
        best = replace(best, tree=renamed(best.tree, self.names))
        self.goal.trades.note((replace(self.group, tree=best.tree),), best)
        return best

    @property
    def found(self) -> dict[int, tuple[ScoredTree | None, float]]:
        """The best, or nothing below a limit, by the bytes of the buffer that were taken."""
        found: dict[int, tuple[ScoredTree | None, float]] = self.known.setdefault("found", {})
        return found

    def _found(self, held_bytes: int, limit: float) -> tuple[ScoredTree | None, float] | None:
        """Return what was found: also beside fewer bytes, where the best of that fits here."""
        room = self.goal.room - held_bytes
        for taken in sorted(self.found, reverse=True):
            best, below = self.found[taken]
            if taken > held_bytes:
                continue
            if best is None and below >= limit:
                return best, below
            if best is not None and (taken == held_bytes or best.buffer_bytes <= room):
                return best, below
        return None


class TreeSearch:
    """Best trees of single operators on one accelerator; those that are alike are searched once."""

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self._seen: dict[object, tuple[NameList, OperatorCandidateSet]] = {}

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that operators are mapped on."""
        return self.goal.accelerator

    def quiet(self) -> TreeSearch:
        """Return the same search, with what is known, that tells nobody of what it does."""
        found = copy(self)
        found.goal = replace(self.goal, note=unnoted)
        return found

    def on_one_core(self) -> TreeSearch:
        """Return the same search, with what is known, that leaves other cores idle."""
        found = copy(self)
        found.goal = replace(self.goal, is_spread=False)
        return found

    def einsum(
        self,
        workload: Workload,
        name: str,
        kept: Sequence[str] = (),
        merged: Merged | None = None,
    ) -> OperatorCandidateSet:
        """Return an einsum's candidates; ``kept`` tensors are around the group.

        ``merged``: ranks to be seen as one, where not all that can be.

        Raises:
            NotMappableError: the einsum is none that a systolic array folds.

        """
        if merged is None:
            merged = mergeable(workload, [name])
        group = Group(operators=(name,), tree=(), merged=merged)
        space = space_of(workload, group)
        seen = space.seen(name)
        return self.known(
            group,
            space,
            kept,
            lambda space: einsum_families(space, seen, self.accelerator, kept=kept),
        )

    def vector(
        self,
        workload: Workload,
        name: str,
        rows: int | None = None,
        merged: Merged | None = None,
        kept: Sequence[str] = (),
        *,
        over: bool = False,
    ) -> OperatorCandidateSet:
        """Return a vector operator's candidates; ``rows`` fixes the height of its blocks.

        ``kept`` and ``over`` as of `vector_families`.
        """
        operator = workload.operator(name)
        assert isinstance(operator, Vector)  # noqa: S101 - callers have looked
        if merged is None:
            merged = row_merges(operator) or mergeable(workload, [name])
        group = Group(operators=(name,), tree=(), merged=merged)
        space = space_of(workload, group)
        seen = space.seen(name)
        return self.known(
            group,
            space,
            kept,
            lambda space: list(
                vector_families(
                    space, seen, operator, self.accelerator, rows=rows, kept=kept, over=over
                )
            ),
            (rows, over),
        )

    def known(
        self,
        group: Group,
        space: IterationSpace,
        kept: Sequence[str],
        families: Families,
        more: object = (),
    ) -> OperatorCandidateSet:
        """Return a group's candidates, those of one that is mapped alike where it is known.

        ``more``: what else decides the families, beside the operators and what is kept around;
        where something is, cores have no pieces.
        """
        names, goal = names_of(space.operators), self.goal
        ranks = [name for kind, name in names if kind == "rank"]
        # what is asked of ranks goes by their names
        key = (key_of(space, kept), more, tuple(ranks) if goal.asked else (), goal.is_spread)
        if key not in self._seen:
            on = replace(goal, is_spread=goal.is_spread and not kept)
            self._seen[key] = (
                names,
                OperatorCandidateSet(
                    group,
                    group,
                    families(space),
                    lambda: on_cores(group, space, on, families),
                    goal,
                    {},
                    {},
                ),
            )
        first, found = self._seen[key]
        new = dict(zip(first, (name for _, name in names), strict=True))
        return replace(found, group=group, goal=goal, names=new)

    def one(self, workload: Workload, name: str) -> OperatorCandidateSet:
        """Return the candidates of an operator on its own; errors as of ``einsum``."""
        is_vector = isinstance(workload.operator(name), Vector)
        return (self.vector if is_vector else self.einsum)(workload, name)

    def fastest(self, workload: Workload, name: str) -> tuple[Group, ScoredTree]:
        """Return an operator's group, and its best tree with its figures.

        Raises:
            NotMappableError: the array can't do the operator.
            NothingFitsError: not even the smallest tiles with one slot each fit.

        """
        searched = self.one(workload, name)
        best = searched.fastest(self.goal.held_bytes)
        if best is None:
            raise NothingFitsError(
                f"{name}: no tiling fits the buffer of {self.goal.room} B; the smallest that was "
                f"tried needs {searched.smallest} B"
            )
        return searched.group, best

    def group(self, workload: Workload, name: str) -> Group:
        """Return an operator's group with its best tree; errors as of ``fastest``."""
        group, best = self.fastest(workload, name)
        return replace(group, tree=best.tree)
