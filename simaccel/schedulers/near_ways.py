"""Near-ties of whole ways: of all about as fast as the fastest, what takes least energy or bytes.

A step that was not searched, because others have slightly lower bounds, is searched if it may move
fewer bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from simaccel.schedulers.schedule_steps import ScheduleStep, value_of
from simaccel.search.accounts import ObjectiveLosses
from simaccel.search.grid_search import Goal
from simaccel.search.near_ties import GroupLosses, cheapest_within

_MOST: Final = 6
"""Steps that are searched because they promise fewer bytes, at most."""
_STATES: Final = 64
"""Ways up to an operator that are weighed at once, at most."""
_State = tuple[float, tuple[float, float], list[ScheduleStep]]
"""A way: its cycles, its energy and bytes, its steps."""


def near_way(
    steps: Sequence[ScheduleStep], way: list[ScheduleStep], goal: Goal
) -> list[ScheduleStep]:
    """Return the way that costs least of those that are not slower than the fastest by more.

    ``way``: the fastest; all values are cycles.
    """
    limit = sum(_lowest_value(step, goal.trades) for step in way) * (1 + goal.tolerance)
    promising = sorted(_promising(steps, way, limit, goal.room), key=lambda one: one[0])
    new = [_nearest_step(step, goal, most) for _, step, most in promising[:_MOST]]
    some = [step for step in (*steps, *new) if step.body]
    return _cheapest_within(some, way[-1].stop, max(limit, value_of(way, sum))) or way


def _nearest_step(step: ScheduleStep, goal: Goal, most: float) -> ScheduleStep:
    """Return a step with what costs least of its candidates, as far as is seen."""
    best = cheapest_within(step.sets, goal.room, most)
    if best is None:
        return step
    body = (replace(step.sets[0].group, tree=best.tree),)
    return replace(step, value=best.value, body=body)


def extra_cost(chosen: Sequence[ScheduleStep], best: Sequence[ScheduleStep]) -> ObjectiveLosses:
    """Return what a way takes beyond another."""
    each = [
        [(one.cycles, one.dram_bytes, one.energy_pj) for step in way if (one := step.scored)]
        for way in (chosen, best)
    ]
    new, old = ([sum(column) for column in zip(*rows, strict=True)] for rows in each)
    return ObjectiveLosses(*(a - b for a, b in zip(new, old, strict=True)))


def _lowest_value(step: ScheduleStep, trades: GroupLosses) -> float:
    return step.value - trades.sum_losses(step.body or ()).cycles


def _promising(
    steps: Sequence[ScheduleStep], way: Sequence[ScheduleStep], limit: float, room: int
) -> Iterator[tuple[float, ScheduleStep, float]]:
    """Yield how many bytes more steps move, if fewer, than the part of a way that they replace.

    With each the objective that it is not above in a way within the limit.
    """
    left = limit - value_of(way, sum)
    for step in steps:
        inside = [part for part in way if step.start <= part.start and part.stop <= step.stop]
        whole = sum(part.stop - part.start for part in inside) == step.stop - step.start
        if step.body is None and step.sets and whole:
            most = left + value_of(inside, sum)
            fewest = min(candidates.fewest(room, most) for candidates in step.sets)
            more = fewest - sum(part.ties[0] for part in inside)
            if more < 0:
                yield more, step, most


def _cheapest_within(steps: Sequence[ScheduleStep], count: int, limit: float) -> list[ScheduleStep]:
    """Return the way with least energy, then fewest bytes, of those within a limit of cycles."""
    states: dict[int, list[_State]] = {0: [(0.0, (0.0, 0.0), [])]}
    for stop in range(1, count + 1):
        ways = [
            (cycles + step.value, _add_cost(cost, step), [*before, step])
            for step in steps
            if step.stop == stop and step.scored
            for cycles, cost, before in states.get(step.start, ())
        ]
        kept: list[_State] = []
        for state in sorted(ways, key=lambda state: (state[0], state[1])):
            if state[0] <= limit and (not kept or state[1] < kept[-1][1]):
                kept.append(state)
        states[stop] = kept[:: -(-len(kept) // _STATES) or 1] + kept[-1:]
    return min(states[count], key=lambda state: state[1])[2] if states[count] else []


def _add_cost(cost: tuple[float, float], step: ScheduleStep) -> tuple[float, float]:
    assert step.scored is not None  # noqa: S101 - callers have looked
    return cost[0] + step.scored.energy_pj, cost[1] + step.scored.dram_bytes
