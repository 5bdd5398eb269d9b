"""Residency: intermediates that stay on chip from one group of a mapping to a later one.

An intermediate lives from the group that makes it to the last one that reads it. If it is held in
the buffer, it is neither stored nor loaded, and the groups in between have less room. Which
intermediates are held is determined by dynamic programming over the groups in order; a state is the
set of tensors held between two groups. The cost of a state is at first a lower bound (that of its
best candidate); when a cheapest path uses the state, its groups are searched with the room that is
left. Whether what comes out of it is better is for runs of the whole to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from simaccel.analytic.prediction import predict
from simaccel.mapping.lifetimes import bytes_around, lifetimes
from simaccel.mapping.space import holding_tensor
from simaccel.mapping.tree import Group, Keep, ResidentScope
from simaccel.pareto import keep_cheaper
from simaccel.schedulers.group_place import NOWHERE, GroupPlace, Price
from simaccel.schedulers.resident_tensors import (
    ResidentTensor,
    resident_tensors,
    times_of,
)
from simaccel.schedulers.sequences import unique
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.judge import Body, key_of_body, mapping_of
from simaccel.workload import Workload


def hold_between(workload: Workload, body: Body, search: TreeSearch) -> list[Body]:
    """Return groups with tensors held between them, as far as that seems to pay.

    The best, and of those that are about as fast what moves fewest bytes: ``body`` itself where
    nothing pays. Tensors that are already kept around groups stay so; when the time budget ends,
    nothing changes.
    """
    if search.goal.objective == "footprint" or search.goal.is_over:
        return [body]
    key = "held", key_of_body(body)
    return search.recall(key, lambda: _hold_sections(workload, body, search))


def _hold_sections(workload: Workload, body: Body, search: TreeSearch) -> list[Body]:
    runs = [list(run) for _, run in groupby(body, lambda one: times_of(workload, one))]
    sections = [_section(workload, run, search) for run in runs]
    return unique(
        [tuple(part for few in way for part in few) for way in zip(*sections, strict=True)]
    )


def fusion_depends_on_residency(workload: Workload, body: Body, search: TreeSearch) -> bool:
    """Return whether another way to fuse the same operators may be the best beside what is held.

    It may where not all that could be held fits beside a fused group: a slower way may hold more.
    And where all that the group loads could be held: its time is no longer that of its loads.
    """
    mapping = mapping_of(workload, "", body)
    predicted = {
        group.name: group for group in predict(workload, mapping, search.accelerator).groups
    }
    for _, run in groupby(body, lambda part: times_of(workload, part)):
        places = list(_places(workload, list(run), search))
        groups = [place.group for place in places]
        few = _weighable_tensors(resident_tensors(workload, groups), search.goal)
        for at, place in enumerate(places):
            if len(place.group.operators) == 1 and not place.fixed:
                continue
            alive = [resident for resident in few if resident.first <= at <= resident.last]
            taken = predicted[place.group.name].buffer_bytes + sum(each.n_bytes for each in alive)
            held = {name for resident in alive for name in resident.tensors}
            if taken > capacity(search.accelerator) or _loads(workload, place.group) <= held:
                return True
    return False


def _loads(workload: Workload, group: Group) -> set[str]:
    operators = [workload.operator(name) for name in group.operators]
    read = {operand.tensor for operator in operators for operand in operator.inputs}
    return read - {operator.output.tensor for operator in operators}


def _section(
    workload: Workload, body: list[Group | ResidentScope], search: TreeSearch
) -> tuple[Body, Body]:
    """Return groups that run equally often, with tensors held between them where that pays.

    The best, and of those that are about as fast what moves fewest bytes.
    """
    places = list(_places(workload, body, search))
    groups = [place.group for place in places]
    fixed = [keep for place in places for keep in place.fixed]
    taken = {keep.tensor for keep in fixed}
    free = [
        resident
        for resident in resident_tensors(workload, groups)
        if not taken & {holding_tensor(workload, name, fixed) for name in resident.tensors}
    ]
    few = _weighable_tensors(free, search.goal)
    if not few:
        return body, body
    for place in places:
        place.begin()
    nothing: Way = [() for _ in places]
    best = _way(places, few, nothing)
    cheapest, goal = best, search.goal
    if goal.objective == "cycles" and goal.tolerance:
        cheapest = _way(places, few, best, _total(places, best)[0] * (1 + goal.tolerance))
    made = (list(_build_groups(places, way)) if any(way) else body for way in (best, cheapest))
    return next(made), next(made)


def _places(
    workload: Workload, body: Sequence[Group | ResidentScope], search: TreeSearch
) -> Iterator[GroupPlace]:
    for one in body:
        if isinstance(one, Group):
            yield GroupPlace(workload, one, search)
            continue
        living = lifetimes(workload, one)
        for at, group in enumerate(one.groups):
            yield GroupPlace(workload, group, search, one.keeps, bytes_around(living, at))


def _weighable_tensors(found: Sequence[ResidentTensor], goal: Goal) -> list[ResidentTensor]:
    """Return the resident tensors that fit, as many as can be considered at once."""
    kept = [one for one in found if one.n_bytes <= capacity(goal.accelerator)]
    ends = range(max((one.last for one in kept), default=-1) + 1)
    for at in ends:
        alive = [one for one in kept if one.first <= at <= one.last]
        alive.sort(key=lambda one: (one.last - one.first, -one.n_bytes, one.first))
        dropped = set(alive[EFFORT.held :])
        kept = [one for one in kept if one not in dropped]
    return kept


Way = list[tuple[ResidentTensor, ...]]
"""The tensors held while each group runs."""


def _way(
    places: Sequence[GroupPlace],
    few: Sequence[ResidentTensor],
    known: Way,
    limit: float | None = None,
) -> Way:
    """Return the best path after a few rounds of search; ``known``: one that is searched.

    With a ``limit`` of the objective that is the one that moves fewest bytes.
    """

    def rank(price: Price) -> Price:
        if limit is None:
            return price
        return (price[1], price[0]) if price[0] <= limit else NOWHERE

    best, price = known, rank(_total(places, known))
    for _ in range(EFFORT.held_rounds if price[0] < NOWHERE[0] else 0):
        if places[0].search.goal.is_over:
            break
        way = _cheapest(places, few, limit)
        unknown = [(p, held) for p, held in zip(places, way, strict=True) if not p.is_known(held)]
        for place, held in unknown:
            place.find(held)
        total = rank(_total(places, way))
        if total < price:
            best, price = way, total
        if not unknown:
            break
    return best


def _total(places: Sequence[GroupPlace], way: Way) -> Price:
    prices = [place.expected_cost(held) for place, held in zip(places, way, strict=True)]
    return sum(value for value, _ in prices), sum(moved for _, moved in prices)


Label = tuple[Price, Way]
"""What a way has cost so far."""


def _cheapest(
    places: Sequence[GroupPlace], few: Sequence[ResidentTensor], limit: float | None
) -> Way:
    """Return the tensors to hold while each group runs, by dynamic programming.

    A state is what is held between two groups; of its labels only the best is kept, or with a
    limit those that move fewer bytes than all with a better objective.
    """
    ways: dict[frozenset[ResidentTensor], list[Label]] = {frozenset(): [((0.0, 0.0), [])]}
    for at, place in enumerate(places):
        fresh = [resident for resident in few if resident.first == at]
        further: dict[frozenset[ResidentTensor], list[Label]] = {}
        for held, labels in ways.items():
            for new in _subsets(fresh):
                now = tuple(resident for resident in few if resident in held or resident in new)
                value, moved = place.expected_cost(now)
                after = frozenset(resident for resident in now if resident.last > at)
                if value < NOWHERE[0]:
                    further.setdefault(after, []).extend(
                        ((before[0] + value, before[1] + moved), [*way, now])
                        for before, way in labels
                    )
        ways = {held: _keep_undominated(labels, limit) for held, labels in further.items()}
    labels = [label for every in ways.values() for label in every]
    if limit is None:
        return min(labels, key=lambda label: label[0])[1]
    able = [label for label in labels if label[0][0] <= limit]
    return min(able or labels, key=lambda label: label[0][::-1])[1]


def _keep_undominated(labels: Sequence[Label], limit: float | None) -> list[Label]:
    """Return the best label; with a limit also those that move fewer bytes."""
    if limit is None:
        return [min(labels, key=lambda label: label[0])]
    kept = keep_cheaper(labels, rank=lambda label: label[0], cost=lambda label: label[0][1])
    return kept[:: -(-len(kept) // EFFORT.labels)] + kept[-1:]


def _subsets(some: Sequence[ResidentTensor]) -> Iterator[tuple[ResidentTensor, ...]]:
    for number in range(1 << len(some)):
        yield tuple(one for at, one in enumerate(some) if number >> at & 1)


def _build_groups(places: Sequence[GroupPlace], way: Way) -> Iterator[Group | ResidentScope]:
    """Yield the groups, those that hold tensors together in one scope."""
    groups = [
        replace(place.group, tree=place.tree(held)) for place, held in zip(places, way, strict=True)
    ]
    at = 0
    while at < len(groups):
        end = at + 1
        while end < len(groups) and _holds_from_before(places, way, end):
            end += 1
        keeps = dict.fromkeys(
            keep
            for place, held in zip(places[at:end], way[at:end], strict=True)
            for keep in (*place.fixed, *(Keep(resident.name) for resident in held))
        )
        inside = tuple(groups[at:end])
        yield ResidentScope(keeps=tuple(keeps), groups=inside) if keeps else inside[0]
        at = end


def _holds_from_before(places: Sequence[GroupPlace], way: Way, at: int) -> bool:
    """Return whether a tensor is held from the previous group to this one."""
    fixed = bool(places[at].fixed) and places[at].fixed is places[at - 1].fixed
    return fixed or any(one.first < at for one in way[at])
