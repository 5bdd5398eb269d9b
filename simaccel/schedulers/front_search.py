"""Pareto fronts of the mappings that a scheduler considers: of each part, then of the workload.

Of a part's candidates, those on the front of the lower bounds run on the machine, then neighbours
of points on the resulting front. If there are few candidates, all run except those whose bounds are
dominated; that front is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from simaccel.analytic.family import Ints, ints
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Group
from simaccel.pareto import Front, beaten, pick_evenly
from simaccel.schedulers.concurrent_groups import parallelise_groups
from simaccel.schedulers.group_search import GroupSearch
from simaccel.schedulers.residency import hold_between
from simaccel.schedulers.sequences import measure_groups, score, unique
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import CandidateSet
from simaccel.search.canonical import rename_tree
from simaccel.search.effort import EFFORT, has_near_ties
from simaccel.search.front import (
    Alternative,
    Floats,
    FrontFigures,
    best_of,
    front_of,
    join_alternatives,
    unbeaten_layers,
)
from simaccel.search.goal import Goal
from simaccel.search.grid_search import search
from simaccel.search.judge import FOREVER, Body, ScoredTree, operators_of
from simaccel.search.near_ties import find_cheaper
from simaccel.workload import Workload

_STARTS: Final = 8
"""Most points of a front from which the local search starts."""
_RUNS: Final = 48
"""Most mappings of a part that run on the machine, evenly spaced on the front."""
_EXTENDED: Final = 4
"""Most mappings of the whole workload, evenly spaced on the front, that are tried with held tensors
and concurrent groups.
"""
_AT_ONCE: Final = 8
"""Candidates that run before the front is updated."""
IndexedCandidate = tuple[CandidateSet, int]
"""A candidate: its set, and its index there."""


class FrontSearch:
    """The search for fronts of parts of one workload; identical operators are searched once.

    ``trees``: the type of searches for trees of single operators. ``search``: that for the
    energy-delay product; ``searches``: those for each figure alone.
    """

    def __init__(
        self,
        workload: Workload,
        goal: Goal,
        figures: FrontFigures,
        trees: Callable[[Goal], TreeSearch] = TreeSearch,
    ) -> None:
        self.workload, self.figures, self.trees = workload, figures, trees
        self.goal = replace(goal, objective="edp")
        self.search = trees(self.goal)
        self.objectives = figures.objectives
        self.searches = {
            objective: trees(replace(goal, objective=objective)) for objective in self.objectives
        }

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that the workload is mapped to."""
        return self.goal.accelerator

    # -- parts ------------------------------------------------------------------------------------

    def front_of_group(self, searched: GroupSearch) -> Front[Alternative]:
        """Return the front of a group, computed once for all groups with the same candidates."""
        group = searched.group
        front = self.search.recall(  # in the names of the candidates
            ("front", id(searched.known)),
            lambda: self.merge_fronts([self._front(grid) for grid in searched.sets]),
        )

        def rename(alternative: Alternative) -> Alternative:
            (first,) = alternative.body
            assert isinstance(first, Group)  # noqa: S101 - narrows the type
            tree = rename_tree(first.tree, searched.names)
            return replace(alternative, body=(replace(group, tree=tree),))

        points = tuple(map(rename, front.points))
        return self._repeat(replace(front, points=points), group.operators[0])

    def front_of_bodies(self, bodies: Iterable[Body]) -> Front[Alternative]:
        """Return the front of alternative mappings of the same operators."""
        scored = ((body, score(self.workload, body, self.goal)) for body in bodies)
        alternatives = [_alternative(body, tree) for body, tree in scored if tree is not None]
        best = tuple(best_of(self.figures, alternatives))
        front = Front(points=best, seen=len(alternatives), proved=False)
        return self._repeat(front, operators_of(best[0].body)[0]) if best else front

    def whole_front(self, bodies: Iterable[Body]) -> Front[Alternative]:
        """Return the front of alternative mappings of the whole workload."""
        alternatives = []
        for body in bodies:
            with suppress(SimaccelError):  # the machine takes fewer trees than the closed form
                scored = measure_groups(self.workload, body, self.goal)
                alternatives.append(_alternative(body, scored))
        best = tuple(best_of(self.figures, alternatives))
        return Front(points=best, seen=len(alternatives), proved=False)

    def hold_and_parallelise(
        self, front: Front[Alternative], others: Sequence[Alternative], *, holds: bool
    ) -> Front[Alternative]:
        """Return a front extended by mappings with held tensors and with concurrent groups.

        ``others``: mappings off the front that may improve in this way. ``holds``: whether tensors
        may be held between groups.
        """
        starts = unique([point.body for point in (*_sample(front.points), *_sample(others))])
        bodies = []
        for objective, search_of in self.searches.items():
            for start in starts if objective != "footprint" else ():
                held = hold_between(self.workload, start, search_of) if holds else [start]
                bodies += [parallelise_groups(self.workload, [body], search_of) for body in held]
        return self.merge_fronts([front, self.whole_front(unique(bodies))])

    def join_fronts(self, fronts: Sequence[Front[Alternative]]) -> Front[Alternative]:
        """Return the front of operators that run one after the other."""
        points: list[Alternative] = list(fronts[0].points)
        for front in fronts[1:]:
            points = join_alternatives(self.figures, points, front.points)
        return Front(
            points=tuple(points),
            seen=sum(front.seen for front in fronts),
            proved=all(front.proved for front in fronts),
        )

    def merge_fronts(self, fronts: Sequence[Front[Alternative]]) -> Front[Alternative]:
        """Return the front of several alternatives for the same operators."""
        points = [point for front in fronts for point in front.points]
        return Front(
            points=tuple(best_of(self.figures, points)),
            seen=sum(front.seen for front in fronts),
            proved=all(front.proved for front in fronts),
        )

    # -- grids ------------------------------------------------------------------------------------

    def _repeat(self, front: Front[Alternative], name: str) -> Front[Alternative]:
        """Return a front with the figures of all runs of an operator instead of one."""
        times, parts = self.workload.times(name), ("cycles", "energy_pj", "dram_bytes")
        points = (
            replace(point, **{part: getattr(point, part) * times for part in parts})
            for point in front.points
        )
        return replace(front, points=tuple(points))

    def _front(self, grid: CandidateSet) -> Front[Alternative]:
        """Return the front of a grid, and of its neighbours if not all candidates may run."""
        fits = grid.fitting(self.goal.room)
        is_exact = fits.size <= EFFORT.exact
        ends = [] if is_exact and grid.is_complete() else self._single_figure_front(grid)
        if is_exact:
            run = self._run_places([(grid, int(row)) for row in fits], ends, FOREVER)
            every = best_of(self.figures, [*run.values(), *ends]) if ends else run.values()
            return Front(points=(*every,), seen=int(fits.size), proved=not self.goal.is_over)
        run = self._run_places(self._sample_bound_fronts(grid), ends, _RUNS)
        seen = int(fits.size)
        for near in () if self.goal.is_over else self._neighbours(list(run)):
            run |= self._run_places(self._sample_bound_fronts(near), ends, _RUNS)
            seen += int(near.fitting(self.goal.room).size)
        best = tuple(best_of(self.figures, [*run.values(), *ends]))
        return Front(points=best, seen=seen, proved=False)

    def _single_figure_front(self, grid: CandidateSet) -> list[Alternative]:
        """Return the front of the candidates that run in the searches for each figure alone."""
        alternatives: list[Alternative] = []
        for objective in self.objectives:
            goal = self.searches[objective].goal
            result = search(grid.with_objective(objective), goal)
            scored = [tree for of_set in result.sets for tree in of_set.scored_runs(goal.room)]
            if result.best and has_near_ties(objective, goal.tolerance):
                limit = result.best.value * (1 + goal.tolerance)
                scored += find_cheaper(result.best, result.sets, goal.room, limit)
            alternatives += [_alternative_of(grid, each) for each in scored]
        return best_of(self.figures, alternatives)

    def _lower_bounds(self, grid: CandidateSet, which: Ints) -> Floats:
        """Return lower bounds of candidates' figures: (candidates, figures)."""
        rows = (grid.columns.bounds, grid.columns.energy, grid.columns.dram, grid.columns.space)
        return np.stack([rows[at][which].astype(np.float64) for at in self.figures.parts], axis=1)

    def _sample_bound_fronts(self, grid: CandidateSet) -> list[IndexedCandidate]:
        """Return candidates whose bounds are evenly spaced on the first fronts of bounds."""
        fits = grid.fitting(self.goal.room)
        sampled = unbeaten_layers(self._lower_bounds(grid, fits), np.arange(fits.size), _RUNS)
        return [(grid, int(number)) for number in fits[sampled]]

    def _neighbours(self, front: Sequence[IndexedCandidate]) -> list[CandidateSet]:
        """Return the neighbours of evenly spaced points of a front."""
        starts: dict[int, tuple[CandidateSet, list[int]]] = {}
        for grid, number in (front[int(at)] for at in pick_evenly(np.arange(len(front)), _STARTS)):
            family = grid.families[int(grid.family_of(number))]
            starts.setdefault(id(family), (grid, []))[1].append(number)
        every = (grid.neighbours_of(numbers) for grid, numbers in starts.values())
        return [near for near in every if near is not None]

    def _run_places(
        self, places: Sequence[IndexedCandidate], ends: Sequence[Alternative], most: float
    ) -> dict[IndexedCandidate, Alternative]:
        """Return the front of candidates; at most ``most`` run, and none with dominated bounds.

        ``ends``: points that are known already.
        """
        if not places:
            return {}
        parts, known = self.figures.parts, dict[int, Alternative]()
        least = np.concatenate([self._lower_bounds(grid, ints([at])) for grid, at in places])
        figures_of_ends = np.array([end.parts for end in ends]).reshape(-1, 4)[:, parts]
        is_open = ~beaten(least, figures_of_ends)
        places, least = [places[int(at)] for at in np.flatnonzero(is_open)], least[is_open]

        def judge(which: Ints) -> Floats:
            figures = np.full((len(which), len(parts)), np.inf)
            for row, at in enumerate(which):
                enough = len(known) >= most or (known and self.goal.is_over)
                grid, number = places[int(at)]
                cycles = FOREVER if enough else float(grid.run(np.array([number]))[0])
                if cycles != FOREVER:
                    known[int(at)] = _alternative_of(grid, grid.score(number, cycles))
                    figures[row] = np.array(known[int(at)].parts)[parts]
            return figures

        return {places[int(at)]: known[int(at)] for at in front_of(least, judge, chunk=_AT_ONCE)}


def _sample(points: Sequence[Alternative]) -> list[Alternative]:
    return [points[int(at)] for at in pick_evenly(np.arange(len(points)), _EXTENDED)]


def _alternative_of(grid: CandidateSet, scored: ScoredTree) -> Alternative:
    return _alternative((replace(grid.group, tree=scored.tree),), scored)


def _alternative(body: Body, tree: ScoredTree) -> Alternative:
    return Alternative(body, tree.cycles, tree.energy_pj, tree.dram_bytes, tree.buffer_bytes)
