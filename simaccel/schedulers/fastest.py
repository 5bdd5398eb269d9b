"""The fastest of many candidates, such as splits: in the order of estimates, bounds and runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from itertools import chain
from operator import itemgetter
from typing import Final, Generic, NamedTuple, TypeVar

from simaccel.errors import Fault, InputError

_TOO_HIGH: Final = 1.1
"""Estimates of candidates that are mapped, over the fewest cycles: some estimates are too high."""

Found = TypeVar("Found")


class SplitCost(NamedTuple):
    """Cost of a split, in the order of importance.

    Bytes of weights and caches beyond a chip's capacity, an estimate of the cycles, and the MACs of
    all chips, which are fewer if fewer chips repeat the same work.
    """

    beyond: int
    cycles: Fraction
    macs: Fraction | int


class MappedSplit(NamedTuple):
    """A mapped split: the lower bound of its cycles, and its run.

    ``run``: returns the cycles; infinite if they are not below a limit.
    """

    bound: float
    run: Callable[[float], float]


Candidate = tuple[SplitCost, Callable[[], tuple[SplitCost, Found]]]
"""A cost without collectives, and a function that returns the whole cost and what has it."""


@dataclass
class _Fastest(Generic[Found]):
    """The candidate with the fewest cycles so far.

    ``high``: the most that an estimate was above its run, of these and of earlier candidates.
    """

    best: Found
    fewest: float = math.inf
    high: float = 1.0

    @property
    def limit(self) -> float:
        """Estimates from which on candidates aren't mapped."""
        return _TOO_HIGH * self.high * self.fewest

    def run(self, estimate: Fraction, mapped: MappedSplit, candidate: Found) -> None:
        """Run a candidate, unless its bound is no less than the fewest cycles."""
        if mapped.bound < self.fewest and (cycles := mapped.run(self.fewest)) < self.fewest:
            self.best, self.fewest = candidate, cycles
            self.high = max(self.high, float(estimate) / max(cycles, 1.0))


def fastest_of(
    possible: Iterable[Candidate[Found]], map_candidate: Callable[[Found], MappedSplit] | None
) -> Found:
    """Return the candidate with the least cost, or the fewest cycles of those that are mapped.

    A candidate is mapped unless it exceeds a memory, or its estimate is above the fewest cycles so
    far by 10%, or as much more as the estimate of one that ran was too high. It is run unless its
    bound is no less than these: at once if no bound is less, else behind those with less. Where the
    first exceeds a memory, its run will be refused, and none is made.

    Raises:
        InputError: nothing is legal.
    """
    each = _legal_by_cost(possible)
    first, best = next(each)
    if map_candidate is None or first.beyond:
        return best
    fastest, least, later = _Fastest(best), math.inf, list[tuple[Fraction, MappedSplit, Found]]()
    for cost, candidate in chain([(first, best)], each):
        if cost.beyond or cost.cycles >= fastest.limit:
            break
        mapped = map_candidate(candidate)
        if mapped.bound < least:
            least = mapped.bound
            fastest.run(cost.cycles, mapped, candidate)
        else:
            later.append((cost.cycles, mapped, candidate))
    for estimate, mapped, candidate in sorted(later, key=lambda waiting: waiting[1].bound):
        fastest.run(estimate, mapped, candidate)
    return fastest.best


def _legal_by_cost(possible: Iterable[Candidate[Found]]) -> Iterator[tuple[SplitCost, Found]]:
    """Yield legal splits and their costs, the least first, of equals the first.

    None is made before all of less work without collectives are.

    Raises:
        InputError: nothing is legal.
    """
    failure = InputError([Fault("chips", "splits", "none", "a legal split")])
    made, is_legal = list[tuple[SplitCost, int, Found]](), False
    for at, (least, make) in enumerate(sorted(possible, key=itemgetter(0))):
        while made and made[0][0] <= least:
            cost, _, candidate = heappop(made)
            yield cost, candidate
        try:
            cost, candidate = make()
        except InputError as error:
            failure = error
        else:
            is_legal = True
            heappush(made, (cost, at, candidate))
    if not is_legal:
        raise failure
    for cost, _, candidate in sorted(made, key=itemgetter(0, 1)):
        yield cost, candidate
