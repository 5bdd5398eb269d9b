"""Best: any fusion of consecutive operators, each with its best mapping.

What each run of consecutive operators takes as one group is a step; the workload's mapping is the
cheapest way of steps from its first operator to its last (dynamic programming). A step is searched
only where the cheapest way goes over it as far as is known: until then it counts with what it
promises, which is no more than it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Group, Mapping, ResidentScope
from simaccel.schedulers import flat, flex, naive
from simaccel.schedulers.at_once import fastest_at_once
from simaccel.schedulers.generators import SHARED_ROWS, steps_of
from simaccel.schedulers.near_ways import extra_cost, near_way, save_within
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
from simaccel.schedulers.sequences import finish_mapping, measure_groups, unique
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.grid_search import Goal
from simaccel.search.problems import Options, Scheduler, parts
from simaccel.workload import Workload

_PARTS: Final = ("alone", "epilogue")
"""Kinds of steps that all dataflows have."""


def _schedule(workload: Workload, accelerator: Accelerator, options: Options) -> Mapping:
    options = replace(options, pipeline=True)  # a way of an attention, judged by its bound
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
    best = save_within(workload, best_held(workload, bodies, search), search)
    apart = _unfused_bodies(workload, search) if goal.is_shared else []
    best = fastest_at_once(workload, unique([best, *bodies[:1], *apart]), search)
    return finish_mapping(workload, "best", best, goal)


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
    left = goal.slack * len(parts(workload))
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
        kinds[name] = flat.choices(workload, quiet, options, granularities, name)
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


SCHEDULERS: dict[str, Scheduler] = {"best": _schedule}
