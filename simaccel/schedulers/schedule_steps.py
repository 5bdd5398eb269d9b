"""Steps of `best`, each some operators as one run, and the cheapest way that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from simaccel.errors import SimaccelError
from simaccel.schedulers.tree_search import OperatorCandidateSet
from simaccel.search.candidate_set import CandidateSet, ScoredTree
from simaccel.search.judge import Body

Total = Callable[[Iterable[float]], float]
"""Of the objectives of groups: their sum, or the largest of what they need of the buffer."""


@dataclass
class ScheduleStep:
    """Operators ``start`` to ``stop`` as one run; ``search`` is given what it is to be below.

    ``value``: its objective, and before it has been searched what it promises. ``kind``: what maps
    it. ``work``: cycles of array and SFU that it takes at least, whatever is on chip already.
    ``weigh``: gives the figures that decide between equals.
    """

    start: int
    stop: int
    value: float
    search: Callable[[float], tuple[Body, float]]
    kind: str
    work: float
    body: Body | None = None
    refused: SimaccelError | None = None
    weigh: Callable[[Body], ScoredTree | None] | None = None
    sets: Sequence[CandidateSet] = ()
    """Its candidates, if they are all of one group."""
    alike: OperatorCandidateSet | None = None
    """Its candidates, if those of groups that are mapped alike are searched once."""
    granularities: str = ""
    """Of rows that stay on chip from one group to the next."""

    def find(self, limit: float) -> None:
        """Search; a step that can't be taken has an infinite objective."""
        try:
            self.body, self.value = self.search(limit)
        except SimaccelError as error:
            self.body, self.value, self.refused = (), float("inf"), error

    def leave_out(self) -> None:
        """Take the step as one that is no gain."""
        self.body, self.value = (), float("inf")

    @cached_property
    def scored(self) -> ScoredTree | None:
        """The figures of what was found."""
        return self.weigh(self.body) if self.body and self.weigh else None

    @property
    def ties(self) -> tuple[int, int]:
        """Bytes moved and kept, of what was found."""
        return (self.scored.dram_bytes, self.scored.buffer_bytes) if self.scored else (0, 0)


def cheapest(steps: Sequence[ScheduleStep], count: int, total: Total = sum) -> list[ScheduleStep]:
    """Return the steps of the cheapest way; none if they don't lead there.

    Of equals, the one that moves and keeps the fewest bytes where that is known, else the first.
    """
    best: dict[int, tuple[float, list[ScheduleStep]]] = {0: (0.0, [])}
    for stop in range(1, count + 1):
        ways = [
            (total((best[step.start][0], step.value)), [*best[step.start][1], step])
            for step in steps
            if step.stop == stop and step.start in best
        ]
        if ways:
            value = min(value for value, _ in ways)
            equals = [way for cost, way in ways if cost == value]
            best[stop] = value, min(equals, key=_ties) if len(equals) > 1 else equals[0]
    return best[count][1] if count in best else []


def _ties(way: Sequence[ScheduleStep]) -> tuple[int, int]:
    return sum(step.ties[0] for step in way), max(step.ties[1] for step in way)


def value_of(way: Sequence[ScheduleStep], total: Total) -> float:
    """Return the objective of a way; 0 of none."""
    return float(total([step.value for step in way])) if way else 0.0


def least_total(
    steps: Sequence[ScheduleStep],
    start: int,
    stop: int,
    figure: Callable[[ScheduleStep], float],
    over: ScheduleStep | None = None,
) -> float:
    """Return the least total of a figure on a way of steps; infinite where there is none.

    ``over``: a step that it takes. A step that can't be taken, or was no gain, is in no way.
    """
    if over is not None:
        before = least_total(steps, start, over.start, figure)
        return before + figure(over) + least_total(steps, over.stop, stop, figure)
    least = {start: 0.0}
    for end in range(start + 1, stop + 1):
        ways = [
            least[step.start] + figure(step)
            for step in steps
            if step.stop == end and step.start in least and step.value < float("inf")
        ]
        least |= {end: min(ways)} if ways else {}
    return least.get(stop, float("inf"))


def least_work(
    steps: Sequence[ScheduleStep], count: int, over: ScheduleStep | None = None
) -> float:
    """Return the work of the way with the least of it, from first operator to last."""
    return least_total(steps, 0, count, lambda step: step.work, over)
