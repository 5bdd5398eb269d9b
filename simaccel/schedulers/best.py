"""Best: any fusion of consecutive operators, each with its best mapping.

What each run of consecutive operators takes as one group is a step; the workload's mapping is the
cheapest way of steps from its first operator to its last (dynamic programming). A step is searched
only where the cheapest way goes over it as far as is known: until then it counts with what it
promises, which is no more than it takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from simaccel.analytic.family import Family
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import Group, Mapping, ResidentScope
from simaccel.schedulers import flat, flex, naive
from simaccel.schedulers.at_once import fastest_at_once
from simaccel.schedulers.attention import problem_of
from simaccel.schedulers.chains import OperatorChain, chain_family, chain_of, fusion_fault
from simaccel.schedulers.epilogues import families_of, is_epilogue
from simaccel.schedulers.near_ways import extra_cost, near_way
from simaccel.schedulers.residency import best_held
from simaccel.schedulers.resident_attention import GRANULARITIES
from simaccel.schedulers.schedule_steps import (
    ScheduleStep,
    Total,
    cheapest,
    least_total,
    least_work,
    value_of,
)
from simaccel.schedulers.sequences import finish_mapping, measure_groups, score, unique
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import SearchAccount, merge_accounts
from simaccel.search.candidate_set import CandidateSet, ScoredTree
from simaccel.search.core_cuts import grids_on_cores
from simaccel.search.grid_search import Goal, with_floor
from simaccel.search.grid_search import search as search_one
from simaccel.search.judge import Body
from simaccel.search.near_ties import choose_near_tie
from simaccel.search.problems import Attention, Options, Scheduler, attention_of, parts
from simaccel.workload import Einsum, Workload

LONGEST = 5
"""Operators in a fused run, at most."""
EINSUMS = 3
"""Einsums among them, at most."""
_GAIN = 0.002
"""What a fused run has to promise, by its bound, to be searched."""
SHARED_ROWS: Final = "shared rows"
_PARTS: Final = ("alone", "epilogue")
"""Kinds of steps that all dataflows have."""


def _schedule(workload: Workload, accelerator: Accelerator, options: Options) -> Mapping:
    goal = Goal.from_options(accelerator, options, workload)
    search = TreeSearch(goal)
    steps = steps_of(workload, search, options)
    bodies: list[Sequence[Group | ResidentScope]] = []
    below = float("inf")
    if goal.objective == "cycles" and not goal.is_shared:
        with suppress(SimaccelError):  # some operator doesn't fit alone
            plain = [step for step in steps if step.kind != SHARED_ROWS]
            bodies.append(_cheapest_body(workload, plain, steps, search, below))
            below = _worth_beating(workload, bodies[0], search)
    if not bodies or least_work(steps, len(workload.operators)) < below:
        bodies.insert(0, _cheapest_body(workload, steps, steps, search, below))
    if not goal.is_over and (goal.objective == "edp" or accelerator.compiler.resident):
        bodies += _other_bodies(workload, search, options, steps, below)
    best = best_held(workload, bodies, search)
    apart = _unfused_bodies(workload, search) if goal.is_shared else []
    best = fastest_at_once(workload, unique([best, *bodies[:1], *apart]), search)
    return finish_mapping(workload, "best", best, goal)


def steps_of(workload: Workload, search: TreeSearch, options: Options) -> list[ScheduleStep]:
    """Return all steps of a workload, none of them searched."""
    names = [operator.name for operator in workload.operators]
    steps = [step for at in range(len(names)) for step in _steps(workload, at, search, options)]
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


def _cheapest_body(
    workload: Workload,
    open_steps: Sequence[ScheduleStep],
    steps: Sequence[ScheduleStep],
    search: TreeSearch,
    below: float,
) -> list[Group | ResidentScope]:
    """Return the groups of the cheapest way of open steps, or of a near-tie of all.

    ``below``: of the whole workload, as of `_cheapest_steps`.

    Raises:
        SimaccelError: there is none.

    """
    goal, count = search.goal, len(workload.operators)
    left = 0.0 if search.accelerator.compiler.resident else goal.slack * len(parts(workload))
    total = max if goal.objective == "footprint" else sum
    way = _cheapest_steps(open_steps, count, left, total, goal, below)
    refused = next((step.refused for step in way if step.refused), None)
    if refused is not None:
        raise refused
    goal.asked.require_met()
    if goal.objective != "cycles" or not goal.tolerance:
        return _body(way)
    chosen = near_way(steps, way, goal)
    goal.trades.note_way(_body(chosen), extra_cost(chosen, way))
    return _body(chosen)


def _worth_beating(
    workload: Workload, body: Sequence[Group | ResidentScope], search: TreeSearch
) -> float:
    """Return the cycles of a whole workload below which another way has to be able to come."""
    held = best_held(workload, [body], search)
    value = measure_groups(workload, held, search.goal).value
    return (value - search.goal.trades.total(workload, held).cycles) * (1 - search.goal.gap)


def _unfused_bodies(
    workload: Workload, search: TreeSearch
) -> list[Sequence[Group | ResidentScope]]:
    """Return the operators of `flex`, unfused: at once on some cores they may be the fastest."""
    quiet = search.quiet()
    with suppress(SimaccelError):  # not all of them fit
        return flex.sequences(workload, quiet, flex.choices(workload, quiet))[:1]
    return []


def _other_bodies(
    workload: Workload,
    search: TreeSearch,
    options: Options,
    steps: Sequence[ScheduleStep],
    below: float,
) -> Iterator[Sequence[Group | ResidentScope]]:
    """Yield what other dataflows have: a whole may be better than the best by its parts.

    ``below``: array and SFU have to be able to take fewer cycles with them.
    """
    quiet, count = search.quiet(), len(workload.operators)
    kinds = {"flex": flex.choices(workload, quiet)}
    for name, granularities in (("flat", GRANULARITIES), ("flash", "")):
        kinds[name] = flat.choices(workload, quiet.goal, options, granularities, name)
    attentions = [step for step in steps if step.kind in kinds]
    single = [
        step
        for step in steps
        if step.kind in _PARTS
        and not any(part.start < step.stop and step.start < part.stop for part in attentions)
    ]
    promising = {
        name: least_work([*single, *(step for step in attentions if step.kind == name)], count)
        < below
        for name in kinds
    }
    for name, choices in kinds.items():
        if promising[name]:
            with suppress(SimaccelError):  # nothing of a dataflow fits
                yield from flex.sequences(workload, quiet, choices)
    if promising["flex"]:
        with suppress(SimaccelError):  # or it isn't what is asked for
            yield naive.sequence(workload, quiet.goal, options)


def _cheapest_steps(
    steps: Sequence[ScheduleStep],
    count: int,
    left: float,
    total: Total,
    goal: Goal,
    below: float,
) -> list[ScheduleStep]:
    """Return the cheapest way, or one that is at most ``left`` above it, all searched.

    Where the goal's time is up it is the cheapest that is known. ``below``: array and SFU of the
    whole workload have to be able to take fewer cycles with a step, or it isn't searched. What was
    no gain has no part in that.
    """
    while True:
        way = cheapest(steps, count, total)
        known = cheapest([step for step in steps if step.body], count, total)
        if known and (goal.is_over or value_of(known, total) - value_of(way, total) <= left):
            return known
        unknown = [step for step in way if step.body is None]
        if not unknown:
            return way
        for step in sorted(unknown, key=lambda step: (step.stop - step.start, step.work)):
            if known and goal.is_over:
                break
            if below < float("inf") and least_work(steps, count, step) >= below:
                step.leave_out()
            elif step in cheapest(steps, count, total):  # with what was found before it
                ceiling = value_of(known, total) * (1 + goal.tolerance) if known else float("inf")
                step.find(_limit(steps, step, count, total, ceiling))


def _body(way: Sequence[ScheduleStep]) -> list[Group | ResidentScope]:
    return [one for step in way for one in step.body or ()]


def _root_objective(step: ScheduleStep) -> ScheduleStep:
    """Return a step whose objective, energy times cycles, is a root, which adds up.

    Where all steps take as much energy a cycle, the product of their sums is the square of the sum
    of their roots; else it is more (Cauchy and Schwarz).
    """

    def search(limit: float) -> tuple[Body, float]:
        body, value = step.search(limit**2)
        return body, math.sqrt(value)

    return replace(step, value=math.sqrt(step.value), search=search)


def _limit(
    steps: Sequence[ScheduleStep], step: ScheduleStep, count: int, total: Total, ceiling: float
) -> float:
    """Return what a step has to be below to be in a way of at most ``ceiling``.

    That is what the other operators leave, by what is known of them, and what its own take one by
    one; infinite where that isn't known.
    """
    limit = float("inf")
    if total is sum and ceiling < limit:
        limit = ceiling - least_total(steps, 0, count, lambda step: step.value, step) + step.value
    singles = [
        single
        for single in steps
        if single.stop == single.start + 1
        and step.start <= single.start < step.stop
        and single is not step
    ]
    if len(singles) < step.stop - step.start or any(single.body is None for single in singles):
        return limit
    return min(limit, value_of(singles, total))


def _steps(
    workload: Workload, start: int, search: TreeSearch, options: Options
) -> Iterator[ScheduleStep]:
    """Yield the steps that begin with an operator: alone, and with those after it."""
    names = [operator.name for operator in workload.operators[start : start + LONGEST]]
    first = names[0]
    alone = search.operator_candidates(workload, first).candidates
    promise = alone.bound(search.goal.room)

    def find(_limit: float) -> tuple[Body, float]:
        group, best = search.fastest(workload, first)
        return (replace(group, tree=best.tree),), best.value

    yield ScheduleStep(start, start + 1, promise, find, "alone", work=alone.least_work)
    if promise < float("inf") and search.goal.is_over:
        return
    for count in range(2, len(names) + 1):
        part = attention_of(workload, names[:count])
        if part is not None:
            for step in _attention(workload, part, search, options):
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
    workload: Workload, part: Attention, search: TreeSearch, options: Options
) -> Iterator[ScheduleStep]:
    """Yield an attention as each dataflow maps it."""
    goal, problem = search.goal, problem_of(workload, part)
    for name, granularities in (("flat", GRANULARITIES), ("flash", "")):
        grids = flat.grids(problem, goal, options, granularities)

        def fuse_attention(
            _limit: float, grids: Sequence[flat.GridKind] = grids, name: str = name
        ) -> tuple[Body, float]:
            body, value = flat.attention(problem, goal, grids, name)
            return tuple(body), value

        sets = [grid for kind in grids for grid in kind.grids]
        promise = min(kind.bound(goal.room) for kind in grids)
        work = min(grid.least_work for grid in sets)
        yield ScheduleStep(0, len(part), promise, fuse_attention, name, work, sets=sets)

    def find(limit: float) -> tuple[Body, float]:
        return flex.attention(workload, part, search=search, limit=limit)

    promise, least = flex.bound(problem, search), flex.least_work(problem, search)
    yield ScheduleStep(0, len(part), promise, find, "flex", least)


SCHEDULERS: dict[str, Scheduler] = {"best": _schedule}
