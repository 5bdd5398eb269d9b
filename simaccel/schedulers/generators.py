"""Generators: what may map some consecutive operators, by dataflow.

Each is a step with its candidates. Single runs and fronts of mappings choose among the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from simaccel.analytic.family import Family
from simaccel.mapping.space import IterationSpace
from simaccel.schedulers import flat, flex
from simaccel.schedulers.attention import problem_of
from simaccel.schedulers.chains import OperatorChain, chain_family, chain_of, fusion_fault
from simaccel.schedulers.epilogues import chains, families_of, is_epilogue, search_epilogue
from simaccel.schedulers.resident_attention import GRANULARITIES
from simaccel.schedulers.schedule_steps import ScheduleStep
from simaccel.schedulers.sequences import score
from simaccel.schedulers.tree_search import OperatorCandidateSet, TreeSearch
from simaccel.search.accounts import SearchAccount, merge_accounts
from simaccel.search.candidate_set import CandidateSet, ScoredTree
from simaccel.search.core_cuts import grids_on_cores
from simaccel.search.grid_search import Goal, with_floor
from simaccel.search.grid_search import search as search_one
from simaccel.search.judge import Body
from simaccel.search.near_ties import choose_near_tie
from simaccel.search.problems import Attention, Options, attention_of, parts
from simaccel.workload import Einsum, Workload

LONGEST = 5
"""Operators in a fused run, at most."""
EINSUMS = 3
"""Einsums among them, at most."""
_GAIN = 0.002
"""What a fused run has to promise, by its bound, to be searched."""
SHARED_ROWS: Final = "shared rows"
STAGED: Final = "flex"
"""Attentions whose operators run one after the other."""
_STAGED: Final = {"naive": STAGED}
_KINDS: Final = {"flat": GRANULARITIES, "flash": "", STAGED: GRANULARITIES}
"""Granularities by what maps an attention in `best`."""


def steps_of(
    workload: Workload, search: TreeSearch, options: Options, dataflow: str = "best"
) -> list[ScheduleStep]:
    """Return all steps of a dataflow, none of them searched.

    `best` has any run of consecutive operators; others have attentions by their own granularities,
    each other operator alone, and elementwise operators behind it where the compiler has them so.
    """
    names = [operator.name for operator in workload.operators]
    if dataflow == "best":
        steps = [step for at in range(len(names)) for step in _steps(workload, at, search, options)]
    else:
        steps = list(_own_steps(workload, search, options, dataflow))
    if search.goal.objective == "edp":
        steps = [_root_objective(step) for step in steps]
    return [
        replace(
            step,
            work=step.work * workload.times(names[step.start]),
            weigh=lambda body: score(workload, body, search.goal),
        )
        for step in steps
    ]


def _own_steps(
    workload: Workload, search: TreeSearch, options: Options, dataflow: str
) -> Iterator[ScheduleStep]:
    """Yield the steps of `naive`, `flex`, `flat` or `flash`, or of one granularity of them."""
    name, _, granularity = dataflow.partition("-")
    kinds = {_STAGED.get(name, name): "" if name == "flash" else granularity or GRANULARITIES}
    fuses = search.accelerator.compiler.epilogues and name != "naive"
    behind, at = chains(workload) if fuses else {}, 0
    for part in parts(workload):
        count = len(part) if isinstance(part, tuple) else 1
        if isinstance(part, tuple):
            for step in _attention(workload, part, search, options, kinds):
                yield replace(step, start=at, stop=at + count)
        else:
            yield _alone_step(workload, at, search)
            if part in behind:
                alike = search_epilogue(search, behind[part])
                yield _alike_step(at, len(behind[part].group.operators), alike, "epilogue")
        at += count


def _alike_step(start: int, count: int, alike: OperatorCandidateSet, kind: str) -> ScheduleStep:
    """Return a step whose candidates are those of all groups that are mapped alike."""

    def find(_limit: float) -> tuple[Body, float]:
        best = alike.fastest(alike.goal.held_bytes)
        if best is None:
            raise alike.nothing_fits
        return (replace(alike.group, tree=best.tree),), best.value

    grid = alike.candidates
    promise = grid.bound(alike.goal.room)
    return ScheduleStep(start, start + count, promise, find, kind, grid.least_work, alike=alike)


def _alone_step(workload: Workload, start: int, search: TreeSearch) -> ScheduleStep:
    name = workload.operators[start].name
    return _alike_step(start, 1, search.operator_candidates(workload, name), "alone")


def _root_objective(step: ScheduleStep) -> ScheduleStep:
    """Return a step whose objective, energy times cycles, is a root, which adds up.

    Where all steps take as much energy a cycle, the product of their sums is the square of the sum
    of their roots; else it is more (Cauchy and Schwarz).
    """

    def search(limit: float) -> tuple[Body, float]:
        body, value = step.search(limit**2)
        return body, math.sqrt(value)

    return replace(step, value=math.sqrt(step.value), search=search)


def _steps(
    workload: Workload, start: int, search: TreeSearch, options: Options
) -> Iterator[ScheduleStep]:
    """Yield the steps that begin with an operator: alone, and with those after it."""
    names = [operator.name for operator in workload.operators[start : start + LONGEST]]
    alone = _alone_step(workload, start, search)
    yield alone
    if alone.value < float("inf") and search.goal.is_over:
        return
    for count in range(2, len(names) + 1):
        part = attention_of(workload, names[:count])
        if part is not None:
            for step in _attention(workload, part, search, options, _KINDS):
                yield replace(step, start=start, stop=start + count)
        elif apart := fusion_fault(workload, names[:count]):
            search.goal.note(_omitted_account(names[:count], apart))
        else:
            yield from _chain(workload, names[:count], start, search)


def _omitted_account(names: Sequence[str], why: str) -> SearchAccount:
    return SearchAccount(name="shared rows", operators=tuple(names), space=0, left_out=why)


def _grids(chain: OperatorChain, goal: Goal) -> list[CandidateSet]:
    def families(space: IterationSpace) -> dict[int, list[Family]]:
        piece = replace(chain, space=space)
        made = (chain_family(piece, goal.accelerator), *families_of(piece, goal.accelerator))
        return {at: [family] for at, family in enumerate(made)}

    return list(grids_on_cores(chain.group, chain.space, goal, families).values())


def _chain(
    workload: Workload, names: Sequence[str], start: int, search: TreeSearch
) -> Iterator[ScheduleStep]:
    """Yield a run of operators with shared rows, if they are one."""
    if sum(isinstance(workload.operator(name), Einsum) for name in names) > EINSUMS:
        return
    chain = chain_of(workload, names)
    if chain is None:
        return
    goal, grids = search.goal, _grids(chain, search.goal)
    promises = [grid.bound(goal.room) for grid in grids]

    def find(limit: float) -> tuple[Body, float]:
        limit = limit * (1 - _GAIN)
        best: ScoredTree | None = None
        accounts: list[SearchAccount] = []
        sets: list[CandidateSet] = []
        for grid, promise in zip(grids, promises, strict=True):
            below = limit if best is None else best.value
            if promise < below:
                shared = search_one(grid, goal, below, "shared rows")
                accounts.append(shared.account)
                sets += shared.sets
                best = shared.best or best
        if best is None:
            return (), float("inf")
        goal.note(with_floor(merge_accounts("shared rows", accounts), grids[0], goal))
        best = choose_near_tie(best, sets, goal.room, limit)
        body = (replace(chain.group, tree=best.tree),)
        goal.trades.note(body, best)
        return body, best.value

    if promises and min(promises) < float("inf"):
        promise = min(promises) / (1 - _GAIN)
        kind = "epilogue" if is_epilogue(chain) else SHARED_ROWS
        work = min(grid.least_work for grid in grids)
        yield ScheduleStep(start, start + len(names), promise, find, kind, work, sets=grids)


def _attention(
    workload: Workload,
    part: Attention,
    search: TreeSearch,
    options: Options,
    kinds: Mapping[str, str],
) -> Iterator[ScheduleStep]:
    """Yield an attention as each kind of dataflow maps it; ``kinds``: granularities by kind."""
    goal, problem = search.goal, problem_of(workload, part)
    for kind, granularities in kinds.items():
        if kind == STAGED:
            yield _staged_step(workload, part, search, granularities)
            continue
        grids = flat.grids(problem, search, options, granularities)

        def fuse_attention(
            limit: float, grids: Sequence[flat.GridKind] = grids, kind: str = kind
        ) -> tuple[Body, float]:
            body, value = flat.attention(problem, goal, grids, kind, limit)
            return tuple(body), value

        sets = [grid for each in grids for grid in each.grids]
        promise = min(each.bound(goal.room) for each in grids)
        work = min(grid.least_work for grid in sets)
        yield ScheduleStep(0, len(part), promise, fuse_attention, kind, work, sets=sets)


def _staged_step(
    workload: Workload, part: Attention, search: TreeSearch, granularities: str
) -> ScheduleStep:
    """Return L, softmax and A one after the other, with rows that stay on chip."""
    problem = problem_of(workload, part)

    def find(limit: float) -> tuple[Body, float]:
        return flex.attention(
            workload, part, search=search, granularities=granularities, limit=limit
        )

    promise, least = flex.bound(problem, search), flex.least_work(problem, search)
    return ScheduleStep(0, len(part), promise, find, STAGED, least, granularities=granularities)
