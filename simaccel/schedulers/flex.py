"""Flex: each operator on its own with its best mapping (FLAT, Table 3, "Flex-opt").

Between L, softmax and A it keeps as much of the intermediate on chip as pays (`resident`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from simaccel.analytic.evaluation import memory_work
from simaccel.analytic.family import Ints, ints
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Group, Mapping, ResidentScope
from simaccel.numbers import in_bytes
from simaccel.schedulers.at_once import fastest_at_once
from simaccel.schedulers.attention import AttentionProblem, problem_of
from simaccel.schedulers.epilogues import chains, fuse_epilogue
from simaccel.schedulers.near_ways import save_within
from simaccel.schedulers.residency import best_held, may_differ
from simaccel.schedulers.resident_attention import (
    GRANULARITIES,
    Placed,
    ResidentSearch,
    choose_mapping,
    parts_of,
    units,
)
from simaccel.schedulers.sequences import best_of, finish_mapping, unique
from simaccel.schedulers.tree_search import OperatorCandidateSet, TreeSearch
from simaccel.search.accounts import BOUND, SearchAccount
from simaccel.search.candidate_set import capacity
from simaccel.search.grid_search import Goal
from simaccel.search.judge import Body
from simaccel.search.problems import Attention, NothingFitsError, Options, Scheduler, parts
from simaccel.workload import Workload

AttentionChoice = Callable[[Workload, Attention], Sequence[Group | ResidentScope]]


def schedule(
    workload: Workload, dataflow: str, search: TreeSearch, choices: Sequence[AttentionChoice]
) -> Mapping:
    """Schedule all operators, attentions by the one of ``choices`` with which all take the least.

    Raises:
        NotMappableError: the array can't do an operator.
        NothingFitsError: no tiling of an operator fits the buffer, by the first choice.

    """
    fronts = sequences(workload, search, choices)
    if search.accelerator.compiler.resident:
        best = best_held(workload, fronts, search)
    else:
        best = best_of(workload, fronts, search.goal)
    best = save_within(workload, best, search)
    best = fastest_at_once(workload, unique([best, *fronts[:1]]), search)
    return finish_mapping(workload, dataflow, best, search.goal)


def sequences(
    workload: Workload, search: TreeSearch, choices: Sequence[AttentionChoice]
) -> list[Sequence[Group | ResidentScope]]:
    """Return all operators with attentions by each choice, after the first by those that fit.

    Of others none may be better where they don't differ in what is held beside them.
    """
    first, *others = choices
    bodies = [_sequence(workload, search, first)]
    search.goal.asked.require_met()
    if search.goal.is_over or (
        others and search.goal.objective != "edp" and not may_differ(workload, bodies[0], search)
    ):
        return bodies
    for choice in others:
        with suppress(NothingFitsError):
            bodies.append(_sequence(workload, search, choice))
    return bodies


def _sequence(
    workload: Workload, search: TreeSearch, attention: AttentionChoice
) -> Sequence[Group | ResidentScope]:
    body: list[Group | ResidentScope] = []
    behind = chains(workload) if search.accelerator.compiler.epilogues else {}
    done: set[str] = set()
    for part in parts(workload):
        if isinstance(part, tuple):
            body += attention(workload, part)
            continue
        fuses = part in behind and not search.goal.is_over
        together = fuse_epilogue(workload, behind[part], search) if fuses else None
        if together is not None:
            done |= set(together.operators)
            body.append(together)
        elif part not in done:
            body.append(search.group(workload, part))
    return body


def granularity_choices(granularities: str, workload: Workload, goal: Goal) -> list[str]:
    """Return the granularities as one choice, and also one by one where that may be better.

    The best attention alone need not be best in its workload: tensors can be held between groups,
    or the objective is energy times delay, which is no sum over the parts of a workload.
    """
    every = parts(workload)
    products = goal.objective == "edp" and len(every) > 1
    several = len(granularities) > 1 and any(isinstance(part, tuple) for part in every)
    if several and (products or goal.accelerator.compiler.resident):
        return [granularities, *granularities]
    return [granularities]


def _search_apart(
    problem: AttentionProblem, search: TreeSearch, rows: int
) -> Iterator[tuple[OperatorCandidateSet, str]]:
    """Yield the candidates of L, softmax and A as separate groups, each with the tensor it shares.

    With all ``rows`` resident that tensor is kept around the groups; with any, one core does all.
    """
    workload, whole = problem.workload, rows == every_row(problem)
    search = search.on_one_core() if rows else search
    for name, held in parts_of(problem):
        merged, kept = problem.merged_ranks(name), (held,) if whole else ()
        yield search.operator_candidates(workload, name, merged, kept, over=whole), held


def place_trees(
    problem: AttentionProblem, search: TreeSearch, rows: int, room: int
) -> list[Placed] | None:
    """Return the best trees of L, softmax and A in so much room; None if nothing fits."""
    taken, places = capacity(search.accelerator) - room, []
    for operator_search, held in _search_apart(problem, search, rows):
        best = operator_search.fastest(taken)
        if best is None:
            return None
        places.append((operator_search.group, held, best.tree))
    return places


def every_row(problem: AttentionProblem) -> int:
    """Return the rows of the intermediate of all samples and heads."""
    return problem.size(problem.heads) * problem.size(problem.rows)


def bound(problem: AttentionProblem, search: TreeSearch) -> float:
    """Return what no objective of L, softmax and A is below; infinite where nothing fits."""
    every, (_, most) = every_row(problem), units(problem, "r", search.accelerator)
    room = capacity(search.accelerator)
    some = min(most, every - 1)  # of all rows are resident at most, beside others
    found = min(_promise(problem, search, rows, room) for rows in {0, some})
    if most < every:
        return found
    return min(found, _promise(problem, search, every, room - every * problem.row_bytes))


def _promise(problem: AttentionProblem, search: TreeSearch, rows: int, room: int) -> float:
    """Return a lower bound of the objective with so many resident rows, and ``room`` bytes taken.

    Rows that are not resident take at least their share of what all rows would take; resident ones
    at least the work of array and SFU on them. From the sum goes what may be loaded and stored
    beside the operators before and after.
    """
    share, rest = _share(problem, search, rows)
    grids = [operator.candidates for operator, _ in _search_apart(problem, search, rows)]
    alone = share * sum(grid.bound(room) for grid in grids) + rest
    if search.goal.objective != "cycles" or alone == float("inf"):
        return alone
    return max(alone - _saved_cycles(search), least_work(problem, search))


def least_work(problem: AttentionProblem, search: TreeSearch) -> float:
    """Return the cycles that L, softmax and A take, whatever is on chip of other tensors.

    Those of array and SFU, or of the rows of the intermediate that can't stay.
    """
    count, (_, resident) = every_row(problem), units(problem, "r", search.accelerator)
    works = [alone.candidates.least_work for alone, _ in _search_apart(problem, search, 0)]
    transfers = []
    for name, _ in parts_of(problem):
        moved: dict[tuple[str, str], Ints] = {}
        seen = problem.space.bound_operator(name)
        for view in (*seen.inputs, seen.output):
            if view.name in problem.intermediates:
                level = "dram_write" if view is seen.output else "dram_read"
                n_bytes = in_bytes(problem.size(view.ranks), view.bits)
                moved[level, view.name] = ints(n_bytes * (count - resident) // count)
        cycles_by_memory = memory_work(search.accelerator, problem.workload, moved)
        transfers.append(max(map(int, cycles_by_memory.values()), default=0))
    longest = sum(map(max, works, transfers)) - _saved_cycles(search)
    return max(sum(works), longest)


def _saved_cycles(search: TreeSearch) -> float:
    """Return the cycles that L, softmax and A together save: two transfers of a buffer full."""
    accelerator = search.accelerator
    room = accelerator.buffer.capacity_bytes
    if room is None:
        return float("inf")
    once = accelerator.transfer_cycles(room, None, write=False) + accelerator.dram.latency_cycles
    return float(2 * once * bool(accelerator.compiler.overlap))


def _share(problem: AttentionProblem, search: TreeSearch, rows: int) -> tuple[float, float]:
    """Return the share of all rows that isn't resident, and what the others take at least."""
    every = every_row(problem)
    share = 1.0 if rows == every else 1 - rows / every
    if search.goal.objective != "cycles":
        return share, 0.0
    grids = [one.candidates for one, _ in _search_apart(problem, search, rows)]
    work = sum(grid.least_work for grid in grids)
    return share, (1 - share) * work


def attention(
    workload: Workload,
    part: Attention,
    *,
    search: TreeSearch,
    goal: Goal | None = None,
    granularities: str = GRANULARITIES,
    limit: float = float("inf"),
) -> tuple[Body, float]:
    """Return the best of all granularities, and its objective.

    What can't be better than ``limit`` is left out. ``goal``: of all three together, if it isn't
    that of each alone.

    Raises:
        NothingFitsError: no tiling fits the buffer.

    """
    problem, quiet, goal = problem_of(workload, part), search.quiet(), goal or search.goal
    apart = [operator.candidates for operator, _ in _search_apart(problem, quiet, 0)]
    before = len(goal.judge.outcomes)
    stage = ResidentSearch(
        problem,
        goal,
        lambda rows, room: place_trees(problem, quiet, rows, room),
        lambda rows, room: _promise(problem, quiet, rows, room),
        max(candidates.smallest for candidates in apart),
        limit,
    )
    best = choose_mapping([stage.best(name) for name in granularities], goal)
    if best is None:
        raise NothingFitsError(f"{'+'.join(part)}: no tiling fits the buffer of {goal.room} B")
    space = sum(map(len, apart))
    ran = len(goal.judge.outcomes) - before  # of the three alone and together
    account = SearchAccount(
        name="flex",
        operators=part,
        space=space,
        pruned={BOUND: space},
        ran=ran,
        near=ran,
        value=best.scored.value,
        ended="rows",
    )
    goal.note(account)
    return best.body, best.scored.value


def choices(
    workload: Workload, search: TreeSearch, granularities: str = GRANULARITIES
) -> list[AttentionChoice]:
    """Return how attentions are mapped: by all granularities, and by each that may be better."""
    quiet = search.quiet()

    def choice(which: str, workload: Workload, part: Attention) -> Body:
        by = search if which == granularities else quiet
        return attention(workload, part, granularities=which, search=by)[0]

    names = granularity_choices(granularities, workload, search.goal)
    return [partial(choice, which) for which in names]


def _schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, granularities: str, name: str
) -> Mapping:
    search = TreeSearch(Goal.from_options(accelerator, options, workload))
    return schedule(workload, name, search, choices(workload, search, granularities))


SCHEDULERS: dict[str, Scheduler] = {
    f"flex-{one}": partial(_schedule, granularities=one, name=f"flex-{one}")
    for one in GRANULARITIES
}
SCHEDULERS["flex"] = partial(_schedule, granularities=GRANULARITIES, name="flex")
