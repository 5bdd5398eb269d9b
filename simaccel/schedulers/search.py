"""One search for all schedulers: a grid of candidates, what is near the best, and the machine.

The grid of a scheduler's families is judged by the closed form (`choosing`), then what is near the
best of it (`neighbours`). The best few of all are run on the machine, and its best is taken.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from simaccel.analytic.family import Family, Loops, branches_of, ints
from simaccel.errors import SimaccelError
from simaccel.hardware import STATIONARITIES, Accelerator, Stationarity
from simaccel.mapspace.costs import Objective
from simaccel.mapspace.search import Each
from simaccel.schedulers.accounts import (
    ASKED,
    BOUND,
    ROOM,
    SAME,
    Account,
    Note,
    floor_of_group,
    unnoted,
)
from simaccel.schedulers.asked import NOTHING, Asked
from simaccel.schedulers.choosing import CLOSE, MANY, TRIES, Candidates, Chosen, capacity
from simaccel.schedulers.neighbours import Limit, limits_of, neighbours
from simaccel.schedulers.problems import Judge, Options, parts
from simaccel.workload import Workload

EXACT: Final = 512
"""Spaces of so many candidates that fit run on the machine: all whose bound may be the best."""
_STARTS = 3
"""Candidates whose neighbours are looked at."""
_MANY_NEAR = 24
"""Neighbours that are estimated in a round before one that is close is taken."""
_ROUNDS = 6
"""Rounds at most; each begins with the best of the one before."""
_FEW = 4
"""Candidates of one kind that are run on the machine."""
_OTHERS = 6
"""As many more, each with other tiles, orders or stationarity than those before."""
_OF_GRID = 2
"""Of the best from the grid, whatever is near: estimates err alike for what differs little."""
_NEAR = 1.01
"""How much worse than the best of a round one may be and still be run on the machine."""
_LADDER = 3
"""Smaller rooms, each half of the one before, whose best are run too.

A mapping that fits half of a buffer fits the whole one: so a larger buffer is never worse, where
the smaller one is a power of two (and nothing is held between groups).
"""


@dataclass(frozen=True)
class Goal:
    """What is searched for, on what, and who confirms the best few (nobody if None).

    ``stationarity``: what the array holds, if that is not free; ``asked``: other constraints;
    ``patience``, ``until`` as of `Candidates`; ``each`` may run what is confirmed in other
    processes; ``note`` is handed the account of each search.
    """

    accelerator: Accelerator
    objective: Objective = "cycles"
    judge: Judge | None = None
    stationarity: Stationarity | None = None
    asked: Asked = NOTHING
    patience: int | None = None
    until: float | None = None
    each: Each = map
    note: Note = unnoted
    held_bytes: int = 0
    """Of the buffer, for what is kept around what is searched."""
    slack: float = 0.0
    """Of the objective, what a search may leave at first: little of what a whole workload takes."""
    ran: dict[object, int | SimaccelError] = field(default_factory=dict, compare=False, repr=False)
    """Cycles of what the machine has run, or why it refused: nothing runs twice in a search."""

    @classmethod
    def of(cls, accelerator: Accelerator, options: Options, workload: Workload) -> Goal:
        """Return what a user asks for, of a workload.

        Raises:
            InputError: constraints that no tree of a systolic array has.

        """
        return cls(
            accelerator,
            options.objective,
            options.judge,
            options.stationarity,
            Asked.of(options.constraints),
            options.patience,
            options.until(),
            options.each,
            options.note,
            slack=0.0 if options.patience else _slack(workload, accelerator, options.objective),
        )

    def grid(self, families: Sequence[Family]) -> Candidates:
        """Return the candidates of some families, with what is asked for held by the array."""
        if self.stationarity is not None:
            which = ints(STATIONARITIES.index(self.stationarity))
            families = [
                replace(family, held=dict.fromkeys(family.held, which)) for family in families
            ]
        return self.candidates([self.asked.cut(family) for family in families])

    def candidates(
        self,
        families: Sequence[Family],
        many: int = MANY,
        times: dict[object, int] | None = None,
    ) -> Candidates:
        """Return the candidates of families whose numbers are as asked; the others as of theirs."""
        allows = self.asked.allows if self.asked else None
        return Candidates(
            families,
            self.accelerator,
            self.objective,
            allows,
            self.patience,
            many,
            until=self.until,
            times=times,
        )

    @property
    def is_over(self) -> bool:
        """Whether the time of the search is used up."""
        return self.until is not None and time.monotonic() >= self.until

    @property
    def room(self) -> int:
        """Bytes of the buffer, less what is kept in it all along."""
        return capacity(self.accelerator) - self.held_bytes

    @property
    def timed(self) -> bool:
        """Whether cycles decide, so that the machine has a say."""
        return self.objective in ("cycles", "edp")


def _slack(workload: Workload, accelerator: Accelerator, objective: Objective) -> float:
    """Return what the search of a part of a workload may leave: `CLOSE` of the whole, by parts.

    Nothing of a single part: that is the whole.
    """
    each = [one if isinstance(one, str) else one[0] for one in parts(workload)]
    if objective != "cycles" or len(each) == 1:
        return 0.0
    operators = [operator.name for operator in workload.operators]
    floor = floor_of_group(workload, operators, accelerator, objective)
    return CLOSE * floor / sum(workload.times(name) for name in each)


@dataclass(frozen=True)
class Ranked:
    """Candidates of a search, the best first, and how they were found."""

    chosen: tuple[Chosen, ...]
    smallest: int
    account: Account


def ranked(
    grid: Candidates,
    goal: Goal,
    limit: float = float("inf"),
    name: str = "",
    slack: float = 0.0,
) -> Ranked:
    """Return the best candidates of a grid, and near it, that fit, the best first.

    ``limit``: what their objective is to be below; ``name``: what the account calls the search. One
    that is at most ``slack`` above the grid's bound ends it: nothing near it is looked at.
    """
    room = goal.room
    found: list[Chosen] = []
    near: list[Candidates] = []
    below, left, ended = limit, 0.0, ""
    nearby = _Nearby(goal, grid.near)
    enough = grid.bound(room) + slack if slack else 0.0
    rooms = [room] if goal.held_bytes else _rooms(room, goal.accelerator)
    for at, most in enumerate(rooms):
        if at and (goal.is_over or below / _NEAR <= enough):
            break
        tries = TRIES if at and not goal.patience else None
        climb = _climb(grid, nearby, most, below, slack, tries)
        best = sorted((*climb.firsts, *climb.others), key=lambda one: one.rank)
        near += climb.judged
        found += [*best[:_FEW], *climb.firsts[:_OF_GRID], *_unlike(best)]
        if at == 0:
            left, ended = grid.left, grid.ended
        if climb.firsts:
            below = min(below, climb.firsts[0].value * _NEAR)
    unique: dict[object, Chosen] = {one.tree: one for one in whole(grid, goal, goal.room)}
    for one in sorted(found, key=lambda one: one.rank):
        unique.setdefault(one.tree, one)
    account = account_of(grid, room, name)
    account = replace(
        account,
        near=sum(_judged(one, room) for one in near),
        judged=account.judged + sum(_judged(one, room) for one in near),
        left=left,
        ended=ended,
        curve=_joined_curves([grid, *near]),
    )
    return Ranked(tuple(unique.values()), grid.smallest if not found else 0, account)


def whole(grid: Candidates, goal: Goal, room: int) -> list[Chosen]:
    """Return all candidates that fit, for the machine, where they are few and have all sizes."""
    few = np.count_nonzero(grid.space[grid.first] <= room) <= EXACT
    run = goal.judge is not None and goal.timed and goal.patience is None
    return grid.every(room) if run and few and grid.is_complete() else []


def account_of(grid: Candidates, room: int, name: str) -> Account:
    """Return what a grid has, and what left it by which rule."""
    kept = grid.space[grid.first] <= room
    judged = _judged(grid, room)
    return Account(
        name=name,
        operators=tuple(one.name for one in grid.families[0].space.operators),
        space=len(grid),
        pruned={
            SAME: int(np.count_nonzero(grid.again & grid.asked)),
            ASKED: int(np.count_nonzero(~grid.asked)),
            ROOM: int(np.count_nonzero(~kept)),
            BOUND: int(np.count_nonzero(kept)) - judged,
        },
        judged=judged,
        left=grid.left,
        complete=grid.is_complete(),
        ended=grid.ended,
        curve=tuple(grid.curve),
    )


def _judged(candidates: Candidates, room: int) -> int:
    """Count the candidates that the closed form priced."""
    fits = candidates.first[candidates.space[candidates.first] <= room]
    if not candidates.is_timed:
        return len(fits)
    return int(np.count_nonzero(candidates.cycles[fits] >= 0))


def _joined_curves(parts: Sequence[Candidates]) -> tuple[tuple[int, float], ...]:
    """Return the improvements of searches one after the other, by the candidates judged."""
    before, best, found = 0, float("inf"), []
    for one in parts:
        for at, value in one.curve:
            if value < best:
                best = value
                found.append((before + at, value))
        before += one.timed
    return tuple(found)


def _rooms(room: int, accelerator: Accelerator) -> list[int]:
    """Return the room, and powers of two below it where a buffer has a size at all."""
    if accelerator.buffer.capacity_bytes is None:
        return [room]
    below = 1 << (max(room - 1, 1).bit_length() - 1)
    return [room, *(below >> at for at in range(_LADDER) if below >> at > 0)]


@dataclass(frozen=True)
class _Climb:
    """The best of a grid, the best of what is near them, and the candidates near them."""

    firsts: list[Chosen]
    others: list[Chosen] = field(default_factory=list)
    judged: list[Candidates] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The best objective so far."""
        return min((one.value for one in (*self.firsts, *self.others)), default=float("inf"))


@dataclass(frozen=True)
class _Nearby:
    """Candidates around those that a search has come to; smaller rooms often come there, too."""

    goal: Goal
    known: dict[object, Candidates | None]
    times: dict[object, int] = field(default_factory=dict)
    """Cycles of what was timed: different ways come to the same candidates."""

    def near(
        self, way: object, beam: Sequence[Family], limits: Sequence[Limit]
    ) -> Candidates | None:
        """Return the neighbours of candidates that a search comes to on a way; None if none are."""
        if way not in self.known:
            family = neighbours(beam, limits, self.goal.accelerator)
            self.known[way] = (
                None if family is None else self.goal.candidates([family], _MANY_NEAR, self.times)
            )
        found = self.known[way]
        return None if found is None else found.repeated()


def _climb(
    grid: Candidates, nearby: _Nearby, room: int, below: float, slack: float, tries: int | None
) -> _Climb:
    """Look near the best of a grid, and near the best of that, until nothing is better.

    Where the search of a part may leave something, and no run can be much better than the best,
    until nothing is better by more than that.
    """
    numbers = grid.finalists(room, _FEW + _OTHERS, below, slack, tries)
    found = _Climb([grid.chosen(number) for number in numbers])
    if slack and found.firsts and found.firsts[0].value <= grid.bound(room) + slack:
        return found
    enough = _NEAR if nearby.goal.patience else 1 - CLOSE
    limits = [limits_of(family) for family in grid.families]
    starts = _different(grid, numbers, _STARTS)
    for which in dict.fromkeys(int(grid.family[number]) for number in starts):
        mine = tuple(number for number in starts if grid.family[number] == which)
        beam = [grid.one(number) for number in mine]
        way: tuple[tuple[int, ...], ...] = (mine,)
        best = min(grid.chosen(number).value for number in mine)
        for _ in range(0 if nearby.goal.is_over else _ROUNDS):
            candidates = nearby.near(way, beam, limits[which])
            if candidates is None or candidates.bound(room) >= found.best * enough:
                break
            found.judged.append(candidates)
            better = candidates.finalists(room, _FEW + _OTHERS, best * _NEAR)
            values = [candidates.chosen(number) for number in better]
            found.others.extend(values)
            near = best <= candidates.bound(room) * _NEAR
            if not values or values[0].value >= best - nearby.goal.slack * near:
                break
            best = values[0].value
            numbers = _different(candidates, better, _STARTS)
            beam = [candidates.one(number) for number in numbers]
            way = (*way, tuple(numbers))
    return found


def _different(grid: Candidates, numbers: Iterable[int], most: int) -> list[int]:
    """Return candidates, at most so many, no two with the same tiles."""
    found: dict[tuple[int, ...], int] = {}
    for number in numbers:
        tiles = tuple(
            int(tile.ravel()[0])
            for node in branches_of(grid.one(number).branch)
            if isinstance(node, Loops)
            for tile in node.tiles
        )
        found.setdefault(tiles, number)
    return list(found.values())[:most]


def _unlike(best: Sequence[Chosen]) -> list[Chosen]:
    """Return a few that differ in more than slots, which estimates may err on in other ways."""
    found: dict[object, Chosen] = {}
    for one in best:
        if one.value <= best[0].value * _NEAR**2:
            found.setdefault(one.kind, one)
    return list(found.values())[:_OTHERS]
