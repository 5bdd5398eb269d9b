"""Naive: weight-stationary with fixed tiles, operator by operator (FLAT, Table 3).

Weights are held fold by fold: B tiles of one fold, A streamed past them in tiles of fixed
height, partial sums written back and read again for each step of the reduction. Between L, softmax
and A as much of the intermediate stays on chip as fits beside these tiles (`resident`).
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Sizes
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from simaccel.analytic.evaluation import evaluate
from simaccel.analytic.family import family_of
from simaccel.analytic.prediction import predict
from simaccel.errors import Fault, InputError
from simaccel.hardware import Accelerator, Stationarity
from simaccel.mapping.space import mergeable, space_of
from simaccel.mapping.tree import Do, Group, Keep, Loop, Mapping, ResidentScope, Tree
from simaccel.schedulers.attention import AttentionProblem, problem_of
from simaccel.schedulers.einsums import Merged, roles
from simaccel.schedulers.resident_attention import (
    GRANULARITIES,
    Placed,
    ResidentSearch,
    choose_mapping,
    few_counts,
    parts_of,
    stage_attention,
)
from simaccel.schedulers.sequences import objective_of
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity, with_one_slot
from simaccel.search.canonical import rename_tree
from simaccel.search.grid_search import Goal
from simaccel.search.judge import Body, mapping_of
from simaccel.search.problems import Attention, NothingFitsError, Options, Scheduler, parts
from simaccel.units import ARRAY
from simaccel.workload import Vector, Workload

_FOLDS_HIGH = 4
"""Height of the fixed A tile in array sides."""


@dataclass(frozen=True)
class FixedTiles:
    """The fixed tiles of operators on one accelerator; ``holds``: what the array does."""

    search: TreeSearch
    holds: Stationarity = "ws"

    @classmethod
    def from_goal(cls, goal: Goal, options: Options) -> FixedTiles:
        """Return the tiles of a user's constraints.

        Raises:
            InputError: constraints, which they have no room for.

        """
        if options.constraints:
            allowed = "nothing with naive, whose tiles are fixed"
            raise InputError(
                [Fault("--constrain", "dataflow", ", ".join(options.constraints), allowed)]
            )
        return cls(TreeSearch(goal), options.stationarity or "ws")

    def group(self, workload: Workload, name: str, merged: Merged | None = None) -> Group:
        """Return an operator with its tile; ``merged`` as of `TreeSearch.operator_candidates`.

        Raises:
            NotMappableError: the array can't do the operator.
            NothingFitsError: not even a fold's weights and one row fit.

        """
        accelerator = self.search.accelerator
        if not isinstance(workload.operator(name), Vector):
            return _fix_tile(workload, name, accelerator, self.holds, merged)
        rows = self.search.operator_candidates(workload, name, merged, rows=accelerator.array.rows)
        best = rows.fastest()
        if best is None:
            raise NothingFitsError(f"{name}: not even one row fits into {capacity(accelerator)} B")
        return replace(rows.group, tree=best.tree)

    def _heights(self, workload: Workload, name: str, merged: Merged) -> list[Group]:
        """Return the group of a vector operator, and it in each height of whole rows."""
        group = self.group(workload, name, merged)
        accelerator = self.search.accelerator
        rows = self.search.operator_candidates(workload, name, merged, rows=accelerator.array.rows)
        trees = {with_one_slot(group.tree): group.tree}
        grid = self.search.goal.grid(rows.candidates.group, rows.families[:1])
        fits = grid.fitting(capacity(accelerator))
        for number in fits[np.argsort(grid.bounds[fits], kind="stable")]:
            tree = rename_tree(grid.tree(int(number)), rows.names)
            trees.setdefault(with_one_slot(tree), tree)
        return [replace(group, tree=tree) for tree in trees.values()]

    def ways(self, problem: AttentionProblem) -> list[list[Placed]]:
        """Return L, softmax and A with their tiles, those of softmax in each of their heights.

        Errors as of ``group``.
        """
        workload = problem.workload
        choices = []
        for name, held in parts_of(problem):
            merged = problem.merged_ranks(name)
            vector = isinstance(workload.operator(name), Vector)
            groups = (
                self._heights(workload, name, merged)
                if vector
                else [self.group(workload, name, merged)]
            )
            choices.append([(group, held, group.tree) for group in groups])
        return [list(way) for way in product(*choices)]

    def attention(self, workload: Workload, part: Attention, granularities: str) -> Body:
        """Return L, softmax and A with the rows that stay on chip."""
        problem, best = problem_of(workload, part), None
        for way in self.ways(problem):
            stage = self._stage(problem, way, best.scored.value if best else float("inf"))
            for name in granularities:
                best = choose_mapping([best, stage.best(name)], self.search.goal)
        if best is None:
            raise NothingFitsError(f"{'+'.join(part)}: fixed tiles need more than the buffer")
        return best.body

    def _stage(self, problem: AttentionProblem, way: list[Placed], limit: float) -> ResidentSearch:
        need = max(self._need(problem.workload, group) for group, _, _ in way)
        goal = self.search.goal

        def promise(rows: int, _room: int) -> float:
            body = stage_attention(problem, rows, way)
            alone = problem.workload.select_operators(problem.part)
            predicted = predict(alone, mapping_of(alone, "", body), goal.accelerator)
            return objective_of(predicted, goal, predicted.bound_cycles)

        return ResidentSearch(problem, goal, lambda _rows, _room, _limit: way, promise, need, limit)

    def _need(self, workload: Workload, group: Group) -> int:
        family = family_of(space_of(workload, group), group)
        return int(evaluate(family, self.search.accelerator).buffer_bytes())

    def resident(self, workload: Workload, part: Attention, granularities: str) -> Iterator[Body]:
        """Yield L, softmax and A with some numbers of rows that stay, whether they fit or not."""
        problem = problem_of(workload, part)
        ways, on = self.ways(problem), self.search.accelerator
        counts = {rows for one in granularities for rows in few_counts(problem, one, on)}
        yield from (stage_attention(problem, rows, way) for rows in sorted(counts) for way in ways)


def _schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, granularities: str, name: str
) -> Mapping:
    """Schedule each operator on its own with the fixed tile; errors as of ``FixedTiles``."""
    goal = Goal.from_options(accelerator, options, workload)
    return mapping_of(workload, name, sequence(workload, goal, options, granularities))


def sequence(
    workload: Workload, goal: Goal, options: Options, granularities: str = GRANULARITIES
) -> list[Group | ResidentScope]:
    """Return all operators, each with its fixed tile; errors as of ``FixedTiles``."""
    fixed = FixedTiles.from_goal(goal, options)
    body: list[Group | ResidentScope] = []
    for part in parts(workload):
        if isinstance(part, tuple):
            body += fixed.attention(workload, part, granularities)
        else:
            body.append(fixed.group(workload, part))
    return body


def _fix_tile(
    workload: Workload,
    name: str,
    accelerator: Accelerator,
    stationarity: Stationarity,
    merged: Merged | None,
) -> Group:
    """Return the fixed tile; lower only if the buffer is too small for it."""
    array = accelerator.systolic
    merged = dict(mergeable(workload, [name]) if merged is None else merged)
    group = Group(operators=(name,), tree=(), merged=merged)
    space = space_of(workload, group)
    seen = space.bound_operator(name)
    parts = roles(space, seen)
    names = dict.fromkeys((*seen.names, seen.output.name))
    height = _FOLDS_HIGH * array.rows
    while height:
        tree: Tree = (
            *(Loop(rank, 1) for rank in parts.g),
            *_cut_loops(space.sizes, parts.n, array.cols),
            *_cut_loops(space.sizes, parts.k, array.rows),
            *_cut_loops(space.sizes, parts.m, height),
            *(Keep(tensor, slots=2) for tensor in names),
            Do(name, ARRAY, stationarity),
        )
        placed = replace(group, tree=tree)
        totals = evaluate(family_of(space, placed), accelerator)
        need, others_fit = int(totals.buffer_bytes()), bool(totals.fits())
        if need <= capacity(accelerator) and others_fit:
            return placed
        height //= 2
    if need <= capacity(accelerator):
        raise NothingFitsError(
            f"{name}: a fold's sums of one row need more than array.accumulator.capacity_bytes, or "
            "two tiles of its weights more than memories.*.staging_bytes"
        )
    raise NothingFitsError(
        f"{name}: a fold's weights and one row need {need} B, the buffer has "
        f"{capacity(accelerator)} B"
    )


def _cut_loops(sizes: Sizes[str, int], ranks: tuple[str, ...], most: int) -> list[Loop]:
    """Return loops that leave at most so many positions of some ranks together."""
    found = []
    for rank in reversed(ranks):
        tile = min(sizes[rank], max(most, 1))
        found.append(Loop(rank, tile))
        most //= tile
    return found[::-1]


SCHEDULERS: dict[str, Scheduler] = {
    f"naive-{one}": partial(_schedule, granularities=one, name=f"naive-{one}")
    for one in GRANULARITIES
}
SCHEDULERS["naive"] = partial(_schedule, granularities=GRANULARITIES, name="naive")
