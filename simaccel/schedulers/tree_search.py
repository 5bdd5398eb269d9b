"""Searches for the best trees of single operators; identical operators are searched once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from simaccel.analytic.family import Family
from simaccel.hardware import Accelerator
from simaccel.mapping.space import IterationSpace, mergeable, space_of
from simaccel.mapping.tree import Group, Loop, ResidentScope, Tree, nodes
from simaccel.pareto import keep_cheaper, pick_evenly
from simaccel.schedulers.einsums import (
    Merged,
    einsum_families,
    row_merges,
    vector_families,
)
from simaccel.search.accounts import SearchAccount, ignore, merge_accounts
from simaccel.search.candidate_set import CandidateSet
from simaccel.search.canonical import NameList, Names, key_of, names_of, rename_tree
from simaccel.search.core_cuts import on_cores
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.grid_search import search, with_floor
from simaccel.search.judge import Body, key_of_body
from simaccel.search.near_ties import find_cheaper
from simaccel.search.problems import NothingFitsError
from simaccel.search.scored_tree import ScoredTree
from simaccel.workload import Vector, Workload

Value = TypeVar("Value")
Part = Group | ResidentScope
Mapped = tuple[Body, ScoredTree]
"""A mapping of some operators, and its figures."""


@dataclass(frozen=True)
class GroupSearchResult:
    """The best of a group's candidates in some room; None if none is below ``limit``.

    ``sets``: the candidates considered, with the neighbours of the best. ``account``: of the
    searches.
    """

    best: ScoredTree | None
    limit: float
    sets: Sequence[CandidateSet]
    account: SearchAccount | None = None

    def is_enough(self, limit: float, room: int) -> bool:
        """Return whether this result also answers a search with another limit and room."""
        if self.best is None:
            return limit <= self.limit
        return self.best.buffer_bytes <= room


@dataclass
class GroupSearch:
    """The candidates of a group, and the names under which they were made.

    Groups that are mapped alike share the results.
    """

    group: Group
    make_sets: Callable[[], Sequence[CandidateSet]]
    goal: Goal
    names: Names
    known: dict[object, Any]
    label: str = "alone"
    """Name of the search in accounts."""
    account: SearchAccount | None = None
    """Account of the last search, whether it found a mapping or not."""

    @property
    def sets(self) -> Sequence[CandidateSet]:
        """The candidate sets, for one core and for pieces on several."""
        if "sets" not in self.known:
            self.known["sets"] = self.make_sets()
        found: Sequence[CandidateSet] = self.known["sets"]
        return found

    @property
    def candidates(self) -> CandidateSet:
        """The first candidate set; a single operator has no other."""
        return self.sets[0]

    def bound(self, room: int) -> float:
        """Return a lower bound of the objective in ``room`` bytes; infinite if nothing fits."""
        return min(grid.bound(room) for grid in self.sets)

    @property
    def least_work(self) -> int:
        """Cycles of array and SFU that any candidate takes."""
        return min(grid.least_work for grid in self.sets)

    def fastest(
        self, held_bytes: int = 0, like: Tree = (), limit: float = float("inf")
    ) -> ScoredTree | None:
        """Return the best tree below ``limit`` beside ``held_bytes`` of the buffer, if any.

        ``like``: a tree of the same operator with other tensors held; candidates with its tiles run
        first.
        """
        best = self.find(held_bytes, like, limit).best
        if best is None or best.value >= limit:
            return None
        best = replace(best, tree=rename_tree(best.tree, self.names))
        self.goal.origins[key_of_body((replace(self.group, tree=best.tree),))] = self, held_bytes
        return best

    def map(self, kind: str, limit: float) -> Mapped | None:  # noqa: ARG002 - as of a staged one
        """Return the group's best mapping with an objective below ``limit``; None if there is none.

        Raises:
            NothingFitsError: the machine takes no candidate, or none fits.

        """
        held_bytes, room = self.goal.held_bytes, self.goal.room
        best = self.fastest(held_bytes, limit=limit)
        self.account = self.find(held_bytes, limit=limit).account
        if best is not None:
            return (replace(self.group, tree=best.tree),), best
        if max(limit, self.bound(room)) == float("inf"):
            raise self.nothing_fits
        return None

    def map_cheaply(self, limit: float) -> Mapped | None:
        """Return the least costly mapping of at most ``limit`` that a few runs find, if any."""
        seen = find_cheaper(None, self.sets, self.goal.room, limit)
        if not seen:
            return None
        best = replace(seen[-1], tree=rename_tree(seen[-1].tree, self.names))
        return (replace(self.group, tree=best.tree),), best

    def fewest_bytes(self, room: int, limit: float) -> float:
        """Return the fewest DRAM bytes of mappings whose bound is at most ``limit``."""
        return min(grid.fewest_bytes(room, limit) for grid in self.sets)

    def find(
        self, held_bytes: int = 0, like: Tree = (), limit: float = float("inf")
    ) -> GroupSearchResult:
        """Return the result that `fastest` uses, in the names of the candidates."""
        found: dict[int, GroupSearchResult] = self.known.setdefault("found", {})
        room = self.goal.room - held_bytes
        for taken in sorted(found, reverse=True):
            if taken <= held_bytes and found[taken].is_enough(limit, room):
                return found[taken]
        goal = replace(self.goal, held_bytes=held_bytes, start=self._start(like))
        found[held_bytes] = self._search(goal, limit)
        return found[held_bytes]

    def _search(self, goal: Goal, limit: float) -> GroupSearchResult:
        """Search the grids in the order of their bounds, while they may be better."""
        best: ScoredTree | None = None
        accounts: list[SearchAccount] = []
        sets: list[CandidateSet] = []
        left = float("inf")
        bounds = [grid.bound(goal.room) for grid in self.sets]
        for at in sorted(range(len(bounds)), key=bounds.__getitem__):
            enough = limit if best is None else best.value * (1 - EFFORT.gain) - goal.slack
            if (accounts and (bounds[at] >= enough or goal.is_over)) or bounds[at] >= limit:
                left = min(left, bounds[at])
                continue
            below = limit if best is None else best.value
            result = search(self.sets[at], goal, below, self.label)
            accounts.append(result.account)
            sets += result.sets
            best = result.best or best
        account = None
        if best is not None:
            account = merge_accounts(self.label, accounts)
            account = replace(account, left=min(account.left, left))
            account = with_floor(account, self.sets[0], goal)
            self.goal.on_account(account)
        return GroupSearchResult(best, limit, (*sets, *self.sets), account)

    def find_cheaper(self, limit: float, held_bytes: int = 0) -> list[ScoredTree]:
        """Return the best and the less costly trees, with objectives of at most ``limit``.

        They are in the names of the candidates, each slower and less costly than those before; a
        few candidates run for it.
        """
        found = self.find(held_bytes)
        if found.best is None:
            return []
        return find_cheaper(found.best, found.sets, self.goal.room - held_bytes, limit)

    # -- other choices of a group that is a part of a mapping

    def figures_of(self, part: Part, held_bytes: int) -> ScoredTree | None:  # noqa: ARG002
        """Return the figures of the best, which a part of a mapping has; None if there is none."""
        return self.find(held_bytes).best

    def least_cost(self, limit: float, held_bytes: int) -> float:
        """Return a lower bound of the cost of choices with an objective of at most ``limit``."""
        room = self.goal.room - held_bytes
        return min(grid.least_cost(room, limit) for grid in self.sets)

    def cheaper_choices(self, limit: float, held_bytes: int) -> list[tuple[object, ScoredTree]]:
        """Return less costly choices than the best and their figures, of at most ``limit``."""
        return [(scored.tree, scored) for scored in self.find_cheaper(limit, held_bytes)]

    def choose(self, part: Part, choice: object) -> Part:
        """Return a part of a mapping with another choice in its place."""
        assert isinstance(part, Group) and isinstance(choice, tuple)  # noqa: S101, PT018
        return replace(part, tree=rename_tree(choice, self.names))

    def sample_rooms(self, limit: float, held_bytes: int = 0) -> list[ScoredTree]:
        """Return trees that ran with at most ``limit``, each smaller and slower than those before.

        They are in the names of the candidates; of many, evenly spaced ones.
        """
        sets, room = self.find(held_bytes).sets, self.goal.room - held_bytes
        every = {id(candidates): candidates for candidates in sets}.values()
        ran = (scored for candidates in every for scored in candidates.scored_runs(room))
        front = keep_cheaper(
            (scored for scored in ran if scored.value <= limit),
            rank=lambda scored: scored.rank,
            cost=lambda scored: scored.buffer_bytes,
        )
        return [front[int(at)] for at in pick_evenly(np.arange(len(front)), EFFORT.rooms)]

    @property
    def nothing_fits(self) -> NothingFitsError:
        """The error that names what the smallest candidate needs."""
        smallest = min(grid.smallest for grid in self.sets)
        return NothingFitsError(
            f"{self.group.name}: no tiling fits the buffer of {self.goal.room} B; the smallest "
            f"that was tried needs {smallest} B"
        )

    def _start(self, like: Tree) -> dict[str, int] | None:
        """Return a tree's innermost tiles by rank, in the names that the candidates have."""
        made = {name: old for (kind, old), name in self.names.items() if kind == "rank"}
        loops = [node for node in nodes(like) if isinstance(node, Loop)]
        return {made.get(loop.rank, loop.rank): loop.tile for loop in loops} if like else None


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
        self._seen: dict[object, tuple[NameList, GroupSearch]] = {}
        self._memory: dict[object, Any] = {}

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that operators are mapped on."""
        return self.goal.accelerator

    def recall(self, key: object, make: Callable[[], Value]) -> Value:
        """Return what is stored under a key, or make and store it."""
        if key not in self._memory:
            self._memory[key] = make()
        known: Value = self._memory[key]
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
        seen = space.bound_operator(name)

        def families(space: IterationSpace) -> list[Family]:
            if not isinstance(operator, Vector):
                return self.einsum_trees(space, seen, self.accelerator, kept=kept)
            return list(
                vector_families(
                    space,
                    seen,
                    operator,
                    self.accelerator,
                    rows=self.rows,
                    kept=kept,
                    overwrites=overwrites,
                )
            )

        on = replace(self.goal, is_spread=self.goal.is_spread and not kept)
        return self.group_search(
            group,
            space,
            lambda: [on_cores(group, space, on, families)],
            (overwrites and isinstance(operator, Vector),),
            kept,
            label="kept" if kept else "alone",
        )

    def group_search(
        self,
        group: Group,
        space: IterationSpace,
        make_sets: Callable[[], Sequence[CandidateSet]],
        more: object = (),
        kept: Sequence[str] = (),
        *,
        label: str,
    ) -> GroupSearch:
        """Return the search of a group, shared with groups that are mapped alike.

        ``more``: what else decides the candidates, beside the operators and ``kept``. ``label``:
        the name of the search in accounts.
        """
        names, goal = names_of(space.operators), self.goal
        ranks = [name for kind, name in names if kind == "rank"]
        # constraints refer to ranks by their names
        key = (key_of(space, kept), more, tuple(ranks) if goal.constraints else (), goal.is_shared)
        if key not in self._seen:
            new = GroupSearch(group, make_sets, goal, {}, {}, label)
            self._seen[key] = names, new
        first, known = self._seen[key]
        renamed = dict(zip(first, (name for _, name in names), strict=True))
        return replace(known, group=group, goal=goal, names=renamed)

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
