"""Near-ties of one group: candidates within the tolerance of the best that cost less.

The cost is energy (where it is known), then DRAM bytes, then buffer bytes, if the objective is
cycles; it is cycles if the objective is energy, bytes or footprint. What is chosen gains at least
the share of its cost that it loses of the objective. EDP already weighs two figures and has no
near-ties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from simaccel.analytic.evaluation import Floats
from simaccel.analytic.family import Bools, Ints, ints
from simaccel.pareto import keep_cheaper
from simaccel.search.accounts import ObjectiveLosses
from simaccel.search.candidate_set import UNLIMITED, CandidateSet
from simaccel.search.effort import EFFORT, Objective, has_near_ties
from simaccel.search.judge import ScoredTree, main_cost

_UNKNOWN: Final = 2**62
"""Cycles and bytes that stand for unknown ones."""


def losses(chosen: ScoredTree, best: ScoredTree) -> ObjectiveLosses:
    """Return the losses of a choice against the best of its objective."""
    return ObjectiveLosses(
        chosen.cycles - best.cycles,
        chosen.dram_bytes - best.dram_bytes,
        chosen.energy_pj - best.energy_pj,
    )


def is_worth(lost: float, gained: float, best: ScoredTree, objective: Objective) -> bool:
    """Return whether ``gained`` of the best's cost is no less than what is ``lost``, as shares.

    ``lost`` is of the objective: 0.9% of the cycles are not given for 0.1% of the energy.
    """
    return gained * best.value >= lost * main_cost(best.cost(objective))


def find_cheaper(
    best: ScoredTree | None, sets: Sequence[CandidateSet], room: int, limit: float
) -> list[ScoredTree]:
    """Return the best, if it is known, and less costly candidates of at most ``limit``.

    Each costs less and has a worse objective than those before it. Some candidates that may be
    among them run, and neighbours of the least costly one.
    """
    every = {id(candidates): candidates for candidates in sets}.values()
    best = best or ScoredTree((), math.inf, _UNKNOWN, _UNKNOWN, _UNKNOWN, math.inf)
    numbers = ((candidates, candidates.number_of(best.tree)) for candidates in every)
    places = ((candidates, number) for candidates, number in numbers if number is not None)
    objective = sets[0].objective
    choice, looked = _NearTieChoice(best, objective, limit, next(places, None)), list(every)
    for candidates in every:
        choice.look(candidates, room)
    for _ in range(EFFORT.cheaper_rounds):
        before = choice.place
        near = before and before[0].neighbours_of([before[1]])
        if not near:
            break
        looked.append(near)
        choice.look(near, room)
        if choice.place is before:
            break
    ran = (scored for candidates in looked for scored in candidates.scored_runs(room))
    return keep_cheaper(
        (scored for scored in ran if scored.value <= limit),
        rank=lambda scored: (scored.value, scored.cost(objective)),
        cost=lambda scored: scored.cost(objective),
    )


def choose_near_tie(
    candidates: CandidateSet, number: int, best: ScoredTree
) -> tuple[int, ScoredTree]:
    """Return the least costly near-tie of a set: its number and its figures."""
    if not has_near_ties(candidates.objective, candidates.tolerance):
        return number, best
    choice = _NearTieChoice(best, candidates.objective, best.value * (1 + candidates.tolerance))
    choice.look(candidates, UNLIMITED)
    chosen, objective = choice.chosen, candidates.objective
    gained = main_cost(best.cost(objective)) - main_cost(chosen.cost(objective))
    if choice.place is None or not is_worth(chosen.value - best.value, gained, best, objective):
        return number, best
    return choice.place[1], chosen


@dataclass
class _NearTieChoice:
    """The candidate chosen so far; ``limit``: what its objective is not above."""

    chosen: ScoredTree
    objective: Objective
    limit: float
    place: tuple[CandidateSet, int] | None = None

    def look(self, candidates: CandidateSet, room: int) -> None:
        """Run candidates of a set that would be a better choice.

        All of a small space, the least costly first; of a large one first that, then the middle of
        what is left on either side, as those that cost more mostly take less time.
        """
        fits = candidates.fitting(room, self.limit)
        keys = candidates.costs(fits)
        order = np.lexsort(keys[::-1])
        fits, keys = fits[order], keys[:, order]
        halves = self.objective == "cycles"
        most = EFFORT.cheaper
        if candidates.is_complete() and fits.size <= EFFORT.exact:
            halves, most = False, fits.size
        low, high = 0, int(np.count_nonzero(self._better(keys)))
        for turn in range(most):
            if low >= high:
                break
            at = self._likely_fastest(
                candidates, fits, keys, (low + high) // 2 if halves and turn else low
            )
            if self._takes(candidates, int(fits[at])):
                high = min(high - 1, int(np.count_nonzero(self._better(keys))))
            else:
                low = max(low, at) + 1

    def _likely_fastest(self, candidates: CandidateSet, fits: Ints, keys: Floats, at: int) -> int:
        """Return the candidate that is likely the fastest of those that cost about as much."""
        if self.objective != "cycles":
            return at
        column = keys[1] if keys[1, at] else keys[2]
        end = int(np.searchsorted(column, column[at] * (1 + EFFORT.about), side="right"))
        same, columns = np.arange(at, max(end, at + 1)), candidates.columns
        order = np.lexsort((-columns.space[fits[same]], columns.likely[fits[same]]))
        return int(same[order[0]])

    def _better(self, keys: Floats) -> Bools:
        """Return which candidates cost less than the choice, in the order of their figures."""
        found: Bools = np.zeros(keys.shape[1], dtype=np.bool_)
        for row, own in zip(keys[::-1], self.chosen.cost(self.objective)[::-1], strict=True):
            found = (row < own) | ((row == own) & found)
        return found

    def _takes(self, candidates: CandidateSet, number: int) -> bool:
        which = ints([number])
        most = self.limit + 1 if self.objective == "cycles" else self.chosen.cycles
        cycles = float(candidates.run(which, most)[0])
        if not np.isfinite(cycles):
            return False
        scored = candidates.score(number, cycles)
        if scored.value > self.limit:
            return False
        if scored.cost(self.objective) >= self.chosen.cost(self.objective):
            return False
        self.chosen, self.place = scored, (candidates, number)
        return True
