"""Searches for the best trees of single operators: those that are alike are searched once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from simaccel.analytic.family import Family
from simaccel.hardware import Accelerator
from simaccel.mapping.space import IterationSpace, mergeable, space_of
from simaccel.mapping.tree import Group, Loop, Tree, nodes
from simaccel.schedulers.einsums import (
    Merged,
    einsum_families,
    row_merges,
    vector_families,
)
from simaccel.search.accounts import ignore
from simaccel.search.candidate_set import CandidateSet, ScoredTree
from simaccel.search.canonical import NameList, Names, key_of, names_of, rename_tree
from simaccel.search.core_cuts import Families, on_cores
from simaccel.search.grid_search import Goal, search, with_floor
from simaccel.search.problems import NothingFitsError
from simaccel.workload import Vector, Workload

Value = TypeVar("Value")


@dataclass
class OperatorCandidateSet:
    """The candidates of one operator, and the names under which they were made."""

    group: Group
    families: Sequence[Family]
    """Of one core."""
    pieces: Callable[[], CandidateSet]
    """Makes the grid: all candidates of these families, and of those of pieces for cores."""
    goal: Goal
    names: Names
    known: dict[object, Any]
    """What is known of operators that are alike: the grid, and what was found in some room."""

    @property
    def candidates(self) -> CandidateSet:
        """The grid: all candidates."""
        if "grid" not in self.known:
            self.known["grid"] = self.pieces()
        found: CandidateSet = self.known["grid"]
        return found

    def fastest(self, held_bytes: int = 0, like: Tree = ()) -> ScoredTree | None:
        """Return the best of all beside ``held_bytes`` of the buffer; None if nothing fits.

        ``like``: a tree of the same operator with something else held: what has its tiles runs
        first.
        """
        known = self.known_bytes(held_bytes)
        if known is None:
            goal = replace(self.goal, held_bytes=held_bytes, start=self._start(like))
            name = "kept" if self.families[0].around else "alone"
            searched = search(self.candidates, goal, name=name)
            if searched.best is not None:
                self.goal.note(with_floor(searched.account, self.candidates, goal))
            known, self.found[held_bytes] = held_bytes, searched.settle(goal.room)
        best = self.found[known]
        if best is None:
            return None
        best = replace(best, tree=rename_tree(best.tree, self.names))
        self.goal.trades.note((replace(self.group, tree=best.tree),), best)
        return best

    @property
    def nothing_fits(self) -> NothingFitsError:
        """The error that says what the smallest candidate needs."""
        return NothingFitsError(
            f"{self.group.name}: no tiling fits the buffer of {self.goal.room} B; the smallest "
            f"that was tried needs {self.candidates.smallest} B"
        )

    def _start(self, like: Tree) -> dict[str, int] | None:
        """Return a tree's innermost tiles by rank, in the names that the candidates have."""
        made = {name: old for (kind, old), name in self.names.items() if kind == "rank"}
        loops = [node for node in nodes(like) if isinstance(node, Loop)]
        return {made.get(loop.rank, loop.rank): loop.tile for loop in loops} if like else None

    @property
    def found(self) -> dict[int, ScoredTree | None]:
        """The best, if any fits, by the bytes of the buffer that were taken."""
        found: dict[int, ScoredTree | None] = self.known.setdefault("found", {})
        return found

    def known_bytes(self, held_bytes: int) -> int | None:
        """Return beside which bytes the best was found: so many, or fewer where that fits here."""
        room = self.goal.room - held_bytes
        for taken in sorted(self.found, reverse=True):
            best = self.found[taken]
            fits = best is None or best.buffer_bytes <= room
            if taken == held_bytes or (taken < held_bytes and fits):
                return taken
        return None


EinsumTrees = Callable[..., list[Family]]
"""Returns the trees of an einsum, as `einsum_families`."""


class TreeSearch:
    """Best trees of single operators on one accelerator; those that are alike are searched once.

    ``einsum_trees``: of which an einsum has the best; ``rows``: height of the blocks of vector
    operators, if it is fixed.
    """

    def __init__(
        self,
        goal: Goal,
        einsum_trees: EinsumTrees = einsum_families,
        rows: int | None = None,
    ) -> None:
        self.goal, self.einsum_trees, self.rows = goal, einsum_trees, rows
        self._seen: dict[object, tuple[NameList, OperatorCandidateSet]] = {}
        self._memory: dict[object, Any] = {}

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that operators are mapped on."""
        return self.goal.accelerator

    def recall(self, key: object, make: Callable[[], Value]) -> Value:
        """Return what is known of a group, or of a whole body; made when first asked for."""
        if key not in self._memory:
            self._memory[key] = make()
        known: Value = self._memory[key]
        return known

    def quiet(self) -> TreeSearch:
        """Return the same search with all results so far, without reports of what it does."""
        found = copy(self)
        found.goal = replace(self.goal, note=ignore)
        return found

    def on_one_core(self) -> TreeSearch:
        """Return the same search, with what is known, that leaves other cores idle."""
        found = copy(self)
        found.goal = replace(self.goal, is_spread=False)
        return found

    def operator_candidates(
        self,
        workload: Workload,
        name: str,
        merged: Merged | None = None,
        kept: Sequence[str] = (),
        *,
        over: bool = False,
    ) -> OperatorCandidateSet:
        """Return an operator's candidates; ``kept`` tensors are around the group.

        ``merged``: ranks to be seen as one, where not all that can be; ``over`` as of
        `vector_families`.

        Raises:
            NotMappableError: the operator is an einsum that no systolic array folds.

        """
        operator = workload.operator(name)
        if merged is None:
            by_rows = row_merges(operator) if isinstance(operator, Vector) else {}
            merged = by_rows or mergeable(workload, [name])
        group = Group(operators=(name,), tree=(), merged=merged)
        space = space_of(workload, group)
        seen = space.bound_operator(name)

        def families(space: IterationSpace) -> list[Family]:
            if not isinstance(operator, Vector):
                return self.einsum_trees(space, seen, self.accelerator, kept=kept)
            return list(
                vector_families(
                    space, seen, operator, self.accelerator, rows=self.rows, kept=kept, over=over
                )
            )

        return self.known_candidates(
            group, space, kept, families, over and isinstance(operator, Vector)
        )

    def known_candidates(
        self,
        group: Group,
        space: IterationSpace,
        kept: Sequence[str],
        families: Families,
        more: object = (),
    ) -> OperatorCandidateSet:
        """Return a group's candidates, those of one that is mapped alike where it is known.

        ``more``: what else decides the families, beside the operators and what is kept around;
        where something is kept, cores have no pieces.
        """
        names, goal = names_of(space.operators), self.goal
        ranks = [name for kind, name in names if kind == "rank"]
        # what is asked of ranks goes by their names
        key = (key_of(space, kept), more, tuple(ranks) if goal.asked else (), goal.is_shared)
        if key not in self._seen:
            on = replace(goal, is_spread=goal.is_spread and not kept)
            self._seen[key] = (
                names,
                OperatorCandidateSet(
                    group,
                    families(space),
                    lambda: on_cores(group, space, on, families),
                    goal,
                    {},
                    {},
                ),
            )
        first, known = self._seen[key]
        new = dict(zip(first, (name for _, name in names), strict=True))
        return replace(known, group=group, goal=goal, names=new)

    def fastest(self, workload: Workload, name: str) -> tuple[Group, ScoredTree]:
        """Return an operator's group, and its best tree with its figures.

        Raises:
            NotMappableError: the array can't do the operator.
            NothingFitsError: not even the smallest tiles with one slot each fit.

        """
        searched = self.operator_candidates(workload, name)
        best = searched.fastest(self.goal.held_bytes)
        if best is None:
            raise searched.nothing_fits
        return searched.group, best

    def group(self, workload: Workload, name: str) -> Group:
        """Return an operator's group with its best tree; errors as of ``fastest``."""
        searched = self.operator_candidates(workload, name)
        if len(searched.candidates) == len(searched.candidates.fitting(self.goal.room)) == 1:
            tree = rename_tree(searched.candidates.tree(0), searched.names)  # nothing to choose
            return replace(searched.group, tree=tree)
        group, best = self.fastest(workload, name)
        return replace(group, tree=best.tree)
