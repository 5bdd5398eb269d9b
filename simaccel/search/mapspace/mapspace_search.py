"""Searching mapspaces: all of them where they are few, else at random and nearby.

Work is cut into blocks of a fixed number of mappings. A block's random numbers come from the seed
and the block's number, and what one round of blocks found is known only to the next round. What is
drawn are tilings, each of which is judged in all its orders (`ordered_tilings`); without
``refine`` single mappings. One that is drawn again counts again, towards the patience, too.

The blocks of a random search are drawn from the whole mapspace and, most of them, from what is near
the best so far: chains of two parents crossed, and a few of them moved. The parents are the best of
each way to spread the work over the spatial levels, so that not all end in the same local optimum.

A mapspace that has smaller ones inside (perfect factorisations in Ruby-S, Ruby-S in Ruby) is
searched after those, each by the same rules as it would be alone, and starts from what they found.
So a larger mapspace never comes out worse than a smaller one with the same effort.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from simaccel.search.effort import Effort, Watch
from simaccel.search.mapspace.blocks import (
    BlockOutcome,
    BlockTask,
    JudgedTilings,
    MapspaceProblem,
    Population,
    Score,
    judge,
    run_block,
)
from simaccel.search.mapspace.chains import MAPSPACES
from simaccel.search.mapspace.space import EinsumMapspace, Genes
from simaccel.search.mapspace.tiling_batch import TilingBatch

_ROWS: Final = 1 << 16
"""Mappings in a block of a complete search, at most."""
_ROUND: Final = 4
"""Blocks with the same parents; those of one mapspace are evaluated as one, in less time."""
_WORST: Final[Score] = (float("inf"), float("inf"))


Ended = Literal["all seen", "patience", "budget", "most"]


@dataclass(frozen=True, kw_only=True)
class MapspaceResult:
    """The best mapping and how it was found; ``best`` is None if no mapping was valid.

    ``good``: the best mapping of each distribution of work over the spatial levels, the best of all
    first.
    """

    space: EinsumMapspace
    best: TilingBatch | None
    good: TilingBatch | None
    score: float
    size: int
    """Mappings in the mapspace."""
    tried: int
    valid: int
    complete: bool
    ended: Ended
    curve: tuple[tuple[int, float], ...]
    """(valid mappings so far, best objective) at each improvement."""
    inside: tuple[MapspaceResult, ...] = ()
    """Results for the smaller mapspaces that were searched before."""


def search_mapspace(
    problem: MapspaceProblem, effort: Effort, watch: Watch = lambda _done, _note: None
) -> MapspaceResult:
    """Search the best mapping."""
    started = time.monotonic()
    stages = [*dict.fromkeys(_stages(problem.spaces, effort))]  # the smaller ones inside first
    done: dict[tuple[EinsumMapspace, ...], _Standing] = {}
    tally = _Tally()
    before: list[MapspaceResult] = []
    for number, spaces in enumerate(stages):
        standing = _Standing(replace(problem, spaces=spaces), effort, tally)
        if effort.budget_seconds is not None:
            standing.until = started + effort.budget_seconds * (number + 1) / len(stages)
        standing.watch = _part(watch, number, len(stages))
        inside = [done[(part,)] for space in spaces for part in space.inside if (part,) in done]
        standing.start(inside)
        _search(standing)
        done[spaces] = standing
        before.append(standing.result(tally))
    return replace(before[-1], inside=tuple(before[:-1]))


def _stages(
    spaces: tuple[EinsumMapspace, ...], effort: Effort
) -> Iterator[tuple[EinsumMapspace, ...]]:
    """Yield what is searched one after the other; some of it several times."""
    if effort.refine and sum(space.size() for space in spaces) > effort.exhaustive:
        inside = [inner for space in spaces for inner in space.inside if inner.combinations]
        for inner in inside:
            yield from _stages((inner,), effort)
    yield spaces


def _part(watch: Watch, number: int, of: int) -> Watch:
    return lambda done, note: watch((number + done) / of, note)


def _search(standing: _Standing) -> None:
    """Search the mapspaces of one stage."""
    rounds = 0
    while not standing.ended:
        tasks = _all_blocks(standing) if standing.small else _draw_blocks(standing, rounds)
        for task in tasks:
            standing.add(run_block(task))
            if standing.ended:
                break
        rounds += 1
        if standing.small and not standing.ended:
            standing.ended = "all seen"


def _all_blocks(standing: _Standing) -> Iterator[BlockTask]:
    problem, objective = standing.problem, standing.effort.aim
    for at, space in enumerate(problem.spaces):
        width = max(1, _ROWS // len(space.limits.keeps))
        for start in range(0, space.combinations, width):
            stop = min(start + width, space.combinations)
            yield BlockTask(problem, objective, at, start, stop)


def _draw_blocks(standing: _Standing, rounds: int) -> Iterator[BlockTask]:
    """Yield the blocks of a round, those of one mapspace as one."""
    problem, effort = standing.problem, standing.effort
    seeds: dict[int, list[tuple[int, ...]]] = {}
    for at in range(_ROUND):
        number = rounds * _ROUND + at
        space = number % len(problem.spaces)
        which = MAPSPACES.index(problem.spaces[space].mapspace)
        seeds.setdefault(space, []).append((effort.seed, which, number))
    for space, drawn in seeds.items():
        elite = standing.elite.get(space) if effort.refine else None
        yield BlockTask(
            problem,
            effort.aim,
            space,
            seeds=tuple(drawn),
            refine=effort.refine,
            parents=elite,
            known=standing.known.get(space),
        )


@dataclass
class _Tally:
    """The mappings that all stages so far went through."""

    tried: int = 0
    valid: int = 0
    best: float = float("inf")
    curve: list[tuple[int, float]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)


@dataclass
class _Standing:
    """The state of the search in the mapspaces of one stage."""

    problem: MapspaceProblem
    effort: Effort
    tally: _Tally
    watch: Watch = lambda _done, _note: None
    until: float = float("inf")
    best: Score = _WORST
    space: int = 0
    tried: int = 0
    valid: int = 0
    drawn: int = 0
    tilings: int = 0
    improved: int = 0
    """Valid tilings until the last improvement."""
    ended: Ended | Literal[""] = ""
    elite: dict[int, Population] = field(default_factory=dict)
    """The parents, by mapspace."""
    known: dict[int, JudgedTilings] = field(default_factory=dict)
    """What was drawn, by mapspace."""

    def __post_init__(self) -> None:
        """Count the mappings."""
        self.size = sum(space.size() for space in self.problem.spaces)
        self.small = self.size <= self.effort.exhaustive

    def start(self, inside: Sequence[_Standing]) -> None:
        """Begin with what smaller mapspaces inside have found."""
        if self.small:
            return
        winners = [candidates for smaller in inside for candidates in smaller.winners()]
        for at, space in enumerate(self.problem.spaces):
            task = BlockTask(self.problem, self.effort.aim, at, refine=self.effort.refine)
            for candidates in winners:
                outcome = judge(task, 0, *space.fitting(space.nearest_tilings(candidates)))
                self.add(BlockOutcome(at, 0, 0, found=outcome.found))  # they have been counted

    def winners(self) -> list[TilingBatch]:
        """Return the best of each mapspace."""
        return [self._candidates(space, elite) for space, elite in self.elite.items()]

    def _candidates(self, at: int, genes: Genes) -> TilingBatch:
        space = self.problem.spaces[at]
        return space.candidates(*space.fitting(genes))

    def add(self, outcome: BlockOutcome) -> None:
        """Take in a block; end the search if it is time."""
        for tiling, at, value in outcome.steps:
            if value < self.best[0]:
                self.improved = self.tilings + tiling
            if value < self.tally.best:
                self.tally.best = value
                self.tally.curve.append((self.tally.valid + at, value))
        if outcome.found is not None:
            if outcome.found.best < self.best:
                self.best, self.space = outcome.found.best, outcome.space
            elite = self.elite.get(outcome.space)
            self.elite[outcome.space] = outcome.found.join(elite)
        if outcome.known is not None:
            self.known[outcome.space] = outcome.known
        for tally in (self, self.tally):
            tally.tried += outcome.tried
            tally.valid += outcome.valid
        self.drawn += outcome.drawn
        self.tilings += outcome.tilings
        self._judge()
        self._tell()

    def _judge(self) -> None:
        effort = self.effort
        if effort.most is not None and self.valid >= effort.most:
            self.ended = "most"
        elif time.monotonic() >= self.until:
            self.ended = "budget"
        elif not self.small and self._idle() >= effort.patience:
            self.ended = "patience"

    def _idle(self) -> int:
        """Return the tilings since the last improvement; of none that is valid a tenth counts."""
        return self.tilings - self.improved if self.valid else self.drawn // 10

    def _tell(self) -> None:
        effort, spent = self.effort, max(time.monotonic() - self.tally.started, 1e-9)
        done = self.tried / self.size if self.small else self._idle() / effort.patience
        if effort.budget_seconds is not None:
            done = max(done, spent / effort.budget_seconds)
        note = f"{self.tally.tried / spent:,.0f} mappings/s, best {effort.aim} "
        self.watch(min(done, 1.0), f"{note}{self.best[0]:.4g}")

    def result(self, tally: _Tally) -> MapspaceResult:
        """Return the result."""
        elite, good = self.elite.get(self.space), None
        if elite is not None:
            good = self._candidates(self.space, elite)
        return MapspaceResult(
            space=self.problem.spaces[self.space],
            best=None if good is None else good.take(slice(0, 1)),
            good=good,
            score=self.best[0],
            size=self.size,
            tried=tally.tried,
            valid=tally.valid,
            complete=self.ended == "all seen",
            ended=self.ended or "all seen",
            curve=tuple(tally.curve),
        )
