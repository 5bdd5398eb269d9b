"""Steps of a schedule: ranges of operators that are mapped together, and the cheapest path of them.

A path is a sequence of steps that has each operator of the workload once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from simaccel.errors import SimaccelError
from simaccel.schedulers.group_search import GroupSearch, search_together
from simaccel.schedulers.sequences import additive_value
from simaccel.schedulers.staged_attention import StagedAttention
from simaccel.search.accounts import SearchAccount
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.judge import Body, ScoredTree

SHARED_ROWS: Final = "shared rows"
Total = Callable[[Iterable[float]], float]
"""Combines the objectives of groups: their sum, or for the footprint their maximum."""
PartSearch = GroupSearch | StagedAttention
"""Searches for mappings of some operators."""


@dataclass
class ScheduleStep:
    """The operators from ``start`` up to ``stop`` as one part, which runs ``times`` times.

    ``kind``: what maps them. ``value``: the objective of all runs, on a scale on which steps add
    up; a lower bound until the step is searched. ``work``: least cycles of array and SFU of all
    runs, whatever is held on chip. ``body``: the mapping found, with the figures of one run
    (``scored``); empty if nothing was below the limit.
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

    def find(self, limit: float, *, cheaply: bool = False) -> None:
        """Search for the best below a limit; the value is infinite if there is none.

        ``cheaply``: search a single group for the least costly within it that a few runs find.
        """
        gain = EFFORT.fused_gain if self.kind == SHARED_ROWS and not cheaply else 0.0
        search, single = self.candidates, limit * (1 - gain)
        single = single if self.goal.objective == "footprint" else single / self.times
        single = single**2 if self.goal.objective == "edp" else single
        try:
            if cheaply and isinstance(search, GroupSearch):
                mapped = search.map_cheaply(single)
            else:
                mapped = search.map(self.kind, single)
                self.account = search.account
        except SimaccelError as error:
            self.refused, mapped = error, None
        if mapped is None:
            self.leave_out()
        else:
            self.body, self.scored = mapped
            self.value = self._scale_to_all(self.scored.value)

    def leave_out(self) -> None:
        """Exclude the step: no path can gain by it."""
        self.body, self.scored, self.value = (), None, float("inf")

    @property
    def ties(self) -> tuple[int, int]:
        """DRAM bytes and buffer bytes of the mapping found, which decide between equal values."""
        return (self.scored.dram_bytes, self.scored.buffer_bytes) if self.scored else (0, 0)


def cheapest(steps: Sequence[ScheduleStep], count: int, total: Total = sum) -> list[ScheduleStep]:
    """Return the cheapest path of steps over ``count`` operators; empty if there is none.

    Of equally cheap paths, the one with the fewest DRAM bytes and buffer bytes, as far as they are
    known, else the first.
    """
    values, last = {0: 0.0}, dict[int, ScheduleStep]()

    def ties(step: ScheduleStep) -> tuple[int, int]:
        path = _path(last, step)
        return sum(each.ties[0] for each in path), max(each.ties[1] for each in path)

    for stop, ending in sorted(_by_stop(steps, 0, count).items()):
        paths = [(total((values[s.start], s.value)), s) for s in ending if s.start in values]
        if paths:
            values[stop] = min(value for value, _ in paths)
            equals = [step for value, step in paths if value == values[stop]]
            last[stop] = min(equals, key=ties) if len(equals) > 1 else equals[0]
    return _path(last, last[count]) if count in last else []


def _by_stop(steps: Iterable[ScheduleStep], start: int, stop: int) -> dict[int, list[ScheduleStep]]:
    """Return the steps between two places by where they stop."""
    found: dict[int, list[ScheduleStep]] = {}
    for step in steps:
        if start <= step.start and step.stop <= stop:
            found.setdefault(step.stop, []).append(step)
    return found


def _path(last: Mapping[int, ScheduleStep], step: ScheduleStep) -> list[ScheduleStep]:
    """Return the path that ends with a step; ``last``: the last step of the path to each place."""
    path = [step]
    while path[-1].start:
        path.append(last[path[-1].start])
    return path[::-1]


def value_of(path: Sequence[ScheduleStep], total: Total) -> float:
    """Return the objective of a path; 0 if it is empty."""
    return float(total([step.value for step in path])) if path else 0.0


def body_of(path: Sequence[ScheduleStep]) -> Body:
    """Return the groups of a path."""
    return tuple(one for step in path for one in step.body or ())


def least_total(
    steps: Sequence[ScheduleStep],
    start: int,
    stop: int,
    figure: Callable[[ScheduleStep], float],
    through: ScheduleStep | None = None,
) -> float:
    """Return the least total of a figure over all paths from ``start`` to ``stop``, else infinity.

    ``through``: a step that the path has to include. Steps that were left out are in no path.
    """
    if through is not None:
        before = least_total(steps, start, through.start, figure)
        return before + figure(through) + least_total(steps, through.stop, stop, figure)
    least = {start: 0.0}
    for end, ending in sorted(_by_stop(steps, start, stop).items()):
        paths = [
            least[step.start] + figure(step)
            for step in ending
            if step.start in least and step.value < float("inf")
        ]
        if paths:
            least[end] = min(paths)
    return least.get(stop, float("inf"))


def least_work(
    steps: Sequence[ScheduleStep], count: int, through: ScheduleStep | None = None
) -> float:
    """Return the least work of all paths through the workload, or of those over a step."""
    return least_total(steps, 0, count, lambda step: step.work, through)


def cheapest_searched(
    open_steps: Sequence[ScheduleStep],
    count: int,
    goal: Goal,
    left: float = 0.0,
    can_gain: Callable[[ScheduleStep], bool] = lambda _: True,
) -> list[ScheduleStep]:
    """Return a path of searched steps that is at most ``left`` above the cheapest.

    A step counts with its bound until the cheapest path uses it; only then it is searched. If the
    goal's time is up, the result is the cheapest path that is known. ``can_gain``: whether the
    whole workload could gain enough by a step; otherwise it is not searched.
    """
    total = max if goal.objective == "footprint" else sum
    numbers = Counter(at for step in open_steps for at in range(step.start, step.stop))
    only = {at for at, number in numbers.items() if number == 1}  # one step has this operator
    while True:
        path = cheapest(open_steps, count, total)
        known = cheapest([step for step in open_steps if step.body], count, total)
        if known and (goal.is_over or value_of(known, total) - value_of(path, total) <= left):
            return known
        unknown = [step for step in path if step.body is None]
        if not unknown:
            return path
        searches = [step.candidates for step in unknown if not known]
        groups = (search for search in searches if isinstance(search, GroupSearch))
        search_together([(group, goal.held_bytes) for group in groups])
        for step in sorted(unknown, key=lambda step: (step.stop - step.start, step.work)):
            if known and goal.is_over:
                break
            if known and not can_gain(step):
                step.leave_out()
                continue
            is_needed = bool(only & {*range(step.start, step.stop)})
            if is_needed or step in cheapest(open_steps, count, total):  # as of what was found
                ceiling = value_of(known, total) * (1 + goal.tolerance) if known else float("inf")
                step.find(_limit(open_steps, step, count, total, ceiling))


def _limit(
    steps: Sequence[ScheduleStep], step: ScheduleStep, count: int, total: Total, ceiling: float
) -> float:
    """Return the limit below which a step can be in a path of at most ``ceiling``.

    It is what the bounds of the other operators leave, or what the step's operators take one by one
    if that is less; infinite if neither is known.
    """
    limit = float("inf")
    if total is sum and ceiling < limit:
        limit = ceiling - least_total(steps, 0, count, lambda step: step.value, step) + step.value
    alone = (other for other in steps if other.stop == other.start + 1 and other is not step)
    singles = [single for single in alone if step.start <= single.start < step.stop]
    if len(singles) < step.stop - step.start or any(single.body is None for single in singles):
        return limit
    return min(limit, value_of(singles, total))
