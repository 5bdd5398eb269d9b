"""A group at its place in the schedule, and its cost while other tensors are held in the buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from simaccel.analytic.family import family_of
from simaccel.mapping.cores import CoreCut, core_spreads, piece_of
from simaccel.mapping.space import aliases_of, space_of
from simaccel.mapping.tree import Group, Keep, Tree
from simaccel.schedulers.chains import OperatorChain
from simaccel.schedulers.epilogues import epilogue, search_epilogue
from simaccel.schedulers.group_search import GroupSearch
from simaccel.schedulers.resident_tensors import (
    ResidentTensor,
    minimise_slots,
    remove_tiles,
    uses_tensor,
)
from simaccel.schedulers.sequences import additive_value
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import ignore
from simaccel.search.candidate_set import CandidateSet, capacity
from simaccel.search.canonical import rename_tree
from simaccel.search.judge import key_of_body
from simaccel.search.near_ties import has_near_ties
from simaccel.workload import Workload

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
    error: float = 1.0
    """The cost of the group with nothing held, relative to its lower bound."""

    def expected_cost(self, held: Sequence[ResidentTensor]) -> Price:
        """Return the cost with tensors held, estimated from the bound until it is searched."""
        key = self._key(held)
        if key in self._known:
            return self._known[key][0]
        room = self.room(held)
        if room < 0 or (held and self._is_cut()):
            return NOWHERE
        value, moved = self._grid(held).bound_and_bytes(room)
        return additive_value(value, self.search.goal) * self.error, moved

    def is_known(self, held: Sequence[ResidentTensor]) -> bool:
        """Return whether the group has been searched with these tensors held."""
        return self._key(held) in self._known

    def begin(self) -> None:
        """Search the group with nothing held, and compare the result with its lower bound."""
        self.find(())
        value = self._known[self._key(())][0][0]
        bound = additive_value(self._grid(()).bound_and_bytes(self.room(()))[0], self.search.goal)
        self.error = max(1.0, value / bound) if 0 < bound < NOWHERE[0] else 1.0

    def find(self, held: Sequence[ResidentTensor]) -> None:
        """Search the group with these tensors held, unless that is known."""
        if not self.is_known(held):
            self._known[self._key(held)] = self._find_price(held)

    def request(self, held: Sequence[ResidentTensor]) -> tuple[GroupSearch, int, Tree]:
        """Return the search with tensors held, the bytes held, and a tree that may be near."""
        taken = capacity(self.search.goal.accelerator) - self.room(held)
        like = self.tree(()) if held and self.is_known(()) else ()
        return self.search_held(held), taken, like

    def tree(self, held: Sequence[ResidentTensor]) -> Tree:
        """Return the best tree found with these tensors held."""
        return self._known[self._key(held)][1]

    def _find_price(self, held: Sequence[ResidentTensor]) -> tuple[Price, Tree]:
        if self.is_searched:
            search, taken, like = self.request(held)
            best = search.fastest(taken, like=like)
        else:
            taken = capacity(self.search.goal.accelerator) - self.room(held)
            best = self._fused_candidates(held).fastest(taken)
        if best is None:
            return NOWHERE, self.group.tree
        tree = best.tree if held or self.is_searched else self.group.tree
        return (additive_value(best.value, self.search.goal), float(best.dram_bytes)), tree

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

    def _is_cut(self) -> bool:
        """Return whether the group is cut over cores and thus can't share a buffer."""
        return bool(core_spreads(self.group)) and not self.is_searched

    @property
    def is_searched(self) -> bool:
        """Whether the group's trees can be searched again, as for an operator and its epilogue."""
        alone = len(self.group.operators) == 1 or self._chain is not None
        return alone and not self.fixed

    def _touched_tensors(self, held: Sequence[ResidentTensor]) -> list[ResidentTensor]:
        """Return the resident tensors that the group reads or writes."""
        operators = [self.workload.operator(name) for name in self.group.operators]
        return [
            one
            for one in held
            if any(uses_tensor(operator, name) for operator in operators for name in one.tensors)
        ]

    def _kept_tensors(self, held: Sequence[ResidentTensor]) -> tuple[str, ...]:
        """Return the names of the group's tensors that are held, one for each resident tensor."""
        operators = [self.workload.operator(name) for name in self.group.operators]
        return tuple(
            next(name for name in one.tensors if any(uses_tensor(by, name) for by in operators))
            for one in self._touched_tensors(held)
        )

    def _key(self, held: Sequence[ResidentTensor]) -> object:
        mine = tuple(each.tensors for each in self._touched_tensors(held))
        return mine, self.room(held)

    def room(self, held: Sequence[ResidentTensor]) -> int:
        """Return the bytes of the buffer that are free while tensors are held."""
        taken = sum(one.n_bytes for one in held) + self.fixed_bytes
        return capacity(self.search.goal.accelerator) - taken

    def search_held(self, held: Sequence[ResidentTensor]) -> GroupSearch:
        """Return the search of the group's trees with these tensors held."""
        roots, search = self._kept_tensors(held), self.search.on_one_core() if held else self.search
        if self._chain is not None:
            return search_epilogue(search, self._chain, roots)
        (name,) = self.group.operators
        made = self.workload.operator(name).output.tensor
        overwrites = made not in roots and any(made in resident.tensors for resident in held)
        return search.operator_candidates(
            self.workload, name, self.group.merged, roots, overwrites=overwrites
        )

    def _grid(self, held: Sequence[ResidentTensor]) -> CandidateSet:
        return (
            self.search_held(held) if self.is_searched else self._fused_candidates(held)
        ).candidates

    def _fused_candidates(self, held: Sequence[ResidentTensor]) -> GroupSearch:
        """Return the candidates of a fused group that isn't searched again, with held tensors."""
        touched = self._touched_tensors(held)
        key = self._name, tuple(each.tensors for each in touched), "fused"
        return self.search.recall(
            key,
            lambda: GroupSearch(
                self.group,
                lambda: [self._fuse_held(touched)],
                replace(self.search.goal, on_account=ignore),
                {},
                {},
                "kept",
            ),
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
        families = [
            replace(
                family_of(space, replace(group, tree=remove_tiles(tree, kept, own)), keeps), cut=cut
            )
            for tree in self._trees(group)
        ]
        return self.search.goal.candidates(self.group, families)
