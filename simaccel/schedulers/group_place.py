"""Groups at their places in a schedule, and what they cost while tensors are held in the buffer.

Tensors could be held from the group that makes them to the last one that reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from simaccel.analytic.family import family_of
from simaccel.mapping.cores import CoreCut, core_spreads, piece_of
from simaccel.mapping.space import aliases_of, space_of
from simaccel.mapping.tree import Fork, Group, Keep, Node, Part, ResidentScope, Tree
from simaccel.numbers import in_bytes
from simaccel.schedulers.chains import OperatorChain, epilogue, search_epilogue
from simaccel.schedulers.group_search import GroupSearch, SharedSearch
from simaccel.schedulers.sequences import additive_value
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import ignore
from simaccel.search.candidate_set import CandidateSet, capacity
from simaccel.search.canonical import rename_tree
from simaccel.search.effort import has_near_ties
from simaccel.search.judge import key_of_body
from simaccel.workload import Workload
from simaccel.workload.names import tensor_of


@dataclass(frozen=True)
class ResidentTensor:
    """A tensor that could be held from group ``first`` to group ``last``.

    ``tensors``: the tensor and those that overwrite it in place, in order.
    """

    tensors: tuple[str, ...]
    first: int
    last: int
    n_bytes: int

    @property
    def name(self) -> str:
        """The tensor that gives the tile its name."""
        return self.tensors[0]


def repetition_of(workload: Workload, one: Group | ResidentScope) -> tuple[bool, int]:
    """Return what decides whether groups can share held tensors: if and how often they repeat."""
    first = one.groups[0].operators[0]
    return first in workload.once, workload.times(first)


def resident_tensors(workload: Workload, groups: Sequence[Group]) -> list[ResidentTensor]:
    """Return the intermediates that go from one group to later ones and have no other reader.

    An output of a vector operator that overwrites its input shares the input's tile, if no later
    operator reads the input.
    """
    lives = dict(_lives(workload, groups))
    over = _in_place_outputs(workload, groups, lives)
    candidates = []
    for name in lives:
        if name in over:
            continue
        tensors = [name]
        while (then := next((o for o, i in over.items() if i == tensors[-1]), None)) is not None:
            tensors.append(then)
        first, last = lives[name][0], lives[tensors[-1]][1]
        bits = max(workload.tensors[tensor].bits for tensor in tensors)
        n_bytes = in_bytes(math.prod(workload.shapes[name]), bits)
        candidates.append(ResidentTensor(tuple(tensors), first, last, n_bytes))
    return candidates


def _lives(workload: Workload, groups: Sequence[Group]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield tensors with the group that makes them first, and the last one that reads them."""
    place = {name: at for at, group in enumerate(groups) for name in group.operators}
    makers: dict[str, set[str]] = {}
    for operator in workload.operators:
        makers.setdefault(operator.output.tensor, set()).add(operator.name)
    for name, tensor in workload.tensors.items():
        making = makers.get(name, set())
        reading = workload.readers.get(name, frozenset()) - making
        if tensor.kind != "intermediate" or not making | reading <= place.keys():
            continue
        made, read = ([place[user] for user in users] for users in (making, reading))
        if read and max(made) < max(read) and max(made) <= min(read):
            yield name, (min(made), max(read))


def _in_place_outputs(
    workload: Workload, groups: Sequence[Group], lives: dict[str, tuple[int, int]]
) -> dict[str, str]:
    """Return the outputs that can overwrite an input that is not read later: output -> input."""
    sources = {}
    for at, group in enumerate(groups):
        if len(group.operators) > 1:
            continue
        operator = workload.operator(group.operators[0])
        made = operator.output.tensor
        source = workload.in_place.get(made)
        if source is None or source not in lives or made not in lives or lives[source][1] != at:
            continue
        if [operand.tensor for operand in operator.inputs].count(source) == 1:
            sources[made] = source
    return sources


def minimise_slots(tree: Tree) -> Tree:
    """Return a tree with the fewest slots: one, or two where an iteration begins early."""
    most = 2 if any(isinstance(node, Fork) and node.ahead for node in tree) else 1
    return tuple(
        replace(node, slots=min(node.slots, most))
        if isinstance(node, Keep)
        else replace(node, branches=tuple(map(minimise_slots, node.branches)))
        if isinstance(node, Fork | Part)
        else node
        for node in tree
    )


def remove_tiles(tree: Tree, kept: set[str], own: dict[str, str]) -> Tree:
    """Return a tree without the tiles of ``kept``; ``own``: outputs that overwrite one of these."""
    nodes: list[Node] = []
    for node in tree:
        if isinstance(node, Keep) and tensor_of(node.tensor) in kept:
            nodes += [
                replace(node, tensor=out) for out, source in own.items() if source == node.tensor
            ]
        elif isinstance(node, Fork | Part):
            inner = tuple(remove_tiles(branch, kept, own) for branch in node.branches)
            nodes.append(replace(node, branches=inner))
        else:
            nodes.append(node)
    return tuple(nodes)


Price = tuple[float, float]
"""The objective, and the DRAM bytes that decide between equal values."""
NOWHERE: Price = (float("inf"), float("inf"))


@dataclass
class GroupPlace:
    """A group in the sequence; ``fixed_bytes`` of the buffer are always kept around it."""

    workload: Workload
    group: Group
    search: TreeSearch
    fixed: tuple[Keep, ...] = ()
    fixed_bytes: int = 0
    error: float | None = None
    """The cost of the group as it was first searched, relative to its lower bound."""

    def expected_cost(self, held: Sequence[ResidentTensor]) -> Price:
        """Return the cost with tensors held, estimated from the bound until it is searched."""
        key = self._key(held)
        if key in self._known:
            return self._known[key][0]
        room = self.room(held)
        if room < 0 or (held and self._is_cut):
            return NOWHERE
        value, moved = self._candidates(held).candidates.bound_and_bytes(room)
        return additive_value(value, self.search.goal) * (self.error or 1.0), moved

    def optimistic_cost(
        self, held: Sequence[ResidentTensor], most: Sequence[ResidentTensor]
    ) -> Price:
        """Return the expected cost with tensors held, or about the least that it may be.

        Its candidates are not counted for that: those with ``most`` tensors held, which move
        nothing more, bound them in the same room.
        """
        room = self.room(held)
        if room < 0 or self._is_cut or self.is_counted(held):
            return self.expected_cost(held)
        value, moved = self._candidates(most).candidates.bound_and_bytes(room)
        lacking = set(self._touched_tensors(most)) - set(self._touched_tensors(held))
        moved += sum(resident.n_bytes for resident in lacking)
        return additive_value(value, self.search.goal) * (self.error or 1.0), moved

    def is_counted(self, held: Sequence[ResidentTensor]) -> bool:
        """Return whether candidates with these tensors held are counted, or even searched."""
        return self.is_known(held) or self._candidates(held).known.is_counted

    def is_known(self, held: Sequence[ResidentTensor]) -> bool:
        """Return whether the group has been searched with these tensors held."""
        return self._key(held) in self._known

    def find(self, held: Sequence[ResidentTensor]) -> None:
        """Search the group with these tensors held, unless that is known."""
        if not self.is_known(held):
            search, taken = self.request(held)
            price, tree, best = NOWHERE, self.group.tree, search.fastest(taken)
            if best is not None:
                tree = best.tree if held or self.is_searched else tree
                price = additive_value(best.value, self.search.goal), float(best.dram_bytes)
            self._known[self._key(held)] = price, tree
        value = self._known[self._key(held)][0][0]
        if self.error is None and value < NOWHERE[0]:
            least, _ = self._candidates(held).candidates.bound_and_bytes(self.room(held))
            bound = additive_value(least, self.search.goal)
            self.error = max(1.0, value / bound) if 0 < bound < NOWHERE[0] else 1.0

    def request(self, held: Sequence[ResidentTensor]) -> tuple[GroupSearch, int]:
        """Return the search with tensors held, and the bytes held."""
        return self._candidates(held), capacity(self.search.goal.accelerator) - self.room(held)

    def tree(self, held: Sequence[ResidentTensor]) -> Tree:
        """Return the best tree found with these tensors held."""
        return self._known[self._key(held)][1]

    @cached_property
    def _known(self) -> dict[object, tuple[Price, Tree]]:
        """Costs and trees of the group, in any body, by the tensors held."""
        return self.search.recall(self._name, dict[object, tuple[Price, Tree]])

    @cached_property
    def _name(self) -> object:
        return key_of_body([self.group]), self.fixed, self.fixed_bytes

    @cached_property
    def _chain(self) -> OperatorChain | None:
        """An einsum with its epilogue."""
        return epilogue(self.workload, self.group.operators)

    @property
    def is_searched(self) -> bool:
        """Whether the group's trees can be searched again, as for an operator and its epilogue."""
        alone = len(self.group.operators) == 1 or self._chain is not None
        return alone and not self.fixed

    @cached_property
    def _is_cut(self) -> bool:
        """Whether the group's tree is cut over cores, whose buffers differ, and stays as it is."""
        return bool(core_spreads(self.group)) and not self.is_searched

    @cached_property
    def _used(self) -> set[str]:
        """Tensors that the group reads or writes."""
        operators = map(self.workload.operator, self.group.operators)
        return {one.tensor for by in operators for one in (*by.inputs, by.output)}

    def _touched_tensors(self, held: Sequence[ResidentTensor]) -> list[ResidentTensor]:
        """Return the resident tensors that the group reads or writes."""
        return [one for one in held if not self._used.isdisjoint(one.tensors)]

    def _key(self, held: Sequence[ResidentTensor]) -> object:
        touched = tuple(each.tensors for each in self._touched_tensors(held))
        return touched, self.room(held)

    def room(self, held: Sequence[ResidentTensor]) -> int:
        """Return the bytes of the buffer that are free while tensors are held."""
        taken = sum(one.n_bytes for one in held) + self.fixed_bytes
        return capacity(self.search.goal.accelerator) - taken

    def search_held(self, held: Sequence[ResidentTensor]) -> GroupSearch:
        """Return the search of the group's trees with these tensors held."""
        touched = (resident.tensors for resident in self._touched_tensors(held))
        roots = tuple(next(name for name in names if name in self._used) for names in touched)
        search = self.search.on_one_core() if held else self.search
        if self._chain is not None:
            return search_epilogue(search, self._chain, roots)
        (name,) = self.group.operators
        made = self.workload.operator(name).output.tensor
        overwrites = made not in roots and any(made in resident.tensors for resident in held)
        return search.operator_candidates(
            self.workload, name, self.group.merged, roots, overwrites=overwrites
        )

    def _candidates(self, held: Sequence[ResidentTensor]) -> GroupSearch:
        if self.is_searched:
            return self.search_held(held)
        touched = self._touched_tensors(held)

        def fused_search() -> GroupSearch:
            shared = SharedSearch(lambda: [self._fuse_held(touched)])
            goal = replace(self.search.goal, on_account=ignore)
            return GroupSearch(self.group, shared, goal, {}, "kept")

        return self.search.recall(
            (self._name, tuple(t.tensors for t in touched), "fused"), fused_search
        )

    def _trees(self, piece: Group) -> list[Tree]:
        """Return the group's tree, cheaper and smaller ones, and each of them with fewer slots."""
        goal, trees = self.search.goal, [piece.tree]
        origin, held_bytes = goal.origins.get(key_of_body((self.group,)), (None, 0))
        can_be_other = has_near_ties(goal.objective, goal.tolerance) and not goal.is_shared
        if can_be_other and isinstance(origin, GroupSearch):
            least = origin.find(held_bytes).best
            limit = least.value * (1 + goal.tolerance) if least else 0.0
            others = origin.find_cheaper(limit, held_bytes)
            others += origin.sample_rooms(limit, held_bytes)
            trees += [rename_tree(one.tree, origin.names) for one in others]
        return list(dict.fromkeys(each for tree in trees for each in (tree, minimise_slots(tree))))

    def _fuse_held(self, held: Sequence[ResidentTensor]) -> CandidateSet:
        """Return candidates of a fused group with held tensors: its tree and near-ties."""
        keeps = (*self.fixed, *(Keep(resident.name) for resident in held))
        space, spreads = space_of(self.workload, self.group), core_spreads(self.group)
        cut = CoreCut(spreads, space.sizes) if spreads else None
        tiles = {spread.rank: spread.tile for spread in spreads}
        group = piece_of(self.group, {**space.sizes, **tiles})
        space = space_of(self.workload, group)
        kept = {name for resident in held for name in resident.tensors}
        aliases = aliases_of(space, group.tree, self.fixed)
        sources = {out: self.workload.in_place.get(out) for out in aliases if out not in kept}
        own = {out: source for out, source in sources.items() if source in kept}
        trees = (remove_tiles(tree, kept, own) for tree in self._trees(group))
        families = [family_of(space, replace(group, tree=tree), keeps) for tree in trees]
        families = [replace(family, cut=cut) for family in families]
        return self.search.goal.candidates(self.group, families)
