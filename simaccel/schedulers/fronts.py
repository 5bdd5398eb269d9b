"""The front of the mappings that each scheduler sees, by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from simaccel.analytic.family import Family
from simaccel.hardware import Accelerator
from simaccel.hardware.dataflow import parse_constraints
from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import Group
from simaccel.pareto import Front
from simaccel.schedulers import best, flat, flex, make_mapping, naive, spatial
from simaccel.schedulers.attention import AttentionProblem, problem_of
from simaccel.schedulers.chains import chain_family, chain_of
from simaccel.schedulers.front_search import FrontSearch
from simaccel.schedulers.resident_attention import GRANULARITIES, few_counts, stage_attention
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity
from simaccel.search.core_cuts import every_cut
from simaccel.search.effort import STRATEGIES, Objective, Strategy
from simaccel.search.front import Alternative, Figure, FrontFigures
from simaccel.search.grid_search import Goal
from simaccel.search.judge import Body
from simaccel.search.problems import Attention, NothingFitsError, Options, attention_of, parts
from simaccel.workload import Einsum, Vector, Workload

_ROOMS: Final = 2
"""Buffers, each a quarter of the one before, in which flex stages the rows that stay on chip."""
OBJECTIVE_OF: Final[dict[Figure, Objective]] = {
    "cycles": "cycles",
    "utilisation": "cycles",
    "energy": "energy",
    "edp": "edp",
    "dram-bytes": "dram-bytes",
    "footprint": "footprint",
}
"""What a search makes small for each figure."""


def front(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    asked: FrontFigures,
) -> Front[Alternative]:
    """Return the mappings of a scheduler that no other one it sees beats in both figures.

    Of each part of the workload (operators that are mapped together) the front is found alone, with
    its cycles on the machine; that of the workload follows, as parts run one after the other.

    Raises:
        NothingFitsError: no mapping of the scheduler fits the buffer.
        SimaccelError: as of ``make_mapping``.

    """
    goal = Goal.from_options(accelerator, options, workload)
    is_fixed = dataflow.partition("-")[0] == "naive"
    trees = partial(naive.fixed_search, options=options) if is_fixed else TreeSearch
    explorer = FrontSearch(workload, goal, asked, trees)
    best = _front(explorer, dataflow, options)
    if not best.points:
        raise NothingFitsError(
            f"{dataflow}: no mapping fits the buffer of {capacity(accelerator)} B"
        )
    return best


def _front(explorer: FrontSearch, dataflow: str, options: Options) -> Front[Alternative]:
    if dataflow in STRATEGIES:
        return _mapspace(explorer, dataflow, options)
    if dataflow == "best":
        return _best(explorer, options)
    name, _, granularity = dataflow.partition("-")
    which = granularity or GRANULARITIES
    if name not in ("naive", "flex", "flat", "flash"):
        return _single_front(explorer, dataflow, options)
    attention: Callable[[Attention], Front[Alternative]]
    if name in ("naive", "flex"):
        attention = partial(_staged_front, explorer, granularities=which)
    else:
        asked = which if name == "flat" else ""
        attention = partial(_fused_front, explorer, options=options, granularities=asked)
    return explorer.join_fronts(
        [
            attention(part) if isinstance(part, tuple) else explorer.operator(part)
            for part in parts(explorer.workload)
        ]
    )


def _single_front(explorer: FrontSearch, dataflow: str, options: Options) -> Front[Alternative]:
    """Return the single mapping of a scheduler without a search."""
    mapping = make_mapping(explorer.workload, explorer.accelerator, dataflow, options)
    return explorer.join_fronts([explorer.bodies([(one,)]) for one in mapping.body])


def _fused_front(
    explorer: FrontSearch, part: Attention, *, options: Options, granularities: str
) -> Front[Alternative]:
    """Return the front of an attention as one group: of all kinds of FLAT-tiles."""
    problem = problem_of(explorer.workload, part)
    empty = Group(operators=problem.part, tree=(), merged=problem.merged)

    def families(space: IterationSpace) -> list[Family]:
        piece = replace(problem, space=space)
        return flat.families(piece, explorer.accelerator, options, granularities)

    return explorer.grids(every_cut(empty, problem.space, explorer.goal, families), empty)


def _staged_front(
    explorer: FrontSearch, part: Attention, *, granularities: str
) -> Front[Alternative]:
    """Return the front of L, softmax and A on their own, and with rows that stay on chip."""
    problem = problem_of(explorer.workload, part)
    alone = explorer.join_fronts(
        [explorer.operator(name, problem.merged_ranks(name)) for name in part]
    )
    return explorer.merge_fronts(
        [alone, explorer.bodies(_resident(explorer, problem, granularities))]
    )


def _resident(
    explorer: FrontSearch, problem: AttentionProblem, granularities: str
) -> Iterator[Body]:
    rows = {
        rows
        for granularity in granularities
        for rows in few_counts(problem, granularity, explorer.accelerator)
    }
    objectives = {OBJECTIVE_OF[axis] for axis in (explorer.asked.x, explorer.asked.y)}
    for objective in sorted(objectives - {"footprint"} or objectives):
        search = explorer.trees(replace(explorer.goal, objective=objective))
        for count in sorted(rows - {0}):
            left = capacity(explorer.accelerator) - count * problem.row_bytes
            for at in range(_ROOMS):
                placed = flex.place_trees(problem, search, count, left >> 2 * at)
                if placed is not None:
                    yield stage_attention(problem, count, placed)


def _best(explorer: FrontSearch, options: Options) -> Front[Alternative]:
    """Return the front of all ways to cut the operators into runs, each mapped in all its ways."""
    names = [operator.name for operator in explorer.workload.operators]
    ends: list[Front[Alternative]] = [Front(points=(), seen=0, proved=True)]
    for stop in range(1, len(names) + 1):
        ways: list[Front[Alternative]] = []
        for start in range(stop - 1, max(-1, stop - 1 - best.LONGEST), -1):
            if explorer.goal.is_over and any(way.points for way in ways):
                break
            runs = _runs(explorer, names[start:stop], options)
            ways += (explorer.join_fronts([ends[start], run]) if start else run for run in runs)
        ends.append(explorer.merge_fronts(ways))
    return replace(ends[-1], proved=False)


def _runs(
    explorer: FrontSearch, names: Sequence[str], options: Options
) -> Iterator[Front[Alternative]]:
    """Yield the fronts of a run of operators: alone, as an attention, or fused by their rows."""
    workload = explorer.workload
    if len(names) == 1:
        yield explorer.operator(names[0])
        return
    attention = attention_of(workload, names)
    if attention is not None:
        yield _staged_front(explorer, attention, granularities=GRANULARITIES)
        for letters in (GRANULARITIES, ""):
            yield _fused_front(explorer, attention, options=options, granularities=letters)
        return
    operators = [workload.operator(name) for name in names]
    chain = chain_of(workload, names)
    if chain is None or sum(isinstance(operator, Einsum) for operator in operators) > best.EINSUMS:
        return

    def families(space: IterationSpace) -> list[Family]:
        return [chain_family(replace(chain, space=space), explorer.accelerator)]

    yield explorer.grids(every_cut(chain.group, chain.space, explorer.goal, families), chain.group)


def _mapspace(explorer: FrontSearch, strategy: Strategy, options: Options) -> Front[Alternative]:
    """Return the front of what searches for each of the figures, and for their product, found."""
    asked = parse_constraints(options.constraints)
    workload, accelerator = explorer.workload, explorer.accelerator
    choices = spatial.choices(workload, accelerator, strategy, asked)
    wanted = dict.fromkeys((OBJECTIVE_OF[explorer.asked.x], OBJECTIVE_OF[explorer.asked.y], "edp"))
    groups: dict[str, list[Body]] = {}
    for at, objective in enumerate(wanted):
        share = options.share(len(wanted) - at)
        share = replace(share, effort=replace(share.effort, objective=objective))
        for mapped in spatial.search_all(choices, share):
            groups.setdefault(mapped.target.einsum.name, []).extend(spatial.elite(mapped))
    parts = []
    for operator in workload.operators:
        if isinstance(operator, Vector):
            parts.append(explorer.operator(operator.name))
        else:
            parts.append(explorer.bodies(groups[operator.name]))
    return replace(explorer.join_fronts(parts), proved=False)
