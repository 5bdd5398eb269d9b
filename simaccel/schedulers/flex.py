"""Flex: each operator on its own with its best mapping (FLAT, Table 3, "Flex-opt").

Between L, softmax and A it keeps as much of the intermediate on chip as pays (`resident`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Around, Group, Mapping
from simaccel.schedulers.attention import Problem, problem_of
from simaccel.schedulers.choosing import CLOSE, Chosen, NothingFitsError, capacity
from simaccel.schedulers.confirming import fastest
from simaccel.schedulers.einsums import Search, Searched
from simaccel.schedulers.exchanges import Chances, Exchange
from simaccel.schedulers.held import best_held, best_of
from simaccel.schedulers.problems import Attention, Options, Scheduler, mapping_of, parts
from simaccel.schedulers.resident import (
    ERROR,
    GRANULARITIES,
    Body,
    Finalists,
    Placed,
    Stage,
    figures,
    parts_of,
    staged,
    units,
)
from simaccel.schedulers.search import Goal, account_of
from simaccel.workload import Workload

AttentionChoice = Callable[[Workload, Attention], Sequence[Group | Around]]


def schedule(
    workload: Workload, dataflow: str, search: Search, choices: Sequence[AttentionChoice]
) -> Mapping:
    """Schedule all operators, attentions by the one of ``choices`` with which all take the least.

    Raises:
        NotMappableError: the array can't do an operator.
        NothingFitsError: no tiling of an operator fits the buffer, by the first choice.

    """
    found = sequences(workload, search, choices)
    if search.accelerator.groups.resident:
        return mapping_of(workload, dataflow, best_held(workload, found, search))
    return mapping_of(workload, dataflow, best_of(workload, found, search.goal))


def sequences(
    workload: Workload, search: Search, choices: Sequence[AttentionChoice]
) -> list[Sequence[Group | Around]]:
    """Return all operators with attentions by each choice, after the first by those that fit."""
    first, *others = choices
    found = [_sequence(workload, search, first)]
    search.goal.asked.require_met()
    for choice in others:
        with suppress(NothingFitsError):
            found.append(_sequence(workload, search, choice))
    return found


def _sequence(
    workload: Workload, search: Search, attention: AttentionChoice
) -> Sequence[Group | Around]:
    body: list[Group | Around] = []
    for part in parts(workload):
        if isinstance(part, tuple):
            body += attention(workload, part)
        else:
            body.append(search.group(workload, part))
    return body


def each_of(granularities: str, workload: Workload, goal: Goal) -> list[str]:
    """Return granularities together, and each of them where it may be better with other operators.

    What an attention takes is then not all that decides: what can be held between groups differs,
    or energy times delay is asked for, and that of parts doesn't add up.
    """
    every = parts(workload)
    products = goal.objective == "edp" and len(every) > 1
    several = len(granularities) > 1 and any(isinstance(part, tuple) for part in every)
    if several and (products or goal.accelerator.groups.resident):
        return [granularities, *granularities]
    return [granularities]


def _searched(problem: Problem, search: Search, *, whole: bool) -> Iterator[tuple[Searched, str]]:
    """Yield L, softmax and A alone; ``whole``: all of what is between them is around them."""
    workload = problem.workload
    for name, held in parts_of(problem):
        merged = problem.merged_of(name)
        if name == problem.part[1]:
            kept = (held,) if whole else ()
            yield search.vector(workload, name, merged=merged, kept=kept, over=whole), held
        else:
            yield search.einsum(workload, name, (held,) if whole else (), merged=merged), held


def placed(
    problem: Problem, search: Search, rows: int, room: int, limit: float = float("inf")
) -> list[Placed] | None:
    """Return the best trees of L, softmax and A in so much room.

    None if nothing fits, or if all together are not below ``limit`` with so many resident rows.
    """
    every = every_row(problem)
    searched = list(_searched(problem, search, whole=rows == every))
    least = [one.candidates.bound(room) for one, _ in searched]
    left = _spilled(problem, search, rows, limit) - sum(least)
    found = []
    for (one, held), bound in zip(searched, least, strict=True):
        chosen = one.best(room, left + bound)
        if chosen is None:
            return None
        left -= chosen.value - bound
        found.append((one.group, held, chosen.tree))
    return found


def _spilled(problem: Problem, search: Search, rows: int, limit: float) -> float:
    """Return what L, softmax and A alone, with no resident rows, are below if they are with some.

    Together they take less than that by what is loaded and stored beside the one before or behind:
    twice a buffer full, at most.
    """
    accelerator = search.accelerator
    if not search.goal.timed or accelerator.buffer.capacity_bytes is None:
        return float("inf")
    beside = accelerator.transfer_cycles(accelerator.buffer.capacity_bytes, None, write=False)
    beside += accelerator.dram.latency_cycles
    share, rest = _share(problem, search, rows)
    return (limit + 2 * beside * accelerator.groups.overlap - rest) / share


def every_row(problem: Problem) -> int:
    """Return the rows of the intermediate of all samples and heads."""
    return problem.size(problem.heads) * problem.size(problem.rows)


def bound(problem: Problem, search: Search) -> float:
    """Return what no objective by the closed form is below; infinite where nothing fits."""
    every, (_, most) = every_row(problem), units(problem, "r", search.accelerator)
    some = min(most, every - 1)  # of all rows are resident at most, beside others
    found = _promise(problem, search, some, capacity(search.accelerator))
    return min(found, _promise(problem, search, every)) if most == every else found


def _promise(problem: Problem, search: Search, rows: int, room: int | None = None) -> float:
    """Return what no objective with so many resident rows is below.

    The others take no less than their share of all rows would; resident ones no less than array
    and SFU work on theirs. ``room``: bytes beside them, by default what they leave.
    """
    if room is None:
        room = capacity(search.accelerator) - rows * problem.row_bytes
    share, rest = _share(problem, search, rows)
    whole = rows == every_row(problem)
    grids = [one.candidates for one, _ in _searched(problem, search, whole=whole)]
    return share * sum(grid.bound(room) for grid in grids) + rest


def _share(problem: Problem, search: Search, rows: int) -> tuple[float, float]:
    """Return the share of all rows that isn't resident, and what the others take at least."""
    every = every_row(problem)
    share = 1.0 if rows == every else 1 - rows / every
    if search.goal.objective != "cycles":
        return share, 0.0
    searched = _searched(problem, search, whole=rows == every)
    grids = [one.candidates for one, _ in searched]
    work = sum(min(int(one.work().min()) for one in grid.totals) for grid in grids)
    return share, (1 - share) * work


def attention(
    workload: Workload,
    part: Attention,
    *,
    search: Search,
    granularities: str = GRANULARITIES,
    limit: float = float("inf"),
) -> tuple[Body, float]:
    """Return the best of all granularities, and its objective.

    The best few of each are run on the machine. What can't be better than ``limit`` is left out.

    Raises:
        NothingFitsError: no tiling fits the buffer.

    """
    problem, goal = problem_of(workload, part), search.goal
    stage = Stage(
        problem,
        goal,
        lambda rows, room, limit: placed(problem, search, rows, room, limit),
        promise=lambda rows: _promise(problem, search, rows),
        limit=limit,
    )
    found = Finalists([stage.few(one) for one in granularities])
    bodies, kinds = found.bodies, found.numbers
    if not bodies:
        raise NothingFitsError(f"{'+'.join(part)}: no tiling fits the buffer of {goal.room} B")
    exchange = Exchange(problem, goal, lambda rows: _chances(problem, search, rows))
    for one in (*exchange.better(found.kinds), *_confirmed(problem, search, found)):
        kinds.append([len(bodies)])
        bodies.append(one)
    accounts = [
        replace(account_of(one.candidates, goal.room, ""), left=0.0)
        for one, _ in _searched(problem, search, whole=False)
    ]
    at, value = fastest(goal, workload, bodies, accounts, "flex", ERROR, kinds=kinds)
    return bodies[at][0], value


def _confirmed(problem: Problem, search: Search, found: Finalists) -> Iterator[tuple[Body, Chosen]]:
    """Yield L, softmax and A with the best of each, near its grid and by the machine.

    Beside the rows that stay in the best of each granularity. What is little of all three is not
    searched for.
    """
    goal = search.goal
    if goal.objective == "cycles" and not goal.patience:
        least = min(chosen.value for _, chosen in found.bodies)
        goal = replace(goal, slack=max(goal.slack, CLOSE * least / len(problem.part)))
    for rows in dict.fromkeys(next(iter(kind)) for kind in found.kinds if kind):
        whole, held_bytes = rows == every_row(problem), rows * problem.row_bytes
        placed: list[Placed] = []
        for one, held in _searched(problem, search, whole=whole):
            with suppress(SimaccelError):  # the machine takes fewer trees than the closed form
                kept = (held,) if whole else ()
                chosen = replace(one, goal=goal).fastest(problem.workload, held_bytes, kept)
                placed += [(one.group, held, chosen.tree)] if chosen else []
        if len(placed) == len(problem.part):
            body = staged(problem, rows, placed)
            chosen = figures(problem.workload, body, search.goal)
            if chosen.buffer_bytes <= search.goal.room:
                yield body, chosen


def _chances(problem: Problem, search: Search, rows: int) -> list[Chances]:
    """Return all trees of L, softmax and A beside so many rows, where they are few."""
    room = search.goal.room - rows * problem.row_bytes
    searched = _searched(problem, search, whole=rows == every_row(problem))
    return [Chances(one.group, held, one.few(room)) for one, held in searched]


def choices(
    workload: Workload, search: Search, granularities: str = GRANULARITIES
) -> list[AttentionChoice]:
    """Return how attentions are mapped: by all granularities, and by each that may be better."""
    quiet = search.quiet()

    def choice(which: str, workload: Workload, part: Attention) -> Body:
        one = search if which == granularities else quiet
        return attention(workload, part, granularities=which, search=one)[0]

    return [partial(choice, which) for which in each_of(granularities, workload, search.goal)]


def _schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, granularities: str, name: str
) -> Mapping:
    search = Search(Goal.of(accelerator, options, workload))
    return schedule(workload, name, search, choices(workload, search, granularities))


SCHEDULERS: dict[str, Scheduler] = {
    f"flex-{one}": partial(_schedule, granularities=one, name=f"flex-{one}")
    for one in GRANULARITIES
}
SCHEDULERS["flex"] = partial(_schedule, granularities=GRANULARITIES, name="flex")
