"""Residency: intermediates that stay on chip from one group of a mapping to a later one.

An intermediate lives from the group that makes it to the last one that reads it. If it is held in
the buffer, it is neither stored nor loaded, and the groups in between have less room. Which
intermediates are held is determined by dynamic programming over the groups in order; a state is the
set of tensors held between two groups. The cost of a state is at first a lower bound (that of its
best candidate); when a cheapest path uses the state, its groups are searched with the room that is
left. Runs on the machine decide in the end: without a gain in cycles nothing is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from simaccel.analytic.family import family_of
from simaccel.analytic.prediction import predict
from simaccel.errors import SimaccelError
from simaccel.mapping.cores import CoreCut, core_spreads, piece_of
from simaccel.mapping.lifetimes import bytes_around, lives
from simaccel.mapping.space import aliases_of, holding_tensor, space_of
from simaccel.mapping.tree import Group, Keep, ResidentScope, Tree
from simaccel.schedulers.chains import OperatorChain
from simaccel.schedulers.epilogues import epilogue, search_epilogue
from simaccel.schedulers.resident_tensors import (
    ResidentTensor,
    remove_tiles,
    resident_tensors,
    tight,
    times_of,
    touches,
)
from simaccel.schedulers.sequences import (
    additive_value,
    best_of,
    measure_groups,
    preferred_sequence,
    unique,
)
from simaccel.schedulers.tree_search import OperatorCandidateSet, TreeSearch
from simaccel.search.candidate_set import CandidateSet, capacity
from simaccel.search.grid_search import Goal, search
from simaccel.search.judge import Body, key_of_body, mapping_of
from simaccel.workload import Workload

ALIVE = 6
"""The most tensors that are considered at once; of more, those that live longest are left out."""
_ROUNDS = 4
"""Rounds of finding the cheapest path and searching its states."""
Price = tuple[float, float]
"""The objective, then DRAM bytes for equal values."""
NOWHERE: Price = (float("inf"), float("inf"))


def hold_between(workload: Workload, body: Body, search: TreeSearch) -> Body:
    """Return groups with tensors held between them where that pays; else ``body`` unchanged.

    Tensors that are already kept around groups stay so; when the time budget ends, nothing changes.
    """
    if search.goal.objective == "footprint" or search.goal.is_over:
        return body
    key = "held", key_of_body(body)
    return search.recall(key, lambda: _hold_sections(workload, body, search))


def _hold_sections(workload: Workload, body: Body, search: TreeSearch) -> Body:
    found: list[Group | ResidentScope] = []
    for _, run in groupby(body, lambda one: times_of(workload, one)):
        found += _section(workload, list(run), search)
    changed = tuple(found)
    return changed if changed != tuple(body) and _better(workload, body, changed, search) else body


def best_held(workload: Workload, bodies: Sequence[Body], search: TreeSearch) -> Body:
    """Return the best of some sequences of groups with held tensors; the first of equals."""
    found = [hold_between(workload, body, search) for body in unique(bodies)]
    return best_of(workload, found, search.goal)


def may_differ(workload: Workload, body: Body, search: TreeSearch) -> bool:
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


def _better(workload: Workload, before: Body, after: Body, search: TreeSearch) -> bool:
    """Return whether ``after`` is better than ``before``, by runs if the objective is cycles."""
    goal = search.goal
    old = measure_groups(workload, before, goal)
    try:
        new = measure_groups(workload, after, goal)
    except SimaccelError:  # the machine takes fewer trees than the closed form
        return False
    if not goal.tolerance:
        return (new.value, new.dram_bytes) <= (old.value, old.dram_bytes)
    return preferred_sequence(workload, (after, before), (new, old), goal) == 0


# -- what it costs


@dataclass
class GroupPlace:
    """A group in the sequence; ``fixed_bytes`` of the buffer are already kept around it."""

    workload: Workload
    group: Group
    search: TreeSearch
    fixed: tuple[Keep, ...] = ()
    fixed_bytes: int = 0
    error: float = 1.0
    """Cost of the group with nothing held, divided by its bound."""

    def promise(self, held: Sequence[ResidentTensor]) -> Price:
        """Return the cost of the group with some tensors held; from its bound if not searched."""
        key = self._key(held)
        if key in self._known:
            return self._known[key][0]
        room = self.room(held)
        if room < 0 or (held and self._is_cut()):
            return NOWHERE
        value, moved = self._grid(held).promise(room)
        return additive_value(value, self.search.goal) * self.error, moved

    def is_known(self, held: Sequence[ResidentTensor]) -> bool:
        """Whether the group has been searched with these tensors held."""
        return self._key(held) in self._known

    def begin(self) -> None:
        """Search the group with nothing held, and compare the result with its bound."""
        self.find(())
        value = self._known[self._key(())][0][0]
        bound = additive_value(self._grid(()).promise(self.room(()))[0], self.search.goal)
        self.error = max(1.0, value / bound) if 0 < bound < NOWHERE[0] else 1.0

    def find(self, held: Sequence[ResidentTensor]) -> None:
        """Search the group with these tensors held."""
        if not self.is_known(held):
            self._known[self._key(held)] = self._find_price(held, self.room(held))

    def tree(self, held: Sequence[ResidentTensor]) -> Tree:
        """Return the tree that was found with these tensors held."""
        return self._known[self._key(held)][1]

    def _find_price(self, held: Sequence[ResidentTensor], room: int) -> tuple[Price, Tree]:
        taken = capacity(self.search.goal.accelerator) - room
        if self.is_searched:
            like = self.tree(()) if held and self.is_known(()) else ()
            best = self.search_held(held).fastest(taken, like=like)
        else:
            best = search(self._grid(held), replace(self.search.goal, held_bytes=taken)).best
        if best is None:
            return NOWHERE, self.group.tree
        tree = best.tree if held or self.is_searched else self.group.tree
        return (additive_value(best.value, self.search.goal), float(best.dram_bytes)), tree

    @cached_property
    def _known(self) -> dict[object, tuple[Price, Tree]]:
        """Costs and trees of the group, in whatever body it is, by the tensors that are held."""
        return self.search.recall(self._name, dict[object, tuple[Price, Tree]])

    @cached_property
    def _name(self) -> object:
        return key_of_body([self.group]), self.fixed, self.fixed_bytes

    @cached_property
    def _chain(self) -> OperatorChain | None:
        """An einsum with its epilogue."""
        return epilogue(self.workload, self.group.operators)

    def _is_cut(self) -> bool:
        """Whether the group is cut over cores: then nothing can stay in one core's buffer."""
        return bool(core_spreads(self.group)) and not self.is_searched

    @property
    def is_searched(self) -> bool:
        """Whether the group is searched again: an operator with its epilogue; others stay."""
        alone = len(self.group.operators) == 1 or self._chain is not None
        return alone and not self.fixed

    def _touched_tensors(self, held: Sequence[ResidentTensor]) -> list[ResidentTensor]:
        """Return the resident tensors that the group reads or writes."""
        operators = [self.workload.operator(name) for name in self.group.operators]
        return [
            one
            for one in held
            if any(touches(operator, name) for operator in operators for name in one.tensors)
        ]

    def _kept_tensors(self, held: Sequence[ResidentTensor]) -> tuple[str, ...]:
        """Return the names of the group's tensors that are held, one for each resident tensor."""
        operators = [self.workload.operator(name) for name in self.group.operators]
        return tuple(
            next(name for name in one.tensors if any(touches(by, name) for by in operators))
            for one in self._touched_tensors(held)
        )

    def _key(self, held: Sequence[ResidentTensor]) -> object:
        mine = tuple(each.tensors for each in self._touched_tensors(held))
        return mine, self.room(held)

    def room(self, held: Sequence[ResidentTensor]) -> int:
        """Return the bytes of the buffer that are left beside some tensors."""
        taken = sum(one.n_bytes for one in held) + self.fixed_bytes
        return capacity(self.search.goal.accelerator) - taken

    def search_held(self, held: Sequence[ResidentTensor]) -> OperatorCandidateSet:
        """Return the candidates of a group that is searched again, with some tensors held."""
        roots, search = self._kept_tensors(held), self.search.on_one_core() if held else self.search
        if self._chain is not None:
            return search_epilogue(search, self._chain, roots)
        (name,) = self.group.operators
        made = self.workload.operator(name).output.tensor
        over = made not in roots and any(made in resident.tensors for resident in held)
        return search.operator_candidates(self.workload, name, self.group.merged, roots, over=over)

    def _grid(self, held: Sequence[ResidentTensor]) -> CandidateSet:
        if self.is_searched:
            return self.search_held(held).candidates
        mine = self._touched_tensors(held)
        key = self._name, tuple(each.tensors for each in mine), "grid"
        return self.search.recall(key, lambda: self._fuse_held(mine))

    def _fuse_held(self, held: Sequence[ResidentTensor]) -> CandidateSet:
        """Return candidates of a fused group with held tensors: its tree, also with few slots."""
        keeps = (*self.fixed, *(Keep(resident.name) for resident in held))
        space, spreads = space_of(self.workload, self.group), core_spreads(self.group)
        cut = CoreCut(spreads, space.sizes) if spreads else None
        tiles = {spread.rank: spread.tile for spread in spreads}
        group = piece_of(self.group, {**space.sizes, **tiles})
        space = space_of(self.workload, group)
        kept = {name for resident in held for name in resident.tensors}
        over = aliases_of(space, group.tree, self.fixed)
        sources = {out: self.workload.in_place.get(out) for out in over if out not in kept}
        own = {out: source for out, source in sources.items() if source in kept}
        families = [
            replace(
                family_of(space, replace(group, tree=remove_tiles(tree, kept, own)), keeps), cut=cut
            )
            for tree in dict.fromkeys((group.tree, tight(group.tree)))
        ]
        return self.search.goal.candidates(self.group, families)


# -- what is held


def _section(
    workload: Workload, body: list[Group | ResidentScope], search: TreeSearch
) -> list[Group | ResidentScope]:
    """Return groups that run equally often, with tensors held between them where that pays."""
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
        return body
    way = _way(places, few)
    if not any(way):
        return body
    return list(_build_groups(places, way))


def _places(
    workload: Workload, body: Sequence[Group | ResidentScope], search: TreeSearch
) -> Iterator[GroupPlace]:
    for one in body:
        if isinstance(one, Group):
            yield GroupPlace(workload, one, search)
            continue
        living = lives(workload, one)
        for at, group in enumerate(one.groups):
            yield GroupPlace(workload, group, search, one.keeps, bytes_around(living, at))


def _weighable_tensors(found: Sequence[ResidentTensor], goal: Goal) -> list[ResidentTensor]:
    """Return the resident tensors that fit, as many as can be considered at once."""
    kept = [one for one in found if one.n_bytes <= capacity(goal.accelerator)]
    ends = range(max((one.last for one in kept), default=-1) + 1)
    for at in ends:
        alive = [one for one in kept if one.first <= at <= one.last]
        alive.sort(key=lambda one: (one.last - one.first, -one.n_bytes, one.first))
        dropped = set(alive[ALIVE:])
        kept = [one for one in kept if one not in dropped]
    return kept


Way = list[tuple[ResidentTensor, ...]]
"""The tensors held while each group runs."""


def _way(places: Sequence[GroupPlace], few: Sequence[ResidentTensor]) -> Way:
    """Return the cheapest path after a few rounds of search."""
    nothing: Way = [() for _ in places]
    for place in places:
        place.begin()
    best, price = nothing, _total(places, nothing)
    for _ in range(_ROUNDS if price[0] < NOWHERE[0] else 0):
        if places[0].search.goal.is_over:
            break
        way = _cheapest(places, few)
        unknown = [(p, held) for p, held in zip(places, way, strict=True) if not p.is_known(held)]
        for place, held in unknown:
            place.find(held)
        total = _total(places, way)
        if total < price:
            best, price = way, total
        if not unknown:
            break
    return best


def _total(places: Sequence[GroupPlace], way: Way) -> Price:
    prices = [place.promise(held) for place, held in zip(places, way, strict=True)]
    return sum(value for value, _ in prices), sum(moved for _, moved in prices)


def _cheapest(places: Sequence[GroupPlace], few: Sequence[ResidentTensor]) -> Way:
    """Return the tensors to hold while each group runs, by dynamic programming."""
    ways: dict[frozenset[ResidentTensor], tuple[Price, Way]] = {frozenset(): ((0.0, 0.0), [])}
    for at, place in enumerate(places):
        fresh = [resident for resident in few if resident.first == at]
        further: dict[frozenset[ResidentTensor], tuple[Price, Way]] = {}
        for held, (before, way) in ways.items():
            for new in _subsets(fresh):
                now = tuple(resident for resident in few if resident in held or resident in new)
                value, moved = place.promise(now)
                total = before[0] + value, before[1] + moved
                after = frozenset(resident for resident in now if resident.last > at)
                if value < NOWHERE[0] and (after not in further or total < further[after][0]):
                    further[after] = total, [*way, now]
        ways = further
    return min(ways.values(), key=lambda priced: priced[0])[1]


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
