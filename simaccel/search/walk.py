"""A walk through candidates in the order of their lower bounds, each of which runs on the machine.

Of candidates with about equal bounds, those with the fewest DRAM bytes run first. The walk ends
when no remaining bound is below the best run by more than the optimality gap.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from simaccel.analytic.family import Ints, ints
from simaccel.search.candidate_set import CandidateSet, Values
from simaccel.search.effort import EFFORT
from simaccel.search.judge import ScoredTree


@dataclass(frozen=True)
class StoppingRule:
    """When a walk ends (see `SearchEffort`); ``slack``: an absolute gap that is allowed.

    ``part``: what a part of the workload takes on average, as little is gained by a smaller one.
    ``until``: the time, in seconds of the monotonic clock, at which the walk ends in any case.
    ``equals``: most candidates with equal counts that run to find the fastest of them.
    """

    gap: float = EFFORT.gap
    patience: float = EFFORT.patience
    slack: float = 0.0
    part: float = 0.0
    gain: float = EFFORT.gain
    until: float | None = None
    equals: int = EFFORT.patience

    def patience_at(self, gain: float) -> float:
        """Return the patience (runs without a gain) of a walk that may gain a share ``gain``.

        >>> rule = StoppingRule(patience=24)
        >>> rule.patience_at(0.04), rule.patience_at(0.01), rule.patience_at(0.001)
        (24, 12.0, 6.0)
        """
        if not self.gap:  # as the user says
            return self.patience
        return self.patience * min(1, max(gain / EFFORT.full_patience_gain, EFFORT.least_patience))


@dataclass
class CandidateWalk:
    """A walk through the candidates that fit a room of the buffer, from the lowest bound up.

    ``cycles``: of the candidates that ran, by number; infinite for runs that were aborted.
    ``near``: how many times as long as the best a run may take. ``left``: lower bound of the
    candidates that fit. ``ended``: why the walk ended.
    """

    candidates: CandidateSet
    near: float = EFFORT.near
    cycles: dict[int, float] = field(default_factory=dict)
    best: float = float("inf")
    left: float = float("inf")
    ended: str = "all judged"
    curve: list[tuple[int, float]] = field(default_factory=list)
    holding: int | None = None
    """Index of the stationarities that candidates have to have; None: any."""
    is_near: bool = False
    """Whether candidates are neighbours of others, those with the fewest changes first."""
    of_each: Ints = field(default_factory=lambda: ints([]))
    """The first candidate of each combination of stationarities, whose runs use no patience."""
    first: Ints = field(default_factory=lambda: ints([]))
    """The first few candidates of the walk, whether they ran or not."""

    def go(self, room: int, stopping: StoppingRule, below: float = float("inf")) -> None:
        """Run candidates until none left can be much better than the best, or ``below``."""
        candidates, far_bound = self.candidates, self.candidates.far_bound(room)
        fits = candidates.fitting(room)
        if self.holding is not None:
            fits = fits[candidates.columns.holding[fits] == self.holding]
        bounds = candidates.values(fits, candidates.columns.bounds[fits])
        inside = bounds < below
        fits, bounds = fits[inside], bounds[inside]
        self.best, self.left = below, below
        if not fits.size:
            return
        if not candidates.is_timed:
            self._take(fits, bounds, stopping.equals)
            return
        order = self._order(fits, bounds, stopping.gap)
        if self.is_near:
            order = _interleave_orders(np.arange(fits.size), order)
        fits, bounds = fits[order], bounds[order]
        self.first = fits[: EFFORT.by_bound]
        each = self._run_count(fits)
        lowest = np.minimum(np.minimum.accumulate(bounds[::-1])[::-1], far_bound)
        at, idle = 0, 0
        while at < fits.size and not self._is_over(lowest[at], stopping, idle):
            step = 1 if at < EFFORT.at_once else EFFORT.at_once
            turn = fits[at : at + step][bounds[at : at + step] < self.best]
            gained = self._run(turn, stopping)
            counted = int((~np.isin(turn, self.of_each, assume_unique=True)).sum())
            idle = 0 if gained or at < each else idle + counted
            at += step
        if at >= fits.size and far_bound < self.best:
            candidates.include_far()
            self.cycles.clear()
            self.curve.clear()
            self.go(room, stopping, below)
            return
        self.left = min(self.best, float(lowest[at])) if at < fits.size else self.best

    def _is_over(self, lowest: float, stopping: StoppingRule, idle: int) -> bool:
        gain = 1.0  # the share of an average part of the workload that may still be gained
        if self.best < float("inf"):
            gain = (self.best - lowest) / max(self.best, stopping.part)
        allowed = max(self.best * stopping.gap, stopping.slack)
        if lowest >= self.best:
            self.ended = "bounds"
        elif lowest >= self.best - allowed and self._has_run(idle):
            self.ended = "close"
        elif idle >= stopping.patience_at(gain):
            self.ended = "patience"
        elif self.cycles and stopping.until is not None and time.monotonic() >= stopping.until:
            self.ended = "budget"
        else:
            return False
        return True

    def _has_run(self, idle: int) -> bool:
        """Return whether something has run; of neighbours, whether some ran without a gain."""
        return idle >= EFFORT.at_once if self.is_near else bool(self.cycles)

    def _order(self, fits: Ints, bounds: Values, gap: float) -> Ints:
        """Return the order: lowest bound (roughly), then fewest bytes, then largest tiles.

        If operators are cut over cores, a few candidates of each family come first. After the first
        few, every second one is taken from the candidates in order of their likely speed, a few of
        about equal ones before slower ones; the first of each combination of stationarities comes
        soon.
        """
        candidates, width = self.candidates, max(bounds.min(), 1) * max(gap, EFFORT.gap / 4)
        columns = candidates.columns
        moved, space = columns.dram[fits], columns.space[fits]
        about = np.floor((bounds - bounds.min()) / width)
        order = np.lexsort((-space, moved, about))
        if candidates.is_shared:
            family = candidates.family_of(fits[order])
            every = set(family.tolist())
            few = [np.flatnonzero(family == number)[: EFFORT.of_each] for number in every]
            each = np.sort(np.concatenate(few))
            order = np.concatenate([order[each], np.delete(order, each)])
        if not candidates.is_throttled or candidates.objective != "cycles":
            return np.asarray(order, dtype=np.int64)
        likely = columns.likely[fits]
        waiting = np.lexsort((-space, moved, likely))
        waiting = waiting[_take_few_of_each(likely[waiting])]
        rest = _interleave_orders(waiting, order)
        _, first = np.unique(columns.holding[fits[order]], return_index=True)
        of_each = order[np.sort(first)[: EFFORT.holdings]]
        self.of_each = fits[of_each]
        rest = np.concatenate([rest[: EFFORT.likely], of_each, rest[EFFORT.likely :]])
        return _remove_repeats(
            np.concatenate([order[: max(EFFORT.by_bound, self._run_count(fits))], rest])
        )

    def _run_count(self, fits: Ints) -> int:
        """Return how many candidates run first: a few of each family.

        If cores wait for one another, bounds are a weaker hint at the fastest candidate.
        """
        candidates = self.candidates
        if not candidates.is_shared:
            return 0
        _, counts = np.unique(candidates.family_of(fits), return_counts=True)
        return int(np.minimum(counts, EFFORT.of_each).sum())

    def _take(self, fits: Ints, values: Values, most: int) -> None:
        """Take the best candidates by counts alone; of equal ones, run some for the fastest."""
        candidates, columns = self.candidates, self.candidates.columns
        self.best = self.left = float(values.min())
        equal = fits[values == self.best]
        keys = (columns.space[equal], columns.dram[equal], columns.bounds[equal])
        fastest = float("inf")
        for number in equal[np.lexsort(keys)][:most]:
            if columns.bounds[number] >= fastest:
                break
            cycles = float(candidates.run(ints([number]), fastest)[0])
            self.cycles[int(number)] = cycles
            fastest = min(fastest, cycles)

    def _run(self, which: Ints, stopping: StoppingRule) -> bool:
        """Run candidates; return whether the best has improved by enough to count."""
        candidates, before = self.candidates, self.best
        most_cycles = before
        if candidates.objective == "edp" and which.size:
            most_cycles /= max(float(candidates.columns.energy[which].min()), 1e-9)
        ran = candidates.run(which, most_cycles * self.near)
        values = candidates.values(which, ran)
        for number, cycles, value in zip(which, ran, values, strict=True):
            self.cycles[int(number)] = float(cycles)
            if value < self.best:
                self.best = float(value)
                self.curve.append((len(self.cycles), self.best))
        return self.best < before - stopping.gain * max(self.best, stopping.part)

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The candidates that ran, in order: (identity of their set, number in it)."""
        return [(id(self.candidates), number) for number in self.cycles]

    def numbers(self) -> list[int]:
        """Return the candidates that ran with finite cycles, the best first."""
        ran = [number for number, cycles in self.cycles.items() if np.isfinite(cycles)]
        return sorted(ran, key=lambda number: self.score(number).rank)

    def score(self, number: int) -> ScoredTree:
        """Return a candidate that ran, with its figures."""
        return self.candidates.score(number, self.cycles[number])


def _interleave_orders(first: Ints, second: Ints) -> Ints:
    """Return one order that takes the numbers of two orders in turn.

    >>> _interleave_orders(ints([0, 1, 2]), ints([2, 1, 0])).tolist()
    [0, 2, 1]
    """
    return _remove_repeats(np.stack([first, second]).T.ravel())


def _remove_repeats(numbers: Ints) -> Ints:
    _, places = np.unique(numbers, return_index=True)
    return ints(numbers[np.sort(places)])


def _take_few_of_each(cycles: Ints) -> Ints:
    """Return an order of sorted numbers: a few of about equal ones, then of the next, then again.

    >>> _take_few_of_each(ints([1000] * 5 + [1100])).tolist()
    [0, 1, 2, 5, 3, 4]
    """
    about = np.floor((cycles - cycles[0]) / max(cycles[0] * EFFORT.gap, 1))
    _, starts = np.unique(about, return_index=True)
    counts = np.diff(np.append(starts, cycles.size))
    number = np.arange(cycles.size) - np.repeat(starts, counts)
    return np.lexsort((np.arange(cycles.size), number // EFFORT.of_each))
