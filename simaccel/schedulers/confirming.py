"""The last word of a search: its best few run on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from simaccel.errors import SimaccelError
from simaccel.mapping.tree import Around, Group, Mapping
from simaccel.schedulers.accounts import Account, decided, floor_of_group, together
from simaccel.schedulers.choosing import Chosen
from simaccel.schedulers.problems import Judge, mapping_of
from simaccel.schedulers.search import Goal
from simaccel.workload import Workload

Body = Sequence[Group | Around]
_SURE: Final = 3
"""As many are run in any case; others where estimates that err as these do leave them a chance."""
_AT_ONCE: Final = 16
"""Those others are asked about in turns of so many."""


@dataclass(frozen=True)
class _Asked:
    """One mapping for the machine, as it is sent to a process."""

    judge: Judge
    workload: Workload
    mapping: Mapping


def _run(asked: _Asked) -> int | SimaccelError:
    """Run a mapping; what the machine refuses is the result."""
    try:
        return asked.judge(asked.workload, asked.mapping)
    except SimaccelError as error:  # the machine takes fewer trees than the closed form
        return error


def fastest(
    goal: Goal,
    workload: Workload,
    bodies: Sequence[tuple[Body, Chosen]],
    accounts: Sequence[Account] = (),
    name: str = "",
    error: float = 0.0,
    enough: float = 0.0,
) -> tuple[int, float]:
    """Return the number of the best of some mappings of a few operators, and its objective.

    ``bodies``: each with its figures by the closed form. On the machine, if there is one to ask;
    the first of equals. ``accounts``: of the searches that found them; one of all is noted as
    ``name``. ``error``: how much estimates may err, at least, where bodies differ in kind.
    ``enough``: an objective that no other need be better than; a best above it isn't noted.

    Raises:
        SimaccelError: the machine takes none of them.

    """
    estimates = [chosen.value for _, chosen in bodies]
    values, refused = _confirmed(goal, workload, bodies, error, enough)
    known = values or dict(enumerate(estimates))
    best = min(known, key=lambda at: (known[at], *bodies[at][1].rank[1:]))
    if accounts and not known[best] > enough > 0:
        operators = operators_of(bodies[0][0])
        one = decided(together(name, operators, accounts), estimates, values, refused)
        if not goal.held_bytes:  # what is held between groups need not move
            floor = floor_of_group(workload, operators, goal.accelerator, goal.objective)
            one = replace(one, floor=floor)
        goal.note(one)
    return best, known[best]


def _confirmed(
    goal: Goal,
    workload: Workload,
    bodies: Sequence[tuple[Body, Chosen]],
    error: float,
    enough: float,
) -> tuple[dict[int, float], int]:
    """Return the objectives of mappings on the machine, by their numbers, and how many it refused.

    Nothing without one. It is not asked about those whose estimates, were they as wrong as those of
    the first few, are still above the best.

    Raises:
        SimaccelError: the machine takes none of them.

    """
    found: dict[int, float] = {}
    if goal.judge is None or not goal.timed:
        return found, 0
    alone = workload.alone(operators_of(bodies[0][0]))
    order = sorted(range(len(bodies)), key=lambda at: bodies[at][1].rank)
    refused: list[SimaccelError] = []
    first = [at for at in order if bodies[at][1].bound is None][:_SURE]
    rest = [at for at in order if at not in first]
    for which in (first, *(rest[at : at + _AT_ONCE] for at in range(0, len(rest), _AT_ONCE))):
        best = min(found.values(), default=float("inf"))
        if best <= enough:
            break
        some = [at for at in which if _at_least(bodies[at][1], error) <= best]
        tasks = [_Asked(goal.judge, alone, mapping_of(alone, "", bodies[at][0])) for at in some]
        for at, judged in zip(some, goal.each(_run, tasks), strict=True):
            if isinstance(judged, SimaccelError):
                refused.append(judged)
                continue
            expected = max(bodies[at][1].cycles, 1)
            found[at] = judged * (bodies[at][1].value / expected)
            error = max(error, abs(1 - judged / expected))
    if refused and not found:
        raise refused[-1]
    return found, len(refused)


def _at_least(one: Chosen, error: float) -> float:
    """Return what a candidate takes if its estimate errs so much, or by its bound if it has one."""
    return one.value * (1 - error) if one.bound is None else one.bound


def operators_of(body: Body) -> list[str]:
    """Return the operators of some groups, in order."""
    found: list[str] = []
    for one in body:
        found += operators_of(one.groups) if isinstance(one, Around) else one.operators
    return found
