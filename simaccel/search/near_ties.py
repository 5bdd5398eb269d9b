"""Near-ties: of all mappings within a tolerance of the best, the one that a user would choose.

Of those about as fast as the fastest that is the one with least energy (where energies are known),
then fewest bytes moved, then fewest bytes kept; of those about as good in energy, bytes or
footprint the fastest. Energy times delay is a choice between the two already, and has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from simaccel.analytic.core_totals import Floats
from simaccel.analytic.family import Bools, Ints, ints
from simaccel.mapping.tree import ResidentScope
from simaccel.search.accounts import ObjectiveLosses
from simaccel.search.candidate_set import EXACT, UNLIMITED, CandidateSet, ScoredTree
from simaccel.search.effort import Objective
from simaccel.search.judge import Body, key_of_body, operators_of
from simaccel.search.neighbours import neighbours
from simaccel.workload import Workload

_RUNS: Final = 16
"""Runs of a large space, at most."""
_ABOUT: Final = 0.002
"""What costs by no more than this part more is about as good."""
_ROUNDS: Final = 2
"""Times that what is near the choice is looked at."""
_REASONS: Final = ("alone", "together")
Cost = tuple[float, float, float, float]


def cost_of(scored: ScoredTree, objective: Objective) -> Cost:
    """Return what decides between near-ties of an objective; less is better."""
    first = 0.0 if objective == "cycles" else float(scored.cycles)
    return first, scored.energy_pj, float(scored.dram_bytes), float(scored.buffer_bytes)


def losses_of(chosen: ScoredTree) -> ObjectiveLosses:
    """Return what a choice gives up against the best of its objective."""
    best = chosen.instead or chosen
    return ObjectiveLosses(
        chosen.cycles - best.cycles,
        chosen.dram_bytes - best.dram_bytes,
        chosen.energy_pj - best.energy_pj,
    )


@dataclass
class GroupLosses:
    """Losses of groups that were found by one goal, by what decides their cycles."""

    known: dict[tuple[str, object], ObjectiveLosses] = field(default_factory=dict)

    def note(self, body: Body, chosen: ScoredTree, reason: str = "alone") -> None:
        """Note what some groups give up, if anything."""
        if chosen.instead is not None:
            self.known[reason, key_of_body(body)] = losses_of(chosen)

    def note_way(self, body: Body, gave: ObjectiveLosses) -> None:
        """Note what the groups of a workload give up for being these, whatever their trees."""
        self.known["way", _split(body)] = gave

    def replace(self, body: Body, other: Body) -> None:
        """Note of other groups of a workload what some give up as a whole."""
        if (gave := self.known.get(("whole", key_of_body(body)))) is not None:
            self.known["whole", key_of_body(other)] = gave

    def total(self, workload: Workload, body: Body) -> ObjectiveLosses:
        """Return what all groups of a workload give up, as often as they run."""
        found = self.known.get(("whole", key_of_body(body)), ObjectiveLosses())
        found += self.known.get(("way", _split(body)), ObjectiveLosses())
        for one in body:
            found += self.sum_losses((one,)).times(workload.times(operators_of((one,))[0]))
        return found

    def sum_losses(self, body: Body) -> ObjectiveLosses:
        """Return what some groups give up, one by one and together, each once."""
        key = key_of_body(body)
        found = [self.known.get((reason, key), ObjectiveLosses()) for reason in _REASONS]
        if len(body) > 1:
            found += [self.sum_losses((one,)) for one in body]
        elif isinstance(body[0], ResidentScope):
            found += [self.sum_losses((one,)) for one in body[0].groups]
        return sum(found, start=ObjectiveLosses())


def _split(body: Body) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(operators_of((one,))) for one in body)


def preferred_index(
    candidates: Sequence[ScoredTree],
    objective: Objective,
    tolerance: float,
    least: float = float("inf"),
) -> int:
    """Return the number of what a user would choose of some mappings; the first of equals.

    ``least``: what the objective of the best one is, if that is less than theirs.
    """
    best = min(range(len(candidates)), key=lambda at: candidates[at].rank)
    if not decides(objective, tolerance):
        return best
    limit = min(candidates[best].value, least) * (1 + tolerance)
    near = [at for at, scored in enumerate(candidates) if scored.value <= limit]
    return min(near or [best], key=lambda at: cost_of(candidates[at], objective))


def decides(objective: Objective, tolerance: float) -> bool:
    """Return whether near-ties are decided at all."""
    return tolerance > 0 and objective != "edp"


def choose_near_tie(
    best: ScoredTree,
    sets: Sequence[CandidateSet],
    room: int,
    most: float = float("inf"),
    left: float = float("inf"),
) -> ScoredTree:
    """Return what a user would choose of all candidates that fit, or the best itself.

    ``most``: what its objective is below in any case; ``left``: what no candidate is below, where
    that isn't the best.
    """
    objective, tolerance = sets[0].objective, sets[0].tolerance
    if not decides(objective, tolerance):
        return best
    least = best.value if left < best.value / (1 + tolerance) else min(best.value, left)
    # a search ends where the best may be above the least by half of the tolerance: so may this
    about = max(least * (1 + tolerance), best.value * (1 + tolerance / 2))
    limit = min(about, np.nextafter(most, 0))
    every = {id(candidates): candidates for candidates in sets}.values()
    numbers = ((candidates, candidates.number_of(best.tree)) for candidates in every)
    places = ((candidates, number) for candidates, number in numbers if number is not None)
    choice = _Choice(best, objective, limit, next(places, None))
    for candidates in every:
        choice.look(candidates, room)
    for _ in range(_ROUNDS):
        before = choice.place
        near = before and _neighbours_of(*before)
        if not near:
            break
        choice.look(near, room)
        if choice.place is before:
            break
    return best if choice.chosen is best else _note_alternative(choice.chosen, best)


def settle_among(candidates: CandidateSet, number: int, best: ScoredTree) -> tuple[int, ScoredTree]:
    """Return what a user would choose of a set, by its number and with its figures."""
    if not decides(candidates.objective, candidates.tolerance):
        return number, best
    choice = _Choice(best, candidates.objective, best.value * (1 + candidates.tolerance))
    choice.look(candidates, UNLIMITED)
    if choice.place is None:
        return number, best
    return choice.place[1], _note_alternative(choice.chosen, best)


def _note_alternative(chosen: ScoredTree, best: ScoredTree) -> ScoredTree:
    """Return a choice with what it was preferred to, unless it is better than that, too."""
    return chosen if chosen.value <= best.value else replace(chosen, instead=best)


def cheapest_within(
    sets: Sequence[CandidateSet], room: int, limit: float, known: ScoredTree | None = None
) -> ScoredTree | None:
    """Return what costs least of candidates whose objective is below a limit, as far as is seen.

    None if none does, or none costs less than what is ``known``.
    """
    inf = float("inf")
    known = known or ScoredTree((), inf, 2**62, 2**62, 2**62, inf)
    choice = _Choice(known, sets[0].objective, limit)
    for candidates in sets:
        choice.look(candidates, room)
    return None if choice.chosen is known else choice.chosen


def _neighbours_of(candidates: CandidateSet, number: int) -> CandidateSet | None:
    """Return the neighbours of a candidate; None if nothing in it may vary."""
    limits = candidates.limits[int(candidates.family_of(number))]
    family = neighbours([candidates.family_of_one(number)], limits, candidates.accelerator)
    return None if family is None else candidates.with_family(family, limits)


@dataclass
class _Choice:
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
        fits = candidates.fitting(room)
        fits = fits[candidates.values(fits, candidates.bounds[fits]) <= self.limit]
        keys = self._keys(candidates, fits)
        order = np.lexsort(keys[::-1])
        fits, keys = fits[order], keys[:, order]
        halves = self.objective == "cycles"
        most = _RUNS
        if candidates.is_complete() and fits.size <= EXACT:
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
        end = int(np.searchsorted(column, column[at] * (1 + _ABOUT), side="right"))
        same = np.arange(at, max(end, at + 1))
        return int(
            same[np.lexsort((-candidates.space[fits[same]], candidates.likely[fits[same]]))[0]]
        )

    def _keys(self, candidates: CandidateSet, which: Ints) -> Floats:
        first = np.zeros(which.size) if self.objective == "cycles" else candidates.bounds[which]
        rows = (first, candidates.energy[which], candidates.dram[which], candidates.space[which])
        return np.stack([np.asarray(row, dtype=np.float64) for row in rows])

    def _better(self, keys: Floats) -> Bools:
        """Return which candidates cost less than the choice, in the order of their figures."""
        found: Bools = np.zeros(keys.shape[1], dtype=np.bool_)
        for row, own in zip(keys[::-1], cost_of(self.chosen, self.objective)[::-1], strict=True):
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
        cost, known = (cost_of(which, self.objective) for which in (scored, self.chosen))
        if cost >= known:
            return False
        self.chosen, self.place = scored, (candidates, number)
        return True
