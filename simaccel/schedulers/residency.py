"""Residency: intermediates that stay on chip from one group of a mapping to a later one.

An intermediate lives from the group that makes it to the last one that reads it. While it is held
in the buffer it is neither stored nor loaded, and the groups in between have less room. Which
intermediates are held follows from dynamic programming over the groups in order, with the set of
held tensors as the state. The cost of a group in a state is at first a lower bound; if the cheapest
path uses the state, the group is searched with the room that is left. Runs of the whole decide
whether the result is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from simaccel.analytic.prediction import predict
from simaccel.mapping.lifetimes import bytes_around, lifetimes
from simaccel.mapping.space import holding_tensor
from simaccel.mapping.tree import Group, Keep, ResidentScope
from simaccel.pareto import Label, undominated_labels
from simaccel.schedulers.group_place import (
    NOWHERE,
    GroupPlace,
    Price,
    ResidentTensor,
    repetition_of,
    resident_tensors,
)
from simaccel.schedulers.group_search import search_together
from simaccel.schedulers.sequences import unique
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.judge import Body, key_of_body, mapping_of
from simaccel.workload import Workload


def hold_between(workload: Workload, body: Body, search: TreeSearch) -> list[Body]:
    """Return alternatives to ``body`` with tensors held between groups, if that seems to pay.

    They are the best, and of those about as fast the one with the fewest DRAM bytes; ``body``
    itself if nothing pays. Tensors that are already kept around groups stay so. Nothing changes
    once the time budget is used up. Groups of ``body`` without a tree are searched as they are
    chosen, with or without tensors held.
    """
    if search.goal.objective == "footprint" or search.goal.is_over:
        return [body]

    def hold() -> list[Body]:
        runs = groupby(body, lambda part: repetition_of(workload, part))
        pairs = zip(*(_hold_in_run(workload, list(run), search) for _, run in runs), strict=True)
        return unique([tuple(part for section in pair for part in section) for pair in pairs])

    return search.recall(("held", key_of_body(body)), hold)


def bound_beside_held(workload: Workload, groups: Body, search: TreeSearch) -> float:
    """Return the least total of the bounds of groups, with any tensors held between them.

    Of all repetitions. Infinite if no tensor could be held.
    """
    total, is_any = 0.0, False
    for (_, times), run in groupby(groups, lambda part: repetition_of(workload, part)):
        places = list(_places(workload, list(run), search))
        residents = resident_tensors(workload, [place.group for place in places])
        tensors = _choose_tensors(residents, search.goal)
        total += times * _total_price(places, _cheapest(places, tensors, None))[0]
        is_any |= bool(tensors)
    return total if is_any else float("inf")


def fusion_depends_on_residency(workload: Workload, body: Body, search: TreeSearch) -> bool:
    """Return whether holding tensors could change the best fusion of these operators.

    It could if not all tensors that may be held fit the buffer together with a fused group, as a
    slower fusion may leave more room; or if all inputs of a group may be held, as its time then no
    longer depends on loads.
    """
    mapping = mapping_of(workload, "", body)
    predicted = {
        group.name: group for group in predict(workload, mapping, search.accelerator).groups
    }
    for _, run in groupby(body, lambda part: repetition_of(workload, part)):
        places = list(_places(workload, list(run), search))
        groups = [place.group for place in places]
        tensors = _choose_tensors(resident_tensors(workload, groups), search.goal)
        for at, place in enumerate(places):
            if len(place.group.operators) == 1 and not place.fixed:
                continue
            alive = [resident for resident in tensors if resident.first <= at <= resident.last]
            taken = predicted[place.group.name].buffer_bytes + sum(each.n_bytes for each in alive)
            held = {name for resident in alive for name in resident.tensors}
            operators = [workload.operator(name) for name in place.group.operators]
            read = {operand.tensor for operator in operators for operand in operator.inputs}
            loads = read - {operator.output.tensor for operator in operators}
            if taken > capacity(search.accelerator) or loads <= held:
                return True
    return False


def _hold_in_run(
    workload: Workload, body: list[Group | ResidentScope], search: TreeSearch
) -> tuple[Body, Body]:
    """Return two bodies of groups that run equally often, with tensors held where that pays.

    The best one, and of those about as fast the one that moves the fewest bytes.
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
    tensors = _choose_tensors(free, search.goal)
    nothing: Residents = [() for _ in places]
    is_open = not all(group.tree for group in groups)
    if not tensors and not is_open:
        return body, body
    for place in () if is_open else places:
        place.find(())
    best = _search_residents(places, tensors, nothing)
    cheapest, goal = best, search.goal
    if goal.objective == "cycles" and goal.tolerance:
        limit = _total_price(places, best)[0] * (1 + goal.tolerance)
        cheapest = _search_residents(places, tensors, best, limit)
    made = (
        list(_build_groups(places, residents)) if any(residents) or is_open else body
        for residents in (best, cheapest)
    )
    return next(made), next(made)


def _places(
    workload: Workload, body: Sequence[Group | ResidentScope], search: TreeSearch
) -> Iterator[GroupPlace]:
    for one in body:
        living = lifetimes(workload, one) if isinstance(one, ResidentScope) else ()
        for at, group in enumerate(one.groups):
            yield GroupPlace(workload, group, search, one.keeps, bytes_around(living, at))


def _choose_tensors(tensors: Sequence[ResidentTensor], goal: Goal) -> list[ResidentTensor]:
    """Return the tensors to consider: those that fit, and at any time only so many.

    Dropped are those that live longest, and of these the smallest.
    """
    kept = [tensor for tensor in tensors if tensor.n_bytes <= capacity(goal.accelerator)]
    ends = range(max((tensor.last for tensor in kept), default=-1) + 1)
    for at in ends:
        alive = [tensor for tensor in kept if tensor.first <= at <= tensor.last]
        alive.sort(key=lambda tensor: (tensor.last - tensor.first, -tensor.n_bytes, tensor.first))
        dropped = set(alive[EFFORT.held :])
        kept = [tensor for tensor in kept if tensor not in dropped]
    return kept


Residents = list[tuple[ResidentTensor, ...]]
"""The tensors held while each group runs."""


def _search_residents(
    places: Sequence[GroupPlace],
    tensors: Sequence[ResidentTensor],
    known: Residents,
    limit: float | None = None,
) -> Residents:
    """Return the best tensors to hold after a few rounds of search; ``known``: searched before.

    With a ``limit`` of the objective, the best are those that move the fewest bytes within it.
    """

    def rank(price: Price) -> Price:
        if limit is None:
            return price
        return (price[1], price[0]) if price[0] <= limit else NOWHERE

    best = known
    price = NOWHERE if _unsearched_groups(places, known) else rank(_total_price(places, known))
    for _ in range(EFFORT.held_rounds):
        if places[0].search.goal.is_over:
            break
        residents = _cheapest(places, tensors, limit)
        unsearched = _unsearched_groups(places, residents)
        search_together([place.request(held) for place, held in unsearched if place.is_searched])
        for place, held in unsearched:
            place.find(held)
        total = rank(_total_price(places, residents))
        if total < price:
            best, price = residents, total
        if not unsearched:
            break
    return best


def _unsearched_groups(
    places: Sequence[GroupPlace], residents: Residents
) -> list[tuple[GroupPlace, tuple[ResidentTensor, ...]]]:
    """Return the groups that were not searched with these tensors held, with the tensors."""
    pairs = zip(places, residents, strict=True)
    return [(place, held) for place, held in pairs if not place.is_known(held)]


def _total_price(places: Sequence[GroupPlace], residents: Residents) -> Price:
    prices = [place.expected_cost(held) for place, held in zip(places, residents, strict=True)]
    return sum(value for value, _ in prices), sum(moved for _, moved in prices)


def _cheapest(
    places: Sequence[GroupPlace], tensors: Sequence[ResidentTensor], limit: float | None
) -> Residents:
    """Return the tensors to hold while each group runs, with candidates of the choice counted."""
    while True:
        residents = _cheapest_path(places, tensors, limit)
        pairs = zip(places, residents, strict=True)
        rough = [(place, held) for place, held in pairs if not place.is_counted(held)]
        for place, held in rough:
            place.expected_cost(held)
        if not rough:
            return residents


def _cheapest_path(
    places: Sequence[GroupPlace], tensors: Sequence[ResidentTensor], limit: float | None
) -> Residents:
    """Return the tensors to hold while each group runs, by dynamic programming.

    Costs are optimistic where candidates are not counted. A state is what is held between two
    groups; of its labels only the best is kept, or with a limit those that move fewer bytes than
    all with a better objective.
    """
    states: dict[frozenset[ResidentTensor], list[Label]] = {frozenset(): [(0.0, 0.0, ())]}
    for at, place in enumerate(places):
        fresh = [resident for resident in tensors if resident.first == at]
        most = [resident for resident in tensors if resident.first <= at <= resident.last]
        subsets = [[r for n, r in enumerate(fresh) if k >> n & 1] for k in range(1 << len(fresh))]
        further: dict[frozenset[ResidentTensor], list[Label]] = {}
        for held, labels in states.items():
            for new in subsets:
                now = tuple(resident for resident in tensors if resident in held or resident in new)
                value, moved = place.optimistic_cost(now, most)
                after = frozenset(resident for resident in now if resident.last > at)
                if value < NOWHERE[0]:
                    further.setdefault(after, []).extend(
                        (before + value, bytes_before + moved, (*residents, now))
                        for before, bytes_before, residents in labels
                    )
        states = {
            held: [min(labels, key=itemgetter(0, 1))]
            if limit is None
            else undominated_labels(labels, EFFORT.labels)
            for held, labels in further.items()
        }
    labels = [label for every in states.values() for label in every]
    if limit is None:
        return list(min(labels, key=itemgetter(0, 1))[2])
    within = [label for label in labels if label[0] <= limit]
    return list(min(within or labels, key=itemgetter(1, 0))[2])


def _build_groups(
    places: Sequence[GroupPlace], residents: Residents
) -> Iterator[Group | ResidentScope]:
    """Yield the groups, those that hold tensors together in one scope."""
    groups = [
        replace(place.group, tree=place.tree(held))
        for place, held in zip(places, residents, strict=True)
    ]
    at = 0
    while at < len(groups):
        end = at + 1
        while end < len(groups) and (
            any(resident.first < end for resident in residents[end])
            or (places[end].fixed and places[end].fixed is places[end - 1].fixed)
        ):
            end += 1
        keeps = dict.fromkeys(
            keep
            for place, held in zip(places[at:end], residents[at:end], strict=True)
            for keep in (*place.fixed, *(Keep(resident.name) for resident in held))
        )
        inside = tuple(groups[at:end])
        yield ResidentScope(keeps=tuple(keeps), groups=inside) if keeps else inside[0]
        at = end
