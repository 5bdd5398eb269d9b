"""The last word of a search: its best few run on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.analytic.estimate import evaluate
from simaccel.analytic.family import family_of
from simaccel.errors import SimaccelError
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Around, Group, Mapping
from simaccel.schedulers.accounts import Account, decided, floor_of_group, together
from simaccel.schedulers.choosing import Chosen
from simaccel.schedulers.problems import Judge, mapping_of
from simaccel.schedulers.search import Goal
from simaccel.workload import Workload

Body = Sequence[Group | Around]
_SURE: Final = 3
"""As many are run in any case; others where estimates that err as these do leave them a chance."""
_ERRS: Final = 0.125
"""How much less than the closed form says the machine may take, where every candidate may run.

Of 3,500 mappings of 32 small spaces (`validation.search.brute`) the fastest took at most 8.6% less.
"""
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
    kinds: Sequence[Sequence[int]] = (),
) -> tuple[int, float]:
    """Return the number of the best of some mappings of a few operators, and its objective.

    ``bodies``: each with its figures by the closed form. On the machine, if there is one to ask;
    the first of equals. ``accounts``: of the searches that found them; one of all is noted as
    ``name``. ``error``: how much estimates may err, at least, where bodies differ in kind.
    ``enough``: an objective that no other need be better than; a best above it isn't noted.
    ``kinds``: numbers of bodies that other searches have alone; of each kind those run that would
    run alone, so that all together are never worse than one (one kind of all if not given).

    Raises:
        SimaccelError: the machine takes none of them.

    """
    estimates = [chosen.value for _, chosen in bodies]
    values: dict[int, float] = {}
    refused = 0
    if goal.judge is not None and goal.timed:
        confirmed = _Confirmed(goal, workload, bodies, error, enough)
        for kind in sorted(kinds or [range(len(bodies))], key=confirmed.promise):
            confirmed.run(kind)
        values, refused = confirmed.values, len(confirmed.refused)
        if not values:
            raise list(confirmed.refused.values())[-1]
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


@dataclass
class _Confirmed:
    """Objectives of mappings on the machine by their numbers, and what it refused."""

    goal: Goal
    workload: Workload
    bodies: Sequence[tuple[Body, Chosen]]
    error: float
    enough: float = 0.0
    values: dict[int, float] = field(default_factory=dict)
    refused: dict[int, SimaccelError] = field(default_factory=dict)

    def promise(self, kind: Sequence[int]) -> float:
        """Return the best objective of a kind by the closed form."""
        return min((self.bodies[at][1].value for at in kind), default=float("inf"))

    def run(self, kind: Sequence[int]) -> None:
        """Run the best few of a kind; one after the other where one may be good ``enough``.

        The machine is not asked about those that, were their estimates as wrong as those of the
        first few, are not better than the best; nor about a kind that can't have anything better.
        """
        order = sorted(kind, key=lambda at: self.bodies[at][1].rank)
        if self.values and self._is_behind(order):
            return
        error, best = self.error, (float("inf"), 0, 0)
        sure = [at for at in order if self.bodies[at][1].bound is None]
        first = self._unlike(sure)[:_SURE] if self.enough else sure[:_SURE]
        rest = [at for at in order if at not in first]
        for which in (*_turns(first, 1 if self.enough else _SURE), *_turns(rest, _AT_ONCE)):
            if best[0] <= self.enough:
                break
            some = [at for at in which if self._rank(at, self._at_least(at, error)) < best]
            self._ask(some)
            for at in (at for at in some if at in self.values):
                best = min(best, self._rank(at, self.values[at]))
                error = max(error, abs(1 - self.values[at] / (self.bodies[at][1].value or 1)))

    def _unlike(self, some: Sequence[int]) -> list[int]:
        """Return one of those that have the same figures: the closed form errs alike."""
        found: dict[object, int] = {}
        for at in some:
            found.setdefault(self.bodies[at][1].rank, at)
        return list(found.values())

    def _rank(self, at: int, value: float) -> tuple[float, int, int]:
        """Return what decides where a mapping has this objective."""
        return replace(self.bodies[at][1], value=value).rank

    def _ask(self, which: Sequence[int]) -> None:
        """Run those that have not run yet."""
        assert self.goal.judge is not None  # noqa: S101 - narrows the type
        known = ((at, self.bodies[at][1].measured) for at in which)
        self.values |= {at: value for at, value in known if value is not None}
        some = [at for at in which if at not in self.values and at not in self.refused]
        alone = self.workload.alone(operators_of(self.bodies[0][0]))
        keys = {at: _key(alone, self.bodies[at][0]) for at in some}
        new = {key: at for at, key in keys.items() if key not in self.goal.ran}
        maps = (mapping_of(alone, "", self.bodies[at][0]) for at in new.values())
        tasks = [_Asked(self.goal.judge, alone, mapping) for mapping in maps]
        self.goal.ran.update(zip(new, self.goal.each(_run, tasks), strict=True))
        for at in some:
            judged = self.goal.ran[keys[at]]
            if isinstance(judged, SimaccelError):
                self.refused[at] = judged
            else:
                chosen = self.bodies[at][1]
                self.values[at] = judged * (chosen.value / max(chosen.cycles, 1))

    def _at_least(self, at: int, error: float) -> float:
        """Return what a mapping takes if its estimate errs so much; of few candidates, the most."""
        one = self.bodies[at][1]
        if one.measured is not None:
            return one.measured
        if one.bound is not None:
            return max(one.bound, one.value * (1 - max(error, _ERRS)))
        return one.value * (1 - error)

    def _is_behind(self, kind: Sequence[int]) -> bool:
        """Return whether none of a kind can be better than what ran before."""
        best = min(self.values.values())
        return all(self._bound(at) >= best for at in kind)

    def _bound(self, at: int) -> float:
        """Return what a mapping's objective is not below on the machine; 0 if it isn't known."""
        body, chosen = self.bodies[at]
        for known in (chosen.measured, chosen.bound):
            if known is not None:
                return known
        if len(body) != 1 or not isinstance(body[0], Group):
            return 0.0
        family = family_of(space_of(self.workload, body[0]), body[0])
        cycles = int(evaluate(family, self.goal.accelerator).bound())
        return cycles * (chosen.value / max(chosen.cycles, 1))


def _turns(some: Sequence[int], most: int) -> list[Sequence[int]]:
    """Cut numbers into turns of at most so many."""
    return [some[at : at + most] for at in range(0, len(some), most)]


def _key(workload: Workload, body: Body) -> object:
    """Return what decides the cycles of some groups of a workload on one machine."""
    found: list[object] = [workload.fingerprint]
    for one in body:
        if isinstance(one, Around):
            found.append((one.keeps, _key(workload, one.groups)))
        else:
            ranks = (tuple(sorted(some.items())) for some in (one.merged, one.padded))
            found.append((one.operators, one.tree, *ranks))
    return tuple(found)


def operators_of(body: Body) -> list[str]:
    """Return the operators of some groups, in order."""
    found: list[str] = []
    for one in body:
        found += operators_of(one.groups) if isinstance(one, Around) else one.operators
    return found
