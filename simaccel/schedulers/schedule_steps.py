"""Steps of a schedule, each some operators as one run, and the cheapest way that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from simaccel.errors import SimaccelError
from simaccel.schedulers.sequences import additive_value
from simaccel.schedulers.tree_search import Mapped, Part
from simaccel.search.accounts import SearchAccount
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.judge import Body
from simaccel.search.scored_tree import ScoredTree

SHARED_ROWS: Final = "shared rows"
Total = Callable[[Iterable[float]], float]
"""Of the objectives of groups: their sum, or the largest of what they need of the buffer."""


class PartSearch(Protocol):
    """Search for the mapping of some operators: a `GroupSearch`, or a `StagedAttention`."""

    account: SearchAccount | None

    @property
    def least_work(self) -> float:
        """Cycles of array and SFU that each mapping takes."""

    def bound(self, room: int) -> float:
        """Return what the objective of no mapping that fits is below; infinite if none fits."""

    def map(self, kind: str, limit: float) -> Mapped | None:
        """Return the best mapping of a kind; None if none is below a limit."""

    def map_cheaply(self, limit: float) -> Mapped | None:
        """Return a mapping that costs little and is not above a limit, if one is known."""

    def fewest_bytes(self, room: int, limit: float) -> float:
        """Return the fewest bytes that a mapping may move that is not above a limit."""

    # -- of a part of a mapping that was chosen from it

    def figures_of(self, part: Part, held_bytes: int) -> ScoredTree | None:
        """Return the figures that the part was chosen by; None if they aren't known."""

    def least_cost(self, limit: float, held_bytes: int) -> float:
        """Return what the cost of no choice is below whose objective is not above a limit."""

    def cheaper_choices(self, limit: float, held_bytes: int) -> list[tuple[object, ScoredTree]]:
        """Return what costs less, with figures; none is above a limit."""

    def choose(self, part: Part, choice: object) -> Part:
        """Return a part with another choice in its place."""


@dataclass
class ScheduleStep:
    """Operators ``start`` to ``stop`` as one run, ``times`` one after the other.

    ``kind``: what maps them. ``value``: the objective of all runs, as one whose sum is small where
    that of the workload is; before it has been searched, what it is not below. ``work``: cycles of
    array and SFU that all runs take at least, whatever is on chip already. ``body``: what was
    found, with its figures of one run (``scored``); empty where nothing is below what it had to be.
    """

    start: int
    stop: int
    kind: str
    candidates: PartSearch
    goal: Goal
    times: int = 1
    value: float = 0.0
    work: float = 0.0
    body: Body | None = None
    scored: ScoredTree | None = None
    refused: SimaccelError | None = None
    account: SearchAccount | None = None

    def __post_init__(self) -> None:
        """Take the value and the work from bounds."""
        gain = EFFORT.fused_gain if self.kind == SHARED_ROWS else 0.0
        self.value = self._scale_to_all(self.candidates.bound(self.goal.room)) / (1 - gain)
        self.work = float(self.candidates.least_work) * self.times

    def _scale_to_all(self, value: float) -> float:
        once = self.goal.objective == "footprint"
        return additive_value(value, self.goal) * (1 if once else self.times)

    def _scale_to_single(self, value: float) -> float:
        value = value if self.goal.objective == "footprint" else value / self.times
        return value**2 if self.goal.objective == "edp" else value

    def find(self, limit: float) -> None:
        """Search for what is below a limit; a step that can't be taken has an infinite value."""
        gain = EFFORT.fused_gain if self.kind == SHARED_ROWS else 0.0
        try:
            mapped = self.candidates.map(self.kind, self._scale_to_single(limit * (1 - gain)))
            self.account = self.candidates.account
        except SimaccelError as error:
            self.refused, mapped = error, None
        if mapped is None:
            self.leave_out()
        else:
            self.body, self.scored = mapped
            self.value = self._scale_to_all(self.scored.value)

    def find_least_costly(self, limit: float) -> ScheduleStep | None:
        """Return the step with what costs least of its candidates, as far as is seen.

        None if no candidate has an objective that is not above a limit, or if it is an attention
        whose operators run one after the other.
        """
        found = self.candidates.map_cheaply(self._scale_to_single(limit))
        if found is None:
            return None
        step = replace(self, body=found[0], scored=found[1], refused=None)
        step.value = self._scale_to_all(found[1].value)
        return step

    def leave_out(self) -> None:
        """Take the step as one that is no gain."""
        self.body, self.scored, self.value = (), None, float("inf")

    @property
    def ties(self) -> tuple[int, int]:
        """Bytes moved and kept, of what was found."""
        return (self.scored.dram_bytes, self.scored.buffer_bytes) if self.scored else (0, 0)


def cheapest(steps: Sequence[ScheduleStep], count: int, total: Total = sum) -> list[ScheduleStep]:
    """Return the steps of the cheapest way; none if they don't lead there.

    Of equals, the one that moves and keeps the fewest bytes where that is known, else the first.
    """
    values, last = {0: 0.0}, dict[int, ScheduleStep]()
    for stop, ending in sorted(_by_stop(steps, 0, count).items()):
        ways = [(total((values[s.start], s.value)), s) for s in ending if s.start in values]
        if ways:
            values[stop] = min(value for value, _ in ways)
            equals = [step for value, step in ways if value == values[stop]]
            tied = len(equals) > 1
            last[stop] = min(equals, key=lambda s: _ties(_way(last, s))) if tied else equals[0]
    return _way(last, last[count]) if count in last else []


def _by_stop(steps: Iterable[ScheduleStep], start: int, stop: int) -> dict[int, list[ScheduleStep]]:
    """Return the steps between two places by where they stop."""
    found: dict[int, list[ScheduleStep]] = {}
    for step in steps:
        if start <= step.start and step.stop <= stop:
            found.setdefault(step.stop, []).append(step)
    return found


def _way(last: Mapping[int, ScheduleStep], step: ScheduleStep) -> list[ScheduleStep]:
    """Return the way that ends with a step; ``last`` is the last step of the way to each place."""
    way = [step]
    while way[-1].start:
        way.append(last[way[-1].start])
    return way[::-1]


def _ties(way: Sequence[ScheduleStep]) -> tuple[int, int]:
    return sum(step.ties[0] for step in way), max(step.ties[1] for step in way)


def value_of(way: Sequence[ScheduleStep], total: Total) -> float:
    """Return the objective of a way; 0 of none."""
    return float(total([step.value for step in way])) if way else 0.0


def body_of(way: Sequence[ScheduleStep]) -> Body:
    """Return the groups of a way."""
    return tuple(one for step in way for one in step.body or ())


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
    for end, ending in sorted(_by_stop(steps, start, stop).items()):
        ways = [
            least[step.start] + figure(step)
            for step in ending
            if step.start in least and step.value < float("inf")
        ]
        if ways:
            least[end] = min(ways)
    return least.get(stop, float("inf"))


def least_work(
    steps: Sequence[ScheduleStep], count: int, over: ScheduleStep | None = None
) -> float:
    """Return the work of the way with the least of it, from first operator to last."""
    return least_total(steps, 0, count, lambda step: step.work, over)


def cheapest_searched(
    open_steps: Sequence[ScheduleStep],
    count: int,
    goal: Goal,
    left: float = 0.0,
    can_gain: Callable[[ScheduleStep], bool] = lambda _: True,
) -> list[ScheduleStep]:
    """Return the cheapest way of steps, or one that is at most ``left`` above it, all searched.

    A step is searched only where the cheapest way goes over it as far as is known: until then it
    counts with its bound. Where the goal's time is up it is the cheapest that is known.
    ``can_gain``: whether the whole workload can gain enough with a step, or it isn't searched.
    """
    total = max if goal.objective == "footprint" else sum
    while True:
        way = cheapest(open_steps, count, total)
        known = cheapest([step for step in open_steps if step.body], count, total)
        if known and (goal.is_over or value_of(known, total) - value_of(way, total) <= left):
            return known
        unknown = [step for step in way if step.body is None]
        if not unknown:
            return way
        for step in sorted(unknown, key=lambda step: (step.stop - step.start, step.work)):
            if known and goal.is_over:
                break
            if known and not can_gain(step):
                step.leave_out()
            elif step in cheapest(open_steps, count, total):  # with what was found before it
                ceiling = value_of(known, total) * (1 + goal.tolerance) if known else float("inf")
                step.find(_limit(open_steps, step, count, total, ceiling))


def _limit(
    steps: Sequence[ScheduleStep], step: ScheduleStep, count: int, total: Total, ceiling: float
) -> float:
    """Return what a step has to be below to be in a way of at most ``ceiling``.

    That is what the other operators leave, by what is known of them, and what its own take one by
    one; infinite where that isn't known.
    """
    limit = float("inf")
    if total is sum and ceiling < limit:
        limit = ceiling - least_total(steps, 0, count, lambda step: step.value, step) + step.value
    singles = [
        single
        for single in steps
        if single.stop == single.start + 1
        and step.start <= single.start < step.stop
        and single is not step
    ]
    if len(singles) < step.stop - step.start or any(single.body is None for single in singles):
        return limit
    return min(limit, value_of(singles, total))
