"""Flex: each operator on its own with its best mapping (FLAT, Table 3, "Flex-opt").

Between L, softmax and A the intermediate of the whole batch is alive. Flex keeps as much of
it on chip as fits in units of the granularity (all samples and heads, a sample, a head, a
row block) and spills the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from simaccel.analytic.estimate import estimate
from simaccel.mapping.tree import Around, Group, Keep, Mapping, Part, Span, Tree
from simaccel.hardware import Accelerator
from simaccel.schedulers.attention import Problem, problem_of
from simaccel.schedulers.choosing import NothingFitsError, capacity
from simaccel.schedulers.einsums import Search, Searched
from simaccel.schedulers.problems import Attention, Options, Scheduler, mapping_of, parts
from simaccel.workload import Workload

GRANULARITIES = "mbhr"
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.875, 0.9375, 0.96875, 1.0)
"""Shares of the largest possible resident part that are tried."""
_CONFIRMED = 3

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
    return mapping_of(workload, dataflow, body)


@dataclass(frozen=True)
class Staged:
    """L, softmax and A one after the other, with ``rows`` of the intermediate kept on chip."""

    problem: Problem
    rows: int
    score: float
    body: tuple[Group | Around, ...]


def staged(workload: Workload, part: Attention, granularity: str, search: Search) -> list[Staged]:
    """Return L, softmax and A with several shares of the intermediate kept on chip."""
    problem = problem_of(workload, part)
    g, q = problem.size(problem.heads), problem.size(problem.rows)
    unit = {
        "m": g * q,
        "b": problem.per_sample * q,
        "h": q,
        "r": min(q, search.accelerator.array.rows),
    }[granularity]
    row_bytes = problem.size((problem.c,)) * _width(problem)
    rows = min(g * q, capacity(search.accelerator) // row_bytes)
    most = rows // unit
    tried = sorted({int(most * share) * unit for share in _SHARES})
    if not _simple(problem):
        tried = [0]
    return [found for kept in tried if (found := _with_resident(problem, kept, search))]


def _simple(problem: Problem) -> bool:
    """Whether the intermediate is rows of heads: what is kept of it then are at most two boxes."""
    return len(problem.heads) <= 1 and len(problem.rows) == 1


def _width(problem: Problem) -> int:
    seen = problem.space.seen(problem.part[1])
    return max(seen.inputs[0].bytes_per_element, seen.output.bytes_per_element)


def _with_resident(problem: Problem, kept_rows: int, search: Search) -> Staged | None:
    """Return the best mappings beside ``kept_rows`` resident rows, or None if nothing fits."""
    workload, (logit, softmax, attend) = problem.workload, problem.part
    g, q = problem.size(problem.heads), problem.size(problem.rows)
    share = kept_rows / (g * q)
    room = capacity(search.accelerator) - kept_rows * problem.size((problem.c,)) * _width(problem)
    score, groups = 0.0, []
    weights = workload.operator(softmax).output.tensor
    for name, held in ((logit, problem.tensors[2]), (attend, weights)):
        spilled = search.einsum(workload, name)
        resident = search.einsum(workload, name, (held,))
        found = _both(spilled, resident, share, room)
        if found is None:
            return None
        cycles, trees = found
        score += cycles
        groups.append((spilled.group, trees))
    rows = search.vector(workload, softmax)
    chosen = rows.best(room)
    if chosen is None:
        return None
    score += chosen.cycles
    without = tuple(node for node in chosen.tree if not isinstance(node, Keep))
    groups.insert(1, (rows.group, (chosen.tree, without)))
    return Staged(problem, kept_rows, score, _body(problem, kept_rows, groups))


def _both(
    spilled: Searched, resident: Searched, share: float, room: int
) -> tuple[float, tuple[Tree, Tree]] | None:
    """Return the best trees of spilled and resident rows that fit together."""
    one, other = spilled.best(room), resident.best(room)
    if other is None or (one is None and share < 1):
        return None
    if one is None:
        return other.cycles, (other.tree, other.tree)
    if share in (0, 1):
        return (other if share else one).cycles, (one.tree, other.tree)
    # tiles of one name share their slots, so together they need what the larger of each needs
    names = {node.tensor for node in other.tree if isinstance(node, Keep)}
    trees = one.tree, tuple(
        node for node in one.tree if not isinstance(node, Keep) or node.tensor in names
    )
    cycles = (1 - share) * one.cycles + share * min(one.cycles, other.cycles)
    return cycles, trees


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
        tree = _parted(problem, group, (heads, part, g), spilled, resident)
        found.append(replace(group, tree=tree))
    return (Around(keeps=tuple(keeps), groups=tuple(found)),)


def _region(
    problem: Problem, heads: tuple[int, int], rows: tuple[int, int], c: int
) -> tuple[Span, ...]:
    spans = [Span(*heads)] if problem.heads else []
    return (*spans, Span(*rows), Span(0, c))


def _parted(
    problem: Problem, group: Group, kept: tuple[int, int, int], spilled: Tree, resident: Tree
) -> Tree:
    """Return the tree of whole heads kept, of a part of one, and of the rest."""
    heads, part, g = kept
    q = problem.rows[0]
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
    del group
    return (Part(problem.heads[0], tuple(sizes[:-1]), tuple(branches)),)


def _attention(
    workload: Workload, part: Attention, *, granularities: str, search: Search
) -> Sequence[Group | Around]:
    found = [one for x in granularities for one in staged(workload, part, x, search)]
    unique = {one.rows: one for one in found}
    if not unique:
        room = capacity(search.accelerator)
        raise NothingFitsError(f"{'+'.join(part)}: no tiling fits the buffer of {room} B")
    likely = sorted(unique.values(), key=lambda one: (one.score, one.rows))[:_CONFIRMED]
    return min(likely, key=lambda one: _cost(workload, one, search.accelerator)).body


def _cost(workload: Workload, one: Staged, accelerator: Accelerator) -> tuple[int, int]:
    """Return cycles, then bytes that cross the DRAM channels."""
    whole = estimate(workload, mapping_of(workload, "", one.body), accelerator)
    moved = sum(n for (level, _), n in whole.moved.items() if level.startswith("dram"))
    return whole.cycles, moved


def _schedule(
    workload: Workload, accelerator: Accelerator, _: Options, *, granularities: str, name: str
) -> Mapping:
    search = Search(accelerator)
    return schedule(
        workload, name, search, partial(_attention, granularities=granularities, search=search)
    )


SCHEDULERS: dict[str, Scheduler] = {
    f"flex-{one}": partial(_schedule, granularities=one, name=f"flex-{one}")
    for one in GRANULARITIES
}
SCHEDULERS["flex"] = partial(_schedule, granularities=GRANULARITIES, name="flex")
