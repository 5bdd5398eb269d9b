"""Flex: each operator on its own with its best mapping (FLAT, Table 3, "Flex-opt").

Between L, softmax and A the intermediate of the whole batch is alive. Flex keeps as much of
it on chip as fits in units of the granularity (all samples and heads, a sample, a head, a
row block) and spills the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from simaccel.analytic.estimate import estimate
from simaccel.hardware import Accelerator
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Around, Group, Keep, Mapping, Part, Span, Tree
from simaccel.schedulers.attention import Problem, problem_of
from simaccel.schedulers.choosing import Chosen, NothingFitsError, capacity
from simaccel.schedulers.einsums import Search, Searched
from simaccel.schedulers.problems import Attention, Options, Scheduler, mapping_of, parts
from simaccel.schedulers.resident import held_between
from simaccel.schedulers.search import Goal, account_of, fastest
from simaccel.workload import Workload

GRANULARITIES = "mbhr"
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.875, 0.9375, 0.96875, 1.0)
"""Shares of the largest possible resident part that are tried."""
_FEW = 2
"""Resident parts of a granularity that are run on the machine."""

AttentionChoice = Callable[[Workload, Attention], Sequence[Group | Around]]


def schedule(
    workload: Workload, dataflow: str, search: Search, attention: AttentionChoice
) -> Mapping:
    """Schedule all operators, attentions by ``attention``.

    Raises:
        NotMappableError: the array can't do an operator.
        NothingFitsError: no tiling of an operator fits the buffer.

    """
    body: list[Group | Around] = []
    for part in parts(workload):
        if isinstance(part, tuple):
            body += attention(workload, part)
        else:
            body.append(search.group(workload, part))
    search.goal.asked.require_met()
    if search.accelerator.groups.resident:
        body = [*held_between(workload, body, search)]
    return mapping_of(workload, dataflow, body)


Body = tuple[Group | Around, ...]
Staged = tuple[int, tuple[Body, Chosen]]
"""Rows that stay on chip, and the groups with their figures."""


def resident_rows(problem: Problem, granularity: str, accelerator: Accelerator) -> list[int]:
    """Return how many rows of the intermediate may stay on chip, in units of a granularity."""
    g, q = problem.size(problem.heads), problem.size(problem.rows)
    unit = {
        "m": g * q,
        "b": problem.per_sample * q,
        "h": q,
        "r": min(q, accelerator.array.rows),
    }[granularity]
    most = min(g * q, capacity(accelerator) // problem.row_bytes) // unit
    if len(problem.heads) > 1 or len(problem.rows) != 1:
        return [0]  # what is kept would be more boxes than two
    return sorted({int(most * share) * unit for share in _SHARES})


def _parts(problem: Problem, rows: int, search: Search) -> Iterator[tuple[Searched, str]]:
    """Yield L, softmax and A alone, each with the intermediate that it reads or makes."""
    workload, (logit, softmax, attend) = problem.workload, problem.part
    every = rows == problem.size(problem.heads) * problem.size(problem.rows)
    s, weights = problem.tensors[2], workload.operator(softmax).output.tensor
    for name, held in ((logit, s), (softmax, s), (attend, weights)):
        merged = problem.merged_of(name)
        if name == softmax:
            yield search.vector(workload, name, merged=merged), held
        else:
            yield search.einsum(workload, name, (held,) if every else (), merged=merged), held


def _room(problem: Problem, rows: int, search: Search) -> int:
    """Return the bytes that ``rows`` of the intermediate leave of the buffer."""
    return capacity(search.accelerator) - rows * problem.row_bytes


def staged(problem: Problem, rows: int, search: Search, room: int | None = None) -> Body | None:
    """Return L, softmax and A one after the other, with ``rows`` of the intermediate kept on chip.

    Resident rows have the tiles of the others, so that they share their slots. None if nothing
    fits into the ``room`` beside them (bytes; by default all that is left).
    """
    groups = []
    if room is None:
        room = _room(problem, rows, search)
    for found, held in _parts(problem, rows, search):
        chosen = found.best(room)
        if chosen is None:
            return None
        resident = tuple(
            node for node in chosen.tree if not isinstance(node, Keep) or node.tensor != held
        )
        groups.append((found.group, (chosen.tree, resident)))
    return _body(problem, rows, groups)


def _body(
    problem: Problem, rows: int, groups: Sequence[tuple[Group, tuple[Tree, Tree]]]
) -> tuple[Group | Around, ...]:
    if not rows:
        return tuple(replace(group, tree=spilled) for group, (spilled, _) in groups)
    q, c = problem.size(problem.rows), problem.size((problem.c,))
    g = problem.size(problem.heads)
    heads, part = divmod(rows, q)
    s = problem.tensors[2]
    keeps = []
    if heads:
        keeps.append(Keep(s, slots=1, region=_region(problem, (0, heads), (0, q), c)))
    if part:
        keeps.append(Keep(s, slots=1, region=_region(problem, (heads, heads + 1), (0, part), c)))
    found = []
    for group, (spilled, resident) in groups:
        view = next(
            view
            for _, view in space_of(problem.workload, group).operators[0].uses
            if view.name in problem.intermediates
        )
        tree = _parted(view.ranks, (heads, part, g), spilled, resident)
        found.append(replace(group, tree=tree))
    return (Around(keeps=tuple(keeps), groups=tuple(found)),)


def _region(
    problem: Problem, heads: tuple[int, int], rows: tuple[int, int], c: int
) -> tuple[Span, ...]:
    spans = [Span(*heads)] if problem.heads else []
    return (*spans, Span(*rows), Span(0, c))


def _parted(
    ranks: Sequence[str], kept: tuple[int, int, int], spilled: Tree, resident: Tree
) -> Tree:
    """Return the tree of whole heads kept, of a part of one, and of the rest.

    ``ranks`` of the intermediate: of heads if there are any, of rows, of keys.
    """
    heads, part, g = kept
    q = ranks[-2]
    branches: list[Tree] = []
    sizes: list[int] = []
    if heads:
        branches.append(resident)
        sizes.append(heads)
    if part:
        branches.append((Part(q, (part,), (resident, spilled)),))
        sizes.append(1)
    if heads + bool(part) < g:
        branches.append(spilled)
        sizes.append(g - heads - bool(part))
    if len(branches) == 1:
        return branches[0]
    return (Part(ranks[0], tuple(sizes[:-1]), tuple(branches)),)


def bound(problem: Problem, search: Search, granularities: str = GRANULARITIES) -> float:
    """Return what no objective by the closed form is below; infinite where nothing fits."""
    return min(
        _promise(problem, rows, search)
        for granularity in granularities
        for rows in resident_rows(problem, granularity, search.accelerator)
    )


def _promise(problem: Problem, rows: int, search: Search) -> float:
    room = _room(problem, rows, search)
    return sum(found.candidates.bound(room) for found, _ in _parts(problem, rows, search))


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
    known: dict[int, tuple[Body, Chosen] | None] = {}
    found: dict[int, tuple[Body, Chosen]] = {}

    def figured(counts: Sequence[int]) -> Iterator[Staged]:
        for rows in counts:
            if rows not in known and _promise(problem, rows, search) < limit:
                body = staged(problem, rows, search)
                known[rows] = (body, _figures(workload, body, goal)) if body else None
            one = known.get(rows)
            if one:
                yield rows, one

    for granularity in granularities:
        tried = resident_rows(problem, granularity, search.accelerator)
        mine = sorted(figured(tried), key=_rank)
        found |= dict(mine[:_FEW])
        if mine:
            found |= dict(sorted(figured(_between(tried, mine[0][0])), key=_rank)[:1])
    if not found:
        raise NothingFitsError(f"{'+'.join(part)}: no tiling fits the buffer of {goal.room} B")
    bodies = list(found.values())
    accounts = [
        replace(account_of(one.candidates, goal.room, ""), left=0.0)
        for one, _ in _parts(problem, 0, search)
    ]
    at, value = fastest(goal, workload, bodies, accounts, "flex")
    return bodies[at][0], value


def _rank(one: Staged) -> tuple[float, int, int]:
    return one[1][1].rank


def _between(tried: Sequence[int], best: int) -> list[int]:
    """Return whole units half way between the best number of rows and the ones next to it."""
    unit, at = math.gcd(*tried), tried.index(best)
    near = tried[max(0, at - 1) : at + 2]
    halves = {(one + best) // 2 // unit * unit for one in near} if unit else set()
    return sorted(halves - {*tried})


def _figures(workload: Workload, body: Body, goal: Goal) -> Chosen:
    """Return the objective of some groups by the closed form."""
    whole = estimate(workload, mapping_of(workload, "", body), goal.accelerator)
    moved = sum(n for (level, _), n in whole.moved.items() if level.startswith("dram"))
    energy = sum(whole.energy_pj.values())
    value = {
        "cycles": whole.cycles,
        "energy": energy,
        "edp": energy * whole.cycles,
        "dram-bytes": moved,
        "footprint": whole.buffer_bytes,
    }[goal.objective]
    return Chosen((), float(value), whole.cycles, moved, whole.buffer_bytes)


def _schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, granularities: str, name: str
) -> Mapping:
    search = Search(Goal.of(accelerator, options))

    def choice(workload: Workload, part: Attention) -> Body:
        return attention(workload, part, granularities=granularities, search=search)[0]

    return schedule(workload, name, search, choice)


SCHEDULERS: dict[str, Scheduler] = {
    f"flex-{one}": partial(_schedule, granularities=one, name=f"flex-{one}")
    for one in GRANULARITIES
}
SCHEDULERS["flex"] = partial(_schedule, granularities=GRANULARITIES, name="flex")
