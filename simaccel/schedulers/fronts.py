"""The Pareto front of the mappings that a scheduler considers, by the scheduler's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from simaccel.dataflows import DATAFLOWS
from simaccel.hardware import Accelerator
from simaccel.hardware.dataflow import parse_constraints
from simaccel.pareto import Front
from simaccel.schedulers import make_mapping, naive, spatial
from simaccel.schedulers.attention import AttentionProblem, candidate_counts, stage_attention
from simaccel.schedulers.front_search import FrontSearch
from simaccel.schedulers.generators import steps_of
from simaccel.schedulers.group_search import GroupSearch
from simaccel.schedulers.schedule_steps import SHARED_ROWS, ScheduleStep
from simaccel.schedulers.staged_attention import StagedAttention
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity
from simaccel.search.effort import STRATEGIES, Strategy
from simaccel.search.front import Alternative, FrontFigures
from simaccel.search.goal import Goal
from simaccel.search.judge import Body
from simaccel.search.problems import NothingFitsError, Options
from simaccel.workload import Vector, Workload

_ROOMS: Final = 2
"""Buffer sizes in which flex stages resident rows, each a quarter of the one before."""


def front(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    figures: FrontFigures,
) -> Front[Alternative]:
    """Return the Pareto front, in two figures, of the mappings that a scheduler considers.

    The front of each part of the workload (operators that are mapped together) is found alone, with
    cycles from the machine. That of the workload follows, as parts run one after the other.

    Raises:
        NothingFitsError: no mapping of the scheduler fits the buffer.
        SimaccelError: as of ``make_mapping``.
    """
    goal = Goal.from_options(accelerator, options, workload)
    is_fixed = dataflow.partition("-")[0] == "naive"
    trees = partial(naive.fixed_search, options=options) if is_fixed else TreeSearch
    explorer = FrontSearch(workload, goal, figures, trees)
    best = _front(explorer, dataflow, options)
    if not best.points:
        room = capacity(accelerator)
        raise NothingFitsError(f"{dataflow}: no mapping fits the buffer of {room} B")
    return best


def _front(explorer: FrontSearch, dataflow: str, options: Options) -> Front[Alternative]:
    shared = explorer.accelerator.cores.count > 1
    if dataflow in STRATEGIES and not shared:
        return _mapspace(explorer, dataflow, options)
    name = dataflow.partition("-")[0]
    if DATAFLOWS.get(dataflow) != "choice" or (name == "naive" and shared):
        bodies = []  # one mapping for each figure, as its candidates are not exposed
        for objective in explorer.objectives:
            effort = replace(options.effort, objective=objective)
            single = replace(options, objective=objective, effort=effort)
            mapping = make_mapping(explorer.workload, explorer.accelerator, dataflow, single)
            bodies.append(mapping.body)
        return explorer.whole_front(bodies)
    options = replace(options, pipeline=options.pipeline or name == "best")
    steps = steps_of(explorer.workload, explorer.search, options, dataflow)
    fronts = {
        id(step): explorer.front_of_group(step.candidates)
        if isinstance(step.candidates, GroupSearch)
        else _staged_front(explorer, step.candidates, step.kind[-1])
        for step in steps
    }
    front = _join_steps(explorer, steps, fronts)
    holds = name == "best" or (name != "naive" and explorer.accelerator.compiler.resident)
    if not holds and not explorer.goal.is_shared:
        return front
    plain = [step for step in steps if step.kind != SHARED_ROWS]
    others = _join_steps(explorer, plain, fronts).points
    return explorer.hold_and_parallelise(front, others, holds=holds)


def _join_steps(
    explorer: FrontSearch,
    steps: Sequence[ScheduleStep],
    fronts: Mapping[int, Front[Alternative]],
) -> Front[Alternative]:
    """Return the front of all paths of steps from the first operator to the last."""
    ends: list[Front[Alternative]] = [Front(points=(), seen=0, proved=True)]
    for stop in range(1, len(explorer.workload.operators) + 1):
        ways: list[Front[Alternative]] = []
        for step in sorted(steps, key=lambda step: -step.start):
            if step.stop != stop or not (step.start == 0 or ends[step.start].points):
                continue
            front = fronts[id(step)]
            ways.append(explorer.join_fronts([ends[step.start], front]) if step.start else front)
        ends.append(ways[0] if len(ways) == 1 else explorer.merge_fronts(ways))
    return ends[-1]


def _staged_front(
    explorer: FrontSearch, staged: StagedAttention, granularity: str
) -> Front[Alternative]:
    """Return the front of L, softmax and A alone, and with resident rows."""
    problem = staged.problem
    merges = ((name, problem.merged_ranks(name)) for name in problem.part)
    search = partial(explorer.search.operator_candidates, explorer.workload)
    alone = explorer.join_fronts([explorer.front_of_group(search(*each)) for each in merges])
    resident = explorer.front_of_bodies(_resident(explorer, problem, granularity))
    return explorer.merge_fronts([alone, resident])


def _resident(explorer: FrontSearch, problem: AttentionProblem, granularity: str) -> Iterator[Body]:
    """Yield the best numbers of resident rows for each figure, and some others."""
    counts = candidate_counts(problem, granularity, explorer.accelerator)
    for objective in explorer.objectives:
        staged = StagedAttention(problem, explorer.searches[objective])
        with suppress(NothingFitsError):
            best = staged.map(granularity)
            yield from [best[0]] if best else []
        for count in sorted({*counts} - {0}) if objective != "footprint" else ():
            left = capacity(explorer.accelerator) - count * problem.row_bytes
            for at in range(_ROOMS):
                placed = staged.place(count, left >> 2 * at)
                if placed is not None:
                    yield stage_attention(problem, count, placed)


def _mapspace(explorer: FrontSearch, strategy: Strategy, options: Options) -> Front[Alternative]:
    """Return the front of the mappings found by searches for each figure and for their product."""
    constraints = parse_constraints(options.constraints)
    workload, accelerator = explorer.workload, explorer.accelerator
    choices = spatial.choices(workload, accelerator, strategy, constraints)
    wanted = dict.fromkeys((*explorer.objectives, "edp"))
    groups: dict[str, list[Body]] = {}
    for at, objective in enumerate(wanted):
        share = options.share(len(wanted) - at)
        share = replace(share, effort=replace(share.effort, objective=objective))
        for mapped in spatial.search_all(choices, share):
            groups.setdefault(mapped.target.einsum.name, []).extend(spatial.elite(mapped))
    parts = []
    for operator in workload.operators:
        if isinstance(operator, Vector):
            searched = explorer.search.operator_candidates(workload, operator.name)
            parts.append(explorer.front_of_group(searched))
        else:
            parts.append(explorer.front_of_bodies(groups[operator.name]))
    return replace(explorer.join_fronts(parts), proved=False)
