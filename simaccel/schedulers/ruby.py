"""Searching mapspaces of nests: all of them where they are few, else at random and nearby.

Work is cut into blocks of a fixed number of mappings. A block's random numbers come from the seed
and the block's number, blocks are judged in their order, and what one round of blocks found is
known only to the next round; so the result doesn't depend on how many processes work on them.

Half of the blocks draw from the whole mapspace; the other half draw neighbours of the best so far:
other chains for a few ranks, other loop orders, other roles kept. Several populations of the best
evolve apart, so that not all end in the same local optimum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from simaccel.analytic.nest import Costs, evaluate
from simaccel.mapping.nest import Nests
from simaccel.schedulers.mapspace import Genes, Space
from simaccel.workload import Einsum, Tensor

Objective = Literal["cycles", "energy", "edp"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("cycles", "energy", "edp")
Floats = npt.NDArray[np.float64]
Score = tuple[float, float]
"""The objective and what decides between equals: the smaller the better."""
_BLOCK: Final = 4096
"""Mappings in a drawn block."""
_ROWS: Final = 1 << 16
"""Mappings in a block of a complete search, at most."""
_ROUND: Final = 8
_ELITE: Final = 64
_ISLANDS: Final = 4
_FRESH, _REORDERED, _KEPT_ANEW = 0.5, 0.25, 0.1
"""How often neighbours have a changed chain drawn anew, another order, and other roles kept."""
_WORST: Final[Score] = (float("inf"), float("inf"))


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to search, and for what.

    ``patience``: valid mappings without an improvement after which a random search ends;
    ``exhaustive``: mapspaces of at most that many mappings are searched completely; ``most``:
    mappings to evaluate at most. With ``budget_seconds`` the result depends on the machine's
    speed; otherwise it follows from the seed. ``refine``: also look near the best so far.
    """

    objective: Objective = "edp"
    patience: int = 100_000
    exhaustive: int = 1_000_000
    most: int | None = None
    budget_seconds: float | None = None
    seed: int = 0
    refine: bool = True


@dataclass(frozen=True)
class Problem:
    """What is searched: mapspaces of one einsum, and the bytes per element of its tensors."""

    einsum: Einsum
    tensors: Mapping[str, Tensor]
    spaces: tuple[Space, ...]


@dataclass(frozen=True)
class Task:
    """One block: mappings ``start`` to ``stop`` of a complete search, or a drawn one."""

    problem: Problem
    objective: Objective
    island: tuple[int, int]
    """Which mapspace, and which of the populations that evolve apart."""
    start: int = 0
    stop: int = 0
    seed: tuple[int, int] | None = None
    perfect: bool = False
    """Draw more perfect chains than there are."""
    parents: Genes | None = None


@dataclass(frozen=True)
class Outcome:
    """What a block found: how many mappings, its improvements, and its best."""

    island: tuple[int, int]
    gone: int
    """Mappings gone through, invalid ones included."""
    valid: int
    steps: tuple[tuple[int, float], ...]
    """(number of valid mappings until then, objective) of each improvement in the block."""
    scores: tuple[Score, ...]
    """Of the best, in order."""
    genes: Genes | None
    best: Nests | None


Each = Callable[[Callable[[Task], Outcome], Sequence[Task]], Iterable[Outcome]]
"""Runs tasks, perhaps in parallel; gives the outcomes in the order of the tasks."""
Watch = Callable[[float, str], None]
"""Told the part that is done, from 0 to 1, and how it stands."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The best mapping and how it was found; ``nests`` is empty if none was valid."""

    space: Space
    nests: Nests | None
    score: float
    size: int
    """Mappings in the mapspace."""
    gone: int
    valid: int
    complete: bool
    ended: Literal["all seen", "patience", "budget", "most"]
    curve: tuple[tuple[int, float], ...]
    """(valid mappings until then, best objective) at each improvement."""


def score(objective: Objective, costs: Costs) -> tuple[Floats, Floats]:
    """Give the objective of each candidate, and what decides between equals."""
    cycles = costs.cycles.astype(np.float64)
    if objective == "cycles":
        return cycles, costs.energy_pj
    if objective == "energy":
        return costs.energy_pj, cycles
    return costs.edp, cycles


def search(
    problem: Problem, effort: Effort, each: Each = map, watch: Watch = lambda _done, _note: None
) -> Found:
    """Find the best mapping; ``each`` may run blocks in other processes."""
    size = sum(space.size() for space in problem.spaces)
    complete = size <= effort.exhaustive
    standing = _Standing(problem, effort, size, watch)
    if complete:
        tasks = list(_every(problem, effort))
        for outcome in each(run_block, tasks):
            if standing.add(outcome):
                break
        return standing.found(complete=True)
    rounds = 0
    while not standing.ended:
        for outcome in each(run_block, _drawn(problem, effort, rounds, standing)):
            if standing.add(outcome):
                break
        rounds += 1
    return standing.found(complete=False)


def _every(problem: Problem, effort: Effort) -> Iterator[Task]:
    for at, space in enumerate(problem.spaces):
        width = max(1, _ROWS // space.widest)
        for start in range(0, space.combinations, width):
            stop = min(start + width, space.combinations)
            yield Task(problem, effort.objective, (at, 0), start, stop)


def _drawn(problem: Problem, effort: Effort, rounds: int, standing: _Standing) -> list[Task]:
    tasks = []
    for block in range(_ROUND):
        number = rounds * _ROUND + block
        turn, space = divmod(number // 2, len(problem.spaces))
        island = (space, turn % _ISLANDS)
        parents = standing.elite.get(island) if effort.refine and block % 2 else None
        genes = None if parents is None else parents[1]
        seed = (effort.seed, number)
        task = Task(
            problem, effort.objective, island, seed=seed, perfect=effort.refine, parents=genes
        )
        tasks.append(task)
    return tasks


@dataclass
class _Standing:
    """What is known so far."""

    problem: Problem
    effort: Effort
    size: int
    watch: Watch
    best: Score = _WORST
    nests: Nests | None = None
    space: int = 0
    gone: int = 0
    valid: int = 0
    improved: int = 0
    """Valid mappings until the last improvement."""
    ended: Literal["", "patience", "budget", "most"] = ""
    curve: list[tuple[int, float]] = field(default_factory=list)
    elite: dict[tuple[int, int], tuple[list[Score], Genes]] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def add(self, outcome: Outcome) -> bool:
        """Take in a block; say whether the search is over."""
        for at, value in outcome.steps:
            if value < self.best[0] and (not self.curve or value < self.curve[-1][1]):
                self.curve.append((self.valid + at, value))
                self.improved = self.valid + at
        if outcome.scores and outcome.scores[0] < self.best:
            self.best, self.nests, self.space = outcome.scores[0], outcome.best, outcome.island[0]
        self.gone += outcome.gone
        self.valid += outcome.valid
        self._remember(outcome)
        self._judge()
        self._tell()
        return bool(self.ended)

    def _remember(self, outcome: Outcome) -> None:
        """Keep the best different mappings of each island as parents."""
        if outcome.genes is None:
            return
        scores, genes = self.elite.get(outcome.island, ([], outcome.genes.take(slice(0))))
        scores, genes = [*scores, *outcome.scores], Genes.concatenate([genes, outcome.genes])
        order = sorted(range(len(scores)), key=lambda at: scores[at])
        kept: list[int] = []
        for at in order:
            if not kept or scores[at] != scores[kept[-1]]:
                kept.append(at)
        kept = kept[:_ELITE]
        self.elite[outcome.island] = ([scores[at] for at in kept], genes.take(np.array(kept)))

    def _judge(self) -> None:
        effort = self.effort
        spent = time.monotonic() - self.started
        if effort.most is not None and self.valid >= effort.most:
            self.ended = "most"
        elif effort.budget_seconds is not None and spent >= effort.budget_seconds:
            self.ended = "budget"
        elif self.size > effort.exhaustive and self._idle() >= effort.patience:
            self.ended = "patience"

    def _idle(self) -> int:
        """Give the mappings since the last improvement; with none valid, invalid ones count."""
        return self.valid - self.improved if self.valid else self.gone // 10

    def _tell(self) -> None:
        effort, spent = self.effort, max(time.monotonic() - self.started, 1e-9)
        done = self._idle() / effort.patience
        if self.size <= effort.exhaustive:
            done = self.gone / self.size
        if effort.budget_seconds is not None:
            done = max(done, spent / effort.budget_seconds)
        note = f"{self.gone / spent:,.0f} mappings/s, best {effort.objective} {self.best[0]:.4g}"
        self.watch(min(done, 1.0), note)

    def found(self, *, complete: bool) -> Found:
        """Give the result."""
        return Found(
            space=self.problem.spaces[self.space],
            nests=self.nests,
            score=self.best[0],
            size=self.size,
            gone=self.gone,
            valid=self.valid,
            complete=complete and not self.ended,
            ended=self.ended or "all seen",
            curve=tuple(self.curve),
        )


def run_block(task: Task) -> Outcome:
    """Evaluate one block."""
    space = task.problem.spaces[task.island[0]]
    genes: Genes | None = None
    if task.seed is None:
        gone, nests = space.block(task.start, task.stop)
    else:
        rng = np.random.default_rng(np.random.SeedSequence(task.seed))
        drawn = space.random(rng, _BLOCK, perfect=task.perfect)
        if task.parents is not None:
            drawn = _neighbours(space, task.parents, drawn, rng)
        genes, factors = space.fitting(drawn)
        gone, nests = len(drawn), space.nests(genes, factors)
    costs = evaluate(task.problem.einsum, task.problem.tensors, space.hierarchy, nests)
    return _outcome(task, gone, nests, genes, costs)


def _outcome(task: Task, gone: int, nests: Nests, genes: Genes | None, costs: Costs) -> Outcome:
    valid = np.flatnonzero(costs.valid)
    if not len(valid):
        return Outcome(task.island, gone, 0, (), (), None, None)
    value, tie = (column[valid] for column in score(task.objective, costs))
    falls = np.flatnonzero(value < np.concatenate([[np.inf], np.minimum.accumulate(value)[:-1]]))
    order = np.lexsort((tie, value))[: _ELITE if genes is not None else 1]
    return Outcome(
        task.island,
        gone,
        len(valid),
        tuple((int(at) + 1, float(value[at])) for at in falls),
        tuple((float(value[at]), float(tie[at])) for at in order),
        None if genes is None else genes.take(valid[order]),
        nests.take(valid[order[:1]]),
    )


def _neighbours(space: Space, parents: Genes, drawn: Genes, rng: np.random.Generator) -> Genes:
    """Change a little of good mappings: chains of a few ranks, and now and then orders, keeps.

    Half of the changed chains are drawn anew; the others have a number nearby, which is a chain
    with the same pieces at the inner levels.
    """
    n, n_ranks = drawn.chains.shape
    # The best parents are drawn most often.
    which = np.floor(np.square(rng.random(n)) * len(parents)).astype(np.int64)
    counts = np.array(space.chain_counts(), dtype=np.int64)
    changed = rng.random((n, n_ranks)) < rng.integers(0, 4, (n, 1)) / n_ranks
    changed[np.arange(n), rng.integers(0, n_ranks, n)] = True
    step = rng.geometric(0.3, (n, n_ranks)) * rng.choice(np.array([-1, 1]), (n, n_ranks))
    near = (parents.chains[which] + step) % counts
    fresh = np.where(rng.random((n, n_ranks)) < _FRESH, drawn.chains, near)
    return Genes(
        np.where(changed, fresh, parents.chains[which]),
        np.where(rng.random(drawn.orders.shape) < _REORDERED, drawn.orders, parents.orders[which]),
        np.where(rng.random(n) < _KEPT_ANEW, drawn.keeps, parents.keeps[which]),
    )
