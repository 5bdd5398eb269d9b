"""Near-ties of whole workloads: of all about as fast as the fastest, what costs least.

Cost is energy where it is known, else bytes. A step of `best` that was not searched, because others
have slightly lower bounds, is searched if it may move fewer bytes. What groups that are near-ties
one by one leave of the tolerance goes to those that save most with it: a group that is a small part
of the run may be slower by more than its own share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Final

from simaccel.mapping.tree import Group, Keep, ResidentScope, Tree
from simaccel.schedulers.residency import GroupPlace
from simaccel.schedulers.resident_tensors import ResidentTensor, resident_tensors, times_of
from simaccel.schedulers.schedule_steps import ScheduleStep, value_of
from simaccel.schedulers.sequences import measure_groups
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import ObjectiveLosses
from simaccel.search.candidate_set import CandidateSet, ScoredTree, capacity
from simaccel.search.canonical import Names, rename_tree
from simaccel.search.grid_search import Goal
from simaccel.search.judge import Body
from simaccel.search.near_ties import GroupLosses, cheapest_within, decides
from simaccel.workload import Workload

_MOST: Final = 6
"""Steps that are searched because they promise fewer bytes, at most."""
_STATES: Final = 64
"""Ways up to an operator that are weighed at once, at most."""
_KINDS: Final = 4
"""Kinds of groups that are searched for what costs less, at most: those that may save most."""
_WORTH: Final = 0.005
"""Of the cost of a workload; a group that can save no such part is not searched again."""
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


@dataclass
class _Alike:
    """Groups that were searched as one, and what was chosen for them.

    ``members``: each group, with its names. ``times``: how often they run in all.
    """

    candidates: CandidateSet
    room: int
    chosen: ScoredTree
    members: list[tuple[Group, Names]] = field(default_factory=list)
    times: int = 0

    def limit_cycles(self, left: float) -> float:
        """Return the cycles of each where all take ``left`` more."""
        return self.chosen.value + left / self.times

    def saving(self, left: float) -> float:
        """Return what they may save in ``left`` more cycles, at most, by counts alone."""
        column = self.candidates.energy if self.chosen.energy_pj else self.candidates.dram
        fits = self.candidates.fitting(self.room)
        fits = fits[self.candidates.bounds[fits] <= self.limit_cycles(left)]
        least = float(column[fits].min()) if fits.size else float("inf")
        return (_cost(self.chosen) - least) * self.times


def save_within(workload: Workload, body: Body, search: TreeSearch) -> Body:
    """Return groups that cost less in the cycles that a near-tie of the whole may still take."""
    goal = search.goal
    if goal.objective != "cycles" or not decides(goal.objective, goal.tolerance):
        return body
    if goal.is_shared or goal.is_over or len(workload.operators) == 1:
        return body
    known = measure_groups(workload, body, goal)
    limit = (known.value - goal.trades.total(workload, body).cycles) * (1 + goal.tolerance)
    left = limit - known.value
    kinds = _alike_groups(workload, body, search) if left > 0 else []
    worth = [(alike.saving(left), at) for at, alike in enumerate(kinds)]
    worth = [pair for pair in worth if pair[0] > _WORTH * _cost(known)]
    for _, at in sorted(worth, key=lambda pair: (-pair[0], pair[1]))[:_KINDS]:
        alike = kinds[at]
        cycles = alike.limit_cycles(limit - known.value)
        cheaper = cheapest_within([alike.candidates], alike.room, cycles, alike.chosen)
        if cheaper is None:
            continue
        trees = {
            group.operators: rename_tree(cheaper.tree, names) for group, names in alike.members
        }
        changed = _with_trees(body, trees)
        after = measure_groups(workload, changed, goal)
        if after.value <= limit and _cost(after) < (1 - _WORTH) * _cost(known):
            goal.trades.replace(body, changed)
            for group, _ in alike.members:
                new = replace(group, tree=trees[group.operators])
                goal.trades.note((new,), replace(cheaper, instead=alike.chosen.least))
            body, known = changed, after
    return body


def _cost(scored: ScoredTree) -> float:
    """Return the energy in pJ where it is known, else the bytes."""
    return scored.energy_pj or float(scored.dram_bytes)


def _alike_groups(workload: Workload, body: Body, search: TreeSearch) -> list[_Alike]:
    """Return the groups whose trees are those that a search of theirs has chosen."""
    kinds: dict[object, _Alike] = {}
    for place, held in _searched_places(workload, body, search):
        searched, room = place.search_held(held), place.room(held)
        taken = searched.known_bytes(capacity(search.accelerator) - room)
        chosen = None if taken is None else searched.found[taken]
        group = place.group
        if chosen is None or rename_tree(chosen.tree, searched.names) != group.tree:
            continue
        key = id(searched.found), room, chosen.tree
        alike = kinds.setdefault(key, _Alike(searched.candidates, room, chosen))
        alike.members.append((group, searched.names))
        alike.times += workload.times(group.operators[0])
    return list(kinds.values())


def _searched_places(
    workload: Workload, body: Body, search: TreeSearch
) -> Iterator[tuple[GroupPlace, tuple[ResidentTensor, ...]]]:
    """Yield groups that are searched one by one, with the tensors that are held meanwhile."""
    for _, run in groupby(body, lambda part: times_of(workload, part)):
        scopes: list[tuple[tuple[Keep, ...], Sequence[Group]]] = [
            (part.keeps, part.groups) if isinstance(part, ResidentScope) else ((), (part,))
            for part in run
        ]
        groups = [group for _, inside in scopes for group in inside]
        tensors = {tensor.name: tensor for tensor in resident_tensors(workload, groups)}
        places = iter(enumerate(groups))
        for keeps, inside in scopes:
            held = [tensors[keep.tensor] for keep in keeps if keep.tensor in tensors]
            for at, group in islice(places, len(inside)):
                place = GroupPlace(workload, group, search)
                if place.is_searched and len(held) == len(keeps):
                    yield place, tuple(each for each in held if each.first <= at <= each.last)


def _with_trees(body: Body, trees: Map[tuple[str, ...], Tree]) -> Body:
    """Return groups with other trees, by their operators."""
    return tuple(
        replace(one, groups=tuple(_with_tree(group, trees) for group in one.groups))
        if isinstance(one, ResidentScope)
        else _with_tree(one, trees)
        for one in body
    )


def _with_tree(group: Group, trees: Map[tuple[str, ...], Tree]) -> Group:
    return replace(group, tree=trees.get(group.operators, group.tree))
