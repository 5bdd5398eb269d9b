"""Searches for the best trees of single operators; identical operators are searched once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from simaccel.analytic.family import Family
from simaccel.hardware import Accelerator
from simaccel.mapping.space import IterationSpace, mergeable, space_of
from simaccel.mapping.tree import Group
from simaccel.schedulers.einsums import (
    Merged,
    einsum_families,
    row_merges,
    vector_families,
)
from simaccel.schedulers.group_search import GroupSearch, SharedSearch
from simaccel.search.accounts import ignore
from simaccel.search.canonical import key_of, names_of, rename_tree
from simaccel.search.core_cuts import Families, grids_on_cores
from simaccel.search.goal import Goal
from simaccel.search.judge import ScoredTree
from simaccel.workload import Vector, Workload

Value = TypeVar("Value")
EinsumTrees = Callable[..., list[Family]]
"""Returns the candidate trees of an einsum, as `einsum_families` does."""


class TreeSearch:
    """Best trees of single operators on one accelerator; identical operators are searched once.

    ``einsum_trees``: makes the candidates of an einsum. ``rows``: the height of vector operators'
    blocks, if it is fixed.
    """

    def __init__(
        self,
        goal: Goal,
        einsum_trees: EinsumTrees = einsum_families,
        rows: int | None = None,
    ) -> None:
        self.goal, self.einsum_trees, self.rows = goal, einsum_trees, rows
        self.results: dict[object, Any] = {}

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that operators are mapped on."""
        return self.goal.accelerator

    def recall(self, key: object, make: Callable[[], Value]) -> Value:
        """Return what is stored under a key, or make and store it."""
        if key not in self.results:
            self.results[key] = make()
        known: Value = self.results[key]
        return known

    def quiet(self) -> TreeSearch:
        """Return a search that shares all results and reports no accounts."""
        found = copy(self)
        found.goal = replace(self.goal, on_account=ignore)
        return found

    def on_one_core(self) -> TreeSearch:
        """Return a search that shares all results and uses a single core."""
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
        overwrites: bool = False,
    ) -> GroupSearch:
        """Return the search of an operator, while ``kept`` tensors stay on chip around it.

        ``merged``: ranks that count as one (None: as many as possible). ``overwrites`` as for
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
        op = space.bound_operator(name)

        def families(space: IterationSpace) -> Iterator[list[Family]]:
            if not isinstance(operator, Vector):
                yield self.einsum_trees(space, op, self.accelerator, kept=kept)
                return
            yield vector_families(
                space,
                op,
                operator,
                self.accelerator,
                rows=self.rows,
                kept=kept,
                overwrites=overwrites,
            )

        is_over = overwrites and isinstance(operator, Vector)
        return self.group_search(group, space, families, is_over, kept)

    def group_search(
        self,
        group: Group,
        space: IterationSpace,
        families: Families,
        more: object,
        kept: Sequence[str] = (),
        label: str = "alone",
    ) -> GroupSearch:
        """Return the search of a group; groups with equal candidates share one search.

        ``kept``: tensors that stay on chip around the group, which then runs on a single core.
        ``more``: a hashable key of anything else that decides the candidates. ``label``: the name
        of the search in accounts.
        """
        names, goal = names_of(space.operators), self.goal
        ranks = [name for kind, name in names if kind == "rank"]
        # constraints refer to ranks by their names
        key = (key_of(space, kept), more, tuple(ranks) if goal.constraints else (), goal.is_shared)
        on, label = (replace(goal, is_spread=False), "kept") if kept else (goal, label)
        make_sets = partial(grids_on_cores, group, space, on, families)
        first, alike = self.recall(
            key, lambda: (names, GroupSearch(group, SharedSearch(make_sets), goal, {}, label))
        )
        renamed = dict(zip(first, (name for _, name in names), strict=True))
        return replace(alike, group=group, goal=goal, names=renamed)

    def fastest(self, workload: Workload, name: str) -> tuple[Group, ScoredTree]:
        """Return an operator's group with its best tree, and the figures.

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
        """Return an operator's group with its best tree; raises as ``fastest`` does."""
        searched = self.operator_candidates(workload, name)
        candidates = searched.candidates
        fits = candidates.fitting(self.goal.room)
        if len(fits) == len(candidates) == 1 and not candidates.too_large:  # nothing to choose
            tree = rename_tree(candidates.tree(0), searched.names)
            return replace(searched.group, tree=tree)
        group, best = self.fastest(workload, name)
        return replace(group, tree=best.tree)
