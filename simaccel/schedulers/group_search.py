"""Searches of groups for their best trees; groups that are mapped alike share the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from simaccel.mapping.tree import Group, ResidentScope, Tree
from simaccel.pareto import keep_cheaper, pick_evenly
from simaccel.search.accounts import SearchAccount, ignore, merge_accounts
from simaccel.search.candidate_set import CandidateSet
from simaccel.search.canonical import Names, rename_tree
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.grid_search import search, with_floor
from simaccel.search.judge import Body, ScoredTree, key_of_body
from simaccel.search.near_ties import find_cheaper
from simaccel.search.problems import NothingFitsError

Part = Group | ResidentScope
Mapped = tuple[Body, ScoredTree]
"""A mapping of some operators, and its figures."""
_WORTH: Final = 100_000
"""Candidates from which searches run in parallel; fewer take less time than a process to start."""


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


@dataclass(frozen=True)
class SearchTask:
    """The search of a group's candidate sets, as it may be sent to a process."""

    sets: Sequence[CandidateSet]
    goal: Goal
    limit: float
    label: str

    def run(self) -> GroupSearchResult:
        """Search the sets in the order of their bounds, while they may be better."""
        goal, limit = self.goal, self.limit
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
            account = replace(account, rest_bound=min(account.rest_bound, left))
            account = with_floor(account, self.sets[0], goal)
        return GroupSearchResult(best, limit, (*sets, *self.sets), account)


@dataclass
class SharedSearch:
    """Candidate sets and results of groups that are mapped alike, under the names of the first.

    ``results``: by the bytes held beside the group.
    """

    make_sets: Callable[[], Sequence[CandidateSet]]
    results: dict[int, GroupSearchResult] = field(default_factory=dict)

    @cached_property
    def sets(self) -> Sequence[CandidateSet]:
        """The candidate sets, for one core and for pieces on several."""
        return self.make_sets()

    @property
    def is_counted(self) -> bool:
        """Whether the candidates have been counted."""
        return "sets" in vars(self)


@dataclass
class GroupSearch:
    """The candidates of a group, and their searches, which groups that are mapped alike share.

    ``names``: from the names that ``known`` has to those of this group.
    """

    group: Group
    known: SharedSearch
    goal: Goal
    names: Names
    label: str = "alone"
    """Name of the search in accounts."""
    account: SearchAccount | None = None
    """Account of the last search, whether it found a mapping or not."""

    @property
    def sets(self) -> Sequence[CandidateSet]:
        """The candidate sets, for one core and for pieces on several."""
        return self.known.sets

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

    def fastest(self, held_bytes: int = 0, limit: float = float("inf")) -> ScoredTree | None:
        """Return the best tree below ``limit`` beside ``held_bytes`` of the buffer, if any."""
        best = self.find(held_bytes, limit).best
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
        cheaper = find_cheaper(None, self.sets, self.goal.room, limit)
        if not cheaper:
            return None
        best = replace(cheaper[-1], tree=rename_tree(cheaper[-1].tree, self.names))
        return (replace(self.group, tree=best.tree),), best

    def fewest_bytes(self, room: int, limit: float) -> float:
        """Return the fewest DRAM bytes of mappings whose bound is at most ``limit``."""
        return min(grid.fewest_bytes(room, limit) for grid in self.sets)

    def find(self, held_bytes: int = 0, limit: float = float("inf")) -> GroupSearchResult:
        """Return the result that `fastest` uses, in the names of the candidates.

        It doesn't depend on what was searched before, unless a tree that was best beside fewer held
        bytes fits: so dataflows that hold alike find alike. What one search takes in of far
        candidates is there for the next.
        """
        known = self.known_result(held_bytes, limit)
        return known or self.take(held_bytes, self.task(held_bytes, limit).run())

    def known_result(self, held_bytes: int, limit: float) -> GroupSearchResult | None:
        """Return the result of an earlier search that answers this one, too, if there is one."""
        room = self.goal.room - held_bytes
        for taken, known in sorted(self.known.results.items(), reverse=True):
            fits = limit <= known.limit if known.best is None else known.best.buffer_bytes <= room
            if taken <= held_bytes and fits:
                return known
        return None

    def task(self, held_bytes: int = 0, limit: float = float("inf")) -> SearchTask:
        """Return the search that `find` makes."""
        goal = replace(self.goal, held_bytes=held_bytes, on_account=ignore)
        goal = replace(goal, on_losses=ignore, each=map, origins={})
        return SearchTask(self.sets, goal, limit, self.label)

    def take(self, held_bytes: int, result: GroupSearchResult) -> GroupSearchResult:
        """Keep the result of a task, with the candidate sets as they came back from a process."""
        for candidates in result.sets:
            candidates.judge = self.goal.judge
        self.known.sets = result.sets[-len(self.sets) :]
        self.known.results[held_bytes] = result
        if result.account is not None:
            self.goal.on_account(result.account)
        return result

    def find_cheaper(self, limit: float, held_bytes: int = 0) -> list[ScoredTree]:
        """Return the best and the less costly trees, with objectives of at most ``limit``.

        They are in the names of the candidates, each slower and less costly than those before; a
        few candidates run for it.
        """
        found = self.find(held_bytes)
        if found.best is None:
            return []
        return find_cheaper(found.best, found.sets, self.goal.room - held_bytes, limit)

    def trees_of_holdings(self, held_bytes: int) -> list[Tree]:
        """Return of each set the likely fastest tree for each combination of stationarities."""
        room, found = self.goal.room - held_bytes, self.find(held_bytes).sets
        every = {id(candidates): candidates for candidates in found}.values()
        return [tree for candidates in every for tree in candidates.trees_of_holdings(room)]

    def least_cost(self, limit: float, held_bytes: int) -> float:
        """Return a lower bound of the cost of choices with an objective of at most ``limit``."""
        room = self.goal.room - held_bytes
        return min(grid.least_cost(room, limit) for grid in self.sets)

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


def search_together(requests: Sequence[tuple[GroupSearch, int]]) -> None:
    """Search groups in parallel, unless their results are known; groups that are alike once.

    ``requests``: groups, each with the bytes held beside it.
    With a time budget, or with few candidates, they are left to be searched one by one.
    """
    tasks: dict[int, tuple[GroupSearch, int, SearchTask]] = {}
    for wanted, held_bytes in requests:
        is_new = id(wanted.known) not in tasks and wanted.goal.until is None
        if is_new and wanted.known_result(held_bytes, float("inf")) is None:
            tasks[id(wanted.known)] = wanted, held_bytes, wanted.task(held_bytes)
    if sum(len(grid) for _, _, task in tasks.values() for grid in task.sets) < _WORTH:
        return
    run_all = requests[0][0].goal.each
    results = run_all(SearchTask.run, [task for _, _, task in tasks.values()])
    for (wanted, held_bytes, _), result in zip(tasks.values(), results, strict=True):
        wanted.take(held_bytes, result)
