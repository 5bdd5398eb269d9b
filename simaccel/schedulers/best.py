"""Best: any fusion of consecutive operators, each with its best mapping.

What each run of consecutive operators takes as one group is found once; the workload's mapping is
the cheapest way to cut its operators into such runs (dynamic programming over the cuts). Fused runs
whose bound is no better than what their parts take are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Around, Group, Mapping
from simaccel.schedulers import flat, flex
from simaccel.schedulers.chains import chain_families, chain_of
from simaccel.schedulers.choosing import Chosen
from simaccel.schedulers.einsums import Search
from simaccel.schedulers.problems import Attention, Options, Scheduler, attention_of, mapping_of
from simaccel.schedulers.search import Goal, fastest, ranked
from simaccel.workload import Einsum, Workload

LONGEST = 5
"""Operators in a fused run, at most."""
EINSUMS = 3
"""Einsums among them, at most."""
_GAIN = 0.002
"""What a fused run has to promise, by its bound, to be searched."""


@dataclass(frozen=True)
class Run:
    """Consecutive operators as they are mapped best, and their objective."""

    body: tuple[Group | Around, ...]
    value: float


def _schedule(workload: Workload, accelerator: Accelerator, options: Options) -> Mapping:
    goal = Goal.of(accelerator, options)
    search = Search(goal)
    names = [operator.name for operator in workload.operators]
    best: list[Run] = [Run((), 0.0)]
    for stop in range(1, len(names) + 1):
        found = _joined(best[stop - 1], _alone(workload, names[stop - 1], search))
        for start in range(stop - 2, max(-1, stop - 1 - LONGEST), -1):
            room = found.value - best[start].value
            for run in _fused(workload, names[start:stop], search, options, room):
                whole = _joined(best[start], run)
                found = whole if whole.value < found.value else found
        best.append(found)
    return mapping_of(workload, "best", best[-1].body)


def _joined(first: Run, second: Run) -> Run:
    return Run((*first.body, *second.body), first.value + second.value)


def _alone(workload: Workload, name: str, search: Search) -> Run:
    chosen = search.fastest(workload, name)
    return Run((replace(chosen[0], tree=chosen[1].tree),), chosen[1].value)


def _fused(
    workload: Workload, names: Sequence[str], search: Search, options: Options, limit: float
) -> Iterator[Run]:
    """Yield a run of operators as one group, if that promises to be better than ``limit``."""
    attention = attention_of(workload, names)
    if attention is not None:
        yield from _attention(workload, attention, search, options)
        return
    operators = [workload.operator(name) for name in names]
    if sum(isinstance(one, Einsum) for one in operators) > EINSUMS:
        return
    chain = chain_of(workload, names)
    if chain is None:
        return
    goal, limit = search.goal, limit * (1 - _GAIN)
    found: list[Chosen] = []
    for family in chain_families(chain, goal.accelerator):
        grid = goal.grid([family])
        if grid.bound(goal.room) < limit:
            found += ranked(grid, goal, limit).chosen
    bodies = [((replace(chain.group, tree=one.tree),), one) for one in found]
    if bodies:
        at, value = fastest(goal, workload, bodies)
        yield Run(bodies[at][0], value)


def _attention(
    workload: Workload, part: Attention, search: Search, options: Options
) -> Iterator[Run]:
    """Yield an attention as flex, flat and flash map it."""
    ways = (
        lambda: flex.attention(workload, part, search=search),
        lambda: flat.attention(workload, part, search.goal, options, flex.GRANULARITIES),
        lambda: flat.attention(workload, part, search.goal, options, ""),
    )
    for way in ways:
        try:
            body, value = way()
        except SimaccelError:
            continue
        yield Run(tuple(body), value)


SCHEDULERS: dict[str, Scheduler] = {"best": _schedule}
