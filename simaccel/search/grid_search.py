"""One search for all schedulers: a grid of candidates, then the neighbours of the best.

The candidates of a scheduler's families run on the machine first (`candidates`), then their
neighbours (`neighbours`), until none of these is better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from simaccel.analytic.family import FamilyLoops, ints
from simaccel.hardware import STATIONARITIES
from simaccel.mapping.tree import nodes
from simaccel.search.accounts import (
    BOUND,
    NOT_ALLOWED,
    ROOM,
    SAME,
    SearchAccount,
    floor_of_group,
    has_single_products,
)
from simaccel.search.candidate_set import CandidateSet
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.judge import ScoredTree
from simaccel.search.walk import CandidateWalk, StoppingRule


@dataclass(frozen=True)
class SearchResult:
    """The best candidate of a search and its account; None if none fits or is below the limit.

    ``sets``: the candidate sets that were searched.
    """

    best: ScoredTree | None
    account: SearchAccount
    sets: tuple[CandidateSet, ...] = ()


def search(
    grid: CandidateSet, goal: Goal, limit: float = float("inf"), name: str = ""
) -> SearchResult:
    """Return the best candidate that fits, of a grid and its neighbours.

    Only objectives below ``limit`` count; if bounds leave much to gain, the search may begin above
    it. ``name``: the name of the search in its account.
    """
    goal = replace(goal, is_spread=grid.is_shared)
    is_loose = grid.bound(goal.room) < limit * (1 - EFFORT.loose)
    climb = _Climb(grid, goal, limit * EFFORT.near_in_less if is_loose else limit)
    rooms, has_size = [goal.room], goal.accelerator.buffer.capacity_bytes is not None
    if has_size and not (goal.held_bytes or goal.is_shared):  # also the powers of two below it
        below = 1 << (max(goal.room - 1, 1).bit_length() - 1)
        rooms += [below >> at for at in range(EFFORT.smaller_rooms) if below >> at > 0]
    for room in rooms:
        if not (climb.walks and goal.is_over):
            climb.go(room)
    climb.drop_best_from(limit)
    for holding, crosses in product(climb.loose_holdings(), (False, True)):
        climb.go(goal.room, holding, crosses=crosses)
    if goal.is_proof and not (goal.is_over or goal.is_shared or goal.held_bytes):
        climb.prove()
    return SearchResult(climb.best, climb.account(name), climb.sets)


def with_floor(account: SearchAccount, grid: CandidateSet, goal: Goal) -> SearchAccount:
    """Return an account with a lower bound of any mapping of the operators."""
    if goal.held_bytes:  # what is held between groups need not move
        return account
    operators, workload = grid.group.operators, grid.workload
    floor = floor_of_group(workload, operators, goal.accelerator, goal.objective)
    return replace(account, floor=floor)


@dataclass
class _Climb:
    """The walks of a search: through the grid, then through neighbours, in each of its rooms."""

    grid: CandidateSet
    goal: Goal
    limit: float
    best: ScoredTree | None = None
    walks: list[CandidateWalk] = field(default_factory=list)
    around: dict[tuple[int, tuple[int, ...]], CandidateSet | None] = field(default_factory=dict)
    """Neighbours by what they are near to: a set, and numbers in it."""
    crosses: bool = True
    """Whether neighbours may have other stationarities than those searched."""
    proof: int = 0
    """The number of candidates of all tile sizes, if they are searched."""
    proofs: list[CandidateWalk] = field(default_factory=list)
    """The walks through candidates of all tile sizes that may be better."""
    proved: float = 0.0
    """What none of all tile sizes is better than, but the best."""

    @property
    def below(self) -> float:
        """The value that the next candidate's objective is to be below."""
        return self.limit if self.best is None else self.best.value

    def go(self, room: int, holding: int | None = None, *, crosses: bool = True) -> None:
        """Walk through the candidates that fit a room, and search near the best.

        ``holding``: only candidates with these stationarities, as if nothing was known. Near the
        best of another holding there may be something better than near the best of all; what is
        near has them, too (the search that is narrowed to them), unless it ``crosses`` to others.
        """
        known, self.crosses = self.best, crosses
        if holding is not None:
            self.best = None
        walk = self._walk(self.grid, room, self.goal.stopping(self.grid, room), holding)
        candidates = [*walk.numbers(), *map(int, walk.first)]
        starts = _different(self.grid, candidates, EFFORT.starts)
        families = self.grid.family_of(ints(starts)).tolist()
        # runs of neighbours after which no further family, and no smaller room, is searched
        most_near = EFFORT.most_near // (1 if self.goal.gap == EFFORT.gap else EFFORT.less_near)
        for family in dict.fromkeys(families):
            near = sum(
                len(tried.cycles) for tried in self.walks if tried.candidates is not self.grid
            )
            if not self.goal.is_over and (holding is not None or near < most_near):
                pairs = zip(starts, families, strict=True)
                beam = [number for number, of in pairs if of == family]
                self._climb(beam, room, holding)
        able = (tree for tree in (known, self.best) if tree is not None)
        self.best = min(able, key=lambda tree: tree.rank, default=None)

    def drop_best_from(self, limit: float) -> None:
        """Drop the best candidate unless it is below a limit."""
        if self.best is not None and self.best.value >= limit:
            self.best = None

    def prove(self) -> None:
        """Run all candidates of all tile sizes whose bounds are below the best, or up to a limit.

        An exhaustive grid without a gap is one already. Where the space lacks what some operands
        leave, the others may still be faster, but nothing is proved.
        """
        from simaccel.search.all_sizes import all_sizes  # noqa: PLC0415 - of few searches

        if self.best is None or (self.grid.is_complete() and self.walks[0].left >= self.below):
            return
        grid, goal, least, is_whole = self.grid, self.goal, 0.0, True
        operators = grid.group.operators
        lowest = floor_of_group(grid.workload, operators, goal.accelerator, goal.objective)
        for share in EFFORT.proof_shares:
            below = lowest + share * (self.below - lowest)
            space = all_sizes(grid, below, EFFORT.tilings, least)
            if space is None:
                break
            is_whole, least = is_whole and space.is_whole, below
            left = below if space.candidates is None else self._run_all_sizes(space.candidates)
            if is_whole:
                self.proof, self.proved = space.size, min(below, left, self.below)
            if left < min(below, self.below) or self.below <= below:  # patience has ended, or done
                break

    def _run_all_sizes(self, candidates: CandidateSet) -> float:
        """Run candidates of all tile sizes; return a lower bound of those that did not run."""
        walk = CandidateWalk(candidates, near=1.0)
        walk.go(self.goal.room, StoppingRule(0.0, EFFORT.proof), self.below)
        self._take_best(walk)
        self.walks.append(walk)
        self.proofs.append(walk)
        return walk.left

    def loose_holdings(self) -> list[int]:
        """Return the stationarities of an operator to search on their own, if bounds are loose.

        Bounds are loose if they leave much to gain of the whole workload, more than the tolerance.
        Those whose bounds are above the best by as much are left out. Fused operators have none of
        these, as they have far more combinations.
        """
        goal, grid = self.goal, self.grid
        is_free = goal.objective == "cycles" and not goal.held_bytes and goal.patience is None
        if not is_free or self.best is None or goal.is_over or len(grid.group.operators) > 1:
            return []
        whole = max(self.best.value, goal.part * goal.parts)
        bound = min(candidates.bound(goal.room) for candidates in self.sets)
        if (self.best.value - bound) / whole <= max(EFFORT.loose, goal.tolerance):
            return []
        fits, columns = grid.fitting(goal.room), grid.columns
        fits = fits[columns.bounds[fits] <= self.best.value * (1 + EFFORT.loose)]
        order = fits[np.argsort(columns.bounds[fits], kind="stable")]
        holdings: list[int] = columns.holding[order].tolist()
        return list(dict.fromkeys(holdings))[: EFFORT.holdings]

    def _climb(self, beam: list[int], room: int, holding: int | None) -> None:
        """Run the neighbours of some candidates, then those of the best of these, and so on."""
        source, idle = self.grid, 0
        is_loose = holding is not None
        stopping, may_idle = self.goal.near_stopping(loose=is_loose), int(is_loose)
        if not is_loose and self._leaves_little(room):
            return
        for _ in range(EFFORT.rounds):
            candidates = self._neighbours(source, beam)
            if candidates is None:
                break
            enough = 1 if self.goal.patience else 1 - self.goal.gap
            if candidates.bound(room) >= self.below * enough - self.goal.slack:
                break
            before, best = self.below, self.best
            walk = self._walk(candidates, room, stopping, holding)
            enough = 1 - (self.goal.gap - EFFORT.gap) / 2
            idle = idle + 1 if self.below > before * enough or self.best is best else 0
            if idle > may_idle:
                break  # one as good with a smaller buffer has room for other tiles
            source, beam = candidates, _next_beam(walk, loose=is_loose)

    def _leaves_little(self, room: int) -> bool:
        """Return whether neither bounds nor the work of array and SFU leave much to gain.

        Neighbours move other bytes, but their work is hardly less than the least of the grid.
        """
        goal = self.goal
        if goal.objective != "cycles" or goal.patience is not None:
            return False
        is_close = self.grid.bound(room) >= self.below * (1 - goal.gap) - goal.slack
        return is_close and self.grid.least_work >= self.below * (1 - EFFORT.loose)

    def _neighbours(self, source: CandidateSet, beam: Sequence[int]) -> CandidateSet | None:
        """Return the neighbours of some candidates; in a smaller room they are often the same."""
        key = id(source), tuple(beam)
        if key not in self.around:
            self.around[key] = source.neighbours_of(beam)
        return self.around[key]

    def _walk(
        self, candidates: CandidateSet, room: int, stopping: StoppingRule, holding: int | None
    ) -> CandidateWalk:
        is_near = candidates is not self.grid
        is_less = not is_near and room < self.goal.room and self.goal.gap == EFFORT.gap
        near = EFFORT.near_in_less if is_less or holding is not None else EFFORT.near
        held = None if is_near and self.crosses else holding
        if is_near and held is not None:
            held %= len(STATIONARITIES)  # neighbours are of one family
        walk = CandidateWalk(candidates, near, is_near=is_near, holding=held)
        walk.go(room, stopping, self.below)
        self._take_best(walk)
        self.walks.append(walk)
        return walk

    def _take_best(self, walk: CandidateWalk) -> None:
        for number in walk.numbers()[:1]:
            best = walk.score(number)
            if best.value < self.limit and (self.best is None or best.rank < self.best.rank):
                self.best = best

    @property
    def sets(self) -> tuple[CandidateSet, ...]:
        """All candidates that were walked through."""
        return tuple({id(walk.candidates): walk.candidates for walk in self.walks}.values())

    def account(self, name: str) -> SearchAccount:
        """Return how the search went."""
        grid, first = self.grid, self.walks[0]
        ran = {run for walk in self.walks for run in walk.runs}
        of_grid = sum(candidates == id(grid) for candidates, _ in ran)
        far = len(grid) - grid.columns.bounds.size  # left out by their bounds, whatever the room
        fits = grid.fitting(self.goal.room).size + far
        scores = (walk.score(n) for walk in self.walks for n in walk.numbers())
        values = sorted({score.tree: score.value for score in scores}.values())
        value = float("inf") if self.best is None else self.best.value
        of_space = [walk.best for walk in self.walks if walk.candidates is grid]
        account = SearchAccount(
            name=name,
            operators=grid.group.operators,
            space=grid.size,
            pruned={
                SAME: grid.same,
                NOT_ALLOWED: grid.excluded,
                ROOM: grid.too_large + len(grid) - fits,
                BOUND: fits - of_grid,
            },
            ran=len(ran),
            outside=len(ran) - of_grid,
            value=value,
            better=value < min(first.left, *of_space),
            runner_up=values[1] if len(values) > 1 else None,
            rest_bound=first.left,
            complete=grid.is_complete(),
            by_product=all(map(has_single_products, grid.families)),
            ended=first.ended,
            curve=_joined_curves(self.walks),
        )
        if not self.proof:
            return account
        in_space = of_grid + sum(len(walk.cycles) for walk in self.proofs)
        return replace(
            account,
            space=self.proof,
            pruned={BOUND: self.proof - in_space},
            outside=len(ran) - in_space,
            better=False,
            rest_bound=min(self.proved, account.value),
            complete=True,
            ended=self.proofs[-1].ended if self.proofs else "bounds",
        )


def _joined_curves(walks: Sequence[CandidateWalk]) -> tuple[tuple[int, float], ...]:
    """Return the improvements of consecutive walks, by the number of candidates that ran."""
    known, best, found = set[tuple[int, int]](), float("inf"), list[tuple[int, float]]()
    for walk in walks:
        for at, value in walk.curve:
            if value < best:
                best = value
                found.append((len(known.union(walk.runs[:at])), value))
        known.update(walk.runs)
    return tuple(found)


def _next_beam(walk: CandidateWalk, *, loose: bool) -> list[int]:
    """Return the best candidates that ran; if bounds are loose, also those of the lowest bounds."""
    ran = walk.numbers()
    if not loose:
        return _different(walk.candidates, ran, EFFORT.starts)
    most = EFFORT.loose_starts
    lowest = map(int, walk.first[: most - 1])
    return _different(walk.candidates, [*ran[:2], *lowest, *ran[2:]], most)


def _different(grid: CandidateSet, numbers: Iterable[int], most: int) -> list[int]:
    """Return at most ``most`` candidates, no two with the same tiles."""
    found: dict[tuple[int, ...], int] = {}
    for number in numbers:
        tiles = tuple(
            int(np.ravel(tile)[0])
            for node in nodes(grid.family_of_one(number).branch)
            if isinstance(node, FamilyLoops)
            for tile in node.tiles
        )
        found.setdefault(tiles, number)
    return list(found.values())[:most]
