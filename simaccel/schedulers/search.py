"""One search for all schedulers: a grid of candidates, what is near the best, and the machine.

The grid of a scheduler's families is judged by the closed form (`choosing`), then what is near the
best of it (`neighbours`). The best few of all are run on the machine, and its best is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from simaccel.analytic.family import Family, Loops, branches_of, ints
from simaccel.errors import SimaccelError
from simaccel.hardware import STATIONARITIES, Accelerator, Stationarity
from simaccel.mapping.tree import Around, Group
from simaccel.mapspace.blocks import Objective
from simaccel.schedulers.choosing import Candidates, Chosen, capacity
from simaccel.schedulers.neighbours import limits_of, neighbours
from simaccel.schedulers.problems import Judge, Options, mapping_of
from simaccel.workload import Workload

Body = Sequence[Group | Around]
_STARTS = 3
"""Candidates whose neighbours are looked at."""
_ROUNDS = 6
"""Rounds at most; each begins with the best of the one before."""
_FEW = 4
"""Candidates of one kind that are run on the machine."""
_OF_GRID = 2
"""Of them from the grid, whatever is near: estimates err alike for what differs in one number."""
_NEAR = 1.01
"""How much worse than the best of a round one may be and still be run on the machine."""
_LADDER = 3
"""Smaller rooms, each half of the one before, whose best are run too.

A mapping that fits half of a buffer fits the whole one: so a larger buffer is never worse, where
the smaller one is a power of two.
"""


@dataclass(frozen=True)
class Goal:
    """What is searched for, on what, and who confirms the best few (nobody if None)."""

    accelerator: Accelerator
    objective: Objective = "cycles"
    judge: Judge | None = None
    stationarity: Stationarity | None = None
    """What the array holds, if that is not free."""

    @classmethod
    def of(cls, accelerator: Accelerator, options: Options) -> Goal:
        """Return what a user asks for."""
        return cls(accelerator, options.objective, options.judge, options.stationarity)

    def grid(self, families: Sequence[Family]) -> Candidates:
        """Return the candidates of some families, with what is asked for held by the array."""
        if self.stationarity is not None:
            which = ints(STATIONARITIES.index(self.stationarity))
            families = [
                replace(family, held=dict.fromkeys(family.held, which)) for family in families
            ]
        return Candidates(families, self.accelerator, self.objective)

    @property
    def room(self) -> int:
        """Bytes of the buffer."""
        return capacity(self.accelerator)

    @property
    def timed(self) -> bool:
        """Whether cycles decide, so that the machine has a say."""
        return self.objective in ("cycles", "edp")


@dataclass(frozen=True)
class Ranked:
    """Candidates of a search, and how they were found.

    ``grid`` and ``near``: candidates judged in the grid and near its best; ``timed``: those whose
    cycles were estimated. ``bound``: no candidate of the grid has a smaller objective.
    """

    chosen: tuple[Chosen, ...]
    smallest: int
    grid: int = 0
    near: int = 0
    timed: int = 0
    bound: float = 0.0


def ranked(grid: Candidates, goal: Goal, limit: float = float("inf")) -> Ranked:
    """Return the best candidates of a grid, and near it, that fit, the best first.

    ``limit``: what their objective is to be below.
    """
    room = goal.room
    found: list[Chosen] = []
    near: list[Candidates] = []
    below = limit
    for at, most in enumerate(_rooms(room, goal.accelerator)):
        firsts, others, judged = _climb(grid, goal, most, below)
        best = sorted((*firsts, *others), key=lambda one: one.rank)
        found += [*best[:_FEW], *firsts[:_OF_GRID]] if at == 0 else best[:1]
        near += judged
        if firsts:
            below = min(below, firsts[0].value * _NEAR)
    unique: dict[object, Chosen] = {}
    for one in sorted(found, key=lambda one: one.rank):
        unique.setdefault(one.tree, one)
    return Ranked(
        chosen=tuple(unique.values()),
        smallest=grid.smallest,
        grid=len(grid.first),
        near=sum(len(one.first) for one in near),
        timed=sum(one.timed for one in (grid, *near)),
        bound=grid.bound(room),
    )


def _rooms(room: int, accelerator: Accelerator) -> list[int]:
    """Return the room, and powers of two below it where a buffer has a size at all."""
    if accelerator.buffer.capacity_bytes is None:
        return [room]
    below = 1 << (max(room - 1, 1).bit_length() - 1)
    return [room, *(below >> at for at in range(_LADDER) if below >> at > 0)]


def _climb(
    grid: Candidates, goal: Goal, room: int, below: float
) -> tuple[list[Chosen], list[Chosen], list[Candidates]]:
    """Return the best of a grid, the best of what is near them, and the candidates near them."""
    numbers = grid.finalists(room, _FEW, below)
    firsts = [grid.chosen(number) for number in numbers]
    found: list[Chosen] = []
    judged: list[Candidates] = []
    limits = [limits_of(family) for family in grid.families]
    for number in _different(grid, numbers, _STARTS):
        start, mine = grid.one(number), limits[int(grid.family[number])]
        best = grid.chosen(number).value
        for _ in range(_ROUNDS):
            near = neighbours(start, mine, goal.accelerator)
            if near is None:
                break
            candidates = Candidates([near], goal.accelerator, goal.objective)
            judged.append(candidates)
            better = candidates.finalists(room, _FEW, best * _NEAR)
            values = [candidates.chosen(number) for number in better]
            found += values
            if not values or values[0].value >= best:
                break
            best, start = values[0].value, candidates.one(better[0])
    return firsts, found, judged


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


def fastest(
    goal: Goal, workload: Workload, bodies: Sequence[tuple[Body, Chosen]]
) -> tuple[int, float]:
    """Return the number of the best of some mappings of a few operators, and its objective.

    ``bodies``: each with its figures by the closed form. On the machine, if there is one to ask;
    the first of equals.

    Raises:
        SimaccelError: the machine takes none of them.

    """
    values = {at: chosen.value for at, (_, chosen) in enumerate(bodies)}
    if goal.judge is not None and goal.timed:
        alone = workload.alone(operators_of(bodies[0][0]))
        refused: SimaccelError | None = None
        for at, (body, chosen) in enumerate(bodies):
            try:
                judged = goal.judge(alone, mapping_of(alone, "", body))
            except SimaccelError as error:  # the machine takes fewer trees than the closed form
                refused = error
                del values[at]
                continue
            values[at] = chosen.value * judged / max(chosen.cycles, 1)
        if refused is not None and not values:
            raise refused
    best = min(values, key=lambda at: (values[at], *bodies[at][1].rank[1:]))
    return best, values[best]


def operators_of(body: Body) -> list[str]:
    """Return the operators of some groups, in order."""
    found: list[str] = []
    for one in body:
        found += operators_of(one.groups) if isinstance(one, Around) else one.operators
    return found
