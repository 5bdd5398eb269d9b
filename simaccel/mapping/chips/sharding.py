"""Sharding: from a mapping with spreads over chips to one chip's mapping, and the exchanges.

All chips have equal pieces and do the same at the same time, so that one stands for all of them.
Unequal pieces are refused, as a run of the largest would not be exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import Final

from simaccel.errors import Fault, InputError
from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipAxis, ChipPod, Numbering
from simaccel.hardware.links import LinksSpec
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.handed_tiles import hand_tiles
from simaccel.mapping.chips.keeps import rename_keeps
from simaccel.mapping.chips.layout import ChipLayout, NoCommonDigitsError, refine_digits
from simaccel.mapping.chips.naming import Cuts, TensorNames, layout_of, sums_of
from simaccel.mapping.chips.places import (
    ChipPlace,
    cores_of_group,
    first_chip,
    place_faults,
)
from simaccel.mapping.chips.uncuttable import uncuttable_ranks
from simaccel.mapping.classes import RankClasses
from simaccel.mapping.node_text import Finding, node_text
from simaccel.mapping.tree import Group, Keep, ResidentScope, Spread, WorkloadReference, nodes
from simaccel.mapping.tree import Mapping as MappingTree
from simaccel.workload import Workload

CHIPS: Final = "chips"


@dataclass(frozen=True)
class Pod:
    """The workload and the mapping of one chip of several, and the exchanges between chips.

    ``parts``: tensors of the chip that are a part of another tensor that it has -> that tensor.
    ``layouts``: tensor of the chip -> (tensor of the whole workload, its layout). ``cuts``: by
    operator. ``places``: sets of chips that do the same, of which one chip is run; all chips are
    one set, unless groups are on some of them. ``numbering``: how chips' numbers count the
    dimensions of the pod (`ChipPod.numberings`).
    """

    workload: Workload
    mapping: MappingTree
    exchanges: tuple[Exchange, ...]
    parts: Mapping[str, str]
    layouts: Mapping[str, tuple[str, ChipLayout]]
    cuts: Mapping[str, Cuts]
    places: tuple[range, ...]
    numbering: Numbering = ()

    def workloads(self) -> Iterator[Workload]:
        """Yield the workload of one chip of each place."""
        if len(self.places) == 1:
            yield self.workload
            return
        for place in self.places:
            layouts = self.layouts.items()
            local = {name for name, (_, layout) in layouts if layout.first == place.start}
            tensors = self.workload.tensors.items()
            yield replace(
                self.workload,
                operators=tuple(
                    operator
                    for operator in self.workload.operators
                    if operator.output.tensor in local
                ),
                tensors={name: tensor for name, tensor in tensors if name in local},
            )


def outer_nodes(group: Group) -> tuple[Spread | Keep, ...]:
    """Return the spreads and keeps over chips of a group: its outermost nodes."""
    outer = takewhile(lambda node: getattr(node, "level", "") == CHIPS, group.tree)
    return tuple(node for node in outer if isinstance(node, Spread | Keep))


def is_sharded(mapping: MappingTree) -> bool:
    """Return whether a mapping has nodes over chips, or groups on some of them."""
    return any(
        group.chips is not None or (isinstance(node, Spread | Keep) and node.level == CHIPS)
        for group in mapping.groups
        for node in nodes(group.tree)
    )


def shard(
    workload: Workload, mapping: MappingTree, chips: ChipPod | None = None, n_cores: int = 1
) -> tuple[Pod | None, list[Finding]]:
    """Return one chip's mapping with the exchanges, or None and all faults of spreads and places.

    Without ``chips``: for as many chips as the most pieces of a group, all linked to all.
    ``n_cores``: cores of a chip.
    """
    groups = list(zip(group_places(mapping), mapping.groups, strict=True))
    if wrong := list(place_faults(groups, chips)):
        return None, wrong
    sharding = _Sharding(workload, groups, chips, n_cores)
    sharding.read()
    if sharding.found:
        return None, sharding.found
    share = sharding.share(mapping)
    return (None if sharding.found else share), sharding.found


def pod_of(workload: Workload, mapping: MappingTree, accelerator: Accelerator) -> Pod:
    """Return one chip's mapping on an accelerator, with the exchanges (`shard`).

    Without spreads over chips each chip does all of the mapping.

    Raises:
        InputError: all faults of the spreads and places.
    """
    if not is_sharded(mapping):
        return Pod(workload, mapping, (), {}, {}, {}, (range(accelerator.pod.count),))
    pod, findings = shard(workload, mapping, accelerator.pod, accelerator.cores.count)
    if pod is None:
        raise InputError([Fault("mapping", *finding) for finding in dict.fromkeys(findings)])
    return pod


def replace_groups(mapping: MappingTree, change: Callable[[Group], Group]) -> MappingTree:
    """Return a mapping with ``change`` applied to each group."""
    body = tuple(
        change(one)
        if isinstance(one, Group)
        else replace(one, groups=tuple(map(change, one.groups)))
        for one in mapping.body
    )
    return replace(mapping, body=body)


def group_places(mapping: MappingTree) -> list[str]:
    """Return the path of each group in a mapping, such as ``groups[1]``, in order."""
    found: list[str] = []
    for at, one in enumerate(mapping.body):
        if isinstance(one, ResidentScope):
            found += [f"groups[{at}].groups[{n}]" for n in range(len(one.groups))]
        else:
            found.append(f"groups[{at}]")
    return found


@dataclass
class _Sharding:
    """The spreads over chips of all groups as cuts of their operators, with all faults."""

    workload: Workload
    groups: Sequence[tuple[str, Group]]
    chips: ChipPod | None
    n_cores: int
    found: list[Finding] = field(default_factory=list)
    cuts: dict[str, dict[str, tuple[ChipAxis, ...]]] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    """Weights of which each chip stores a part."""
    strides: set[int] = field(default_factory=set)
    """Strides of all digits of chips' numbers."""

    @cached_property
    def count(self) -> int:
        """Number of chips of one place."""
        return self.spec.count

    @cached_property
    def spec(self) -> ChipPod:
        """The chips of one place, as a pod of their own."""
        places = [group.chips for _, group in self.groups if group.chips is not None]
        return self.pod.group(len(places[0])) if places else self.pod

    @cached_property
    def pod(self) -> ChipPod:
        """The whole pod; if none is given, one of as many chips as the mapping needs."""
        if self.chips is not None:
            used, count = self._pieces_in_all(), self.chips.count
            on_all = any(group.chips for _, group in self.groups) or count % used == 0
            return (
                self.chips if on_all or used > count else self.chips.take_chips(used) or self.chips
            )
        most = max((group.chips.stop for _, group in self.groups if group.chips), default=1)
        for _, group in self.groups:
            sizes = self._sizes(group)
            most = max(most, math.prod(n for _, n in self._pieces(group, sizes, "")))
        return ChipPod(LinksSpec(topology="all_to_all"), (most,))

    def read(self) -> None:
        """Find the digits that cut each rank of each operator."""
        digits: dict[str, list[tuple[str, ChipAxis]]] = {}
        used = self._pieces_in_all()
        count = self.count if self.count % used else used  # the others repeat what these do
        for place, group in self.groups:
            self._check_outer(place, group)
            left, own = count, []
            for at, (rank, n) in enumerate(self._pieces(group, self._sizes(group), place)):
                if left % n:
                    allowed = f"a number of pieces that divides {left} of {self.count} chips"
                    text = node_text(group.tree[at])
                    self.found.append((f"{place}.tree[{at}]", f"{text}: {n} pieces", allowed))
                    break
                left //= n
                own.append((rank, ChipAxis(left, n)))
            digits[group.name] = [(rank, axis) for rank, axis in own if axis.size > 1]
        self.strides = {axis.stride for pairs in digits.values() for _, axis in pairs}
        self.strides.add(count)
        for place, group in self.groups:
            self._cut(place, group, digits[group.name], self.strides)
        if not self.found:
            for place, group in self.groups:
                self._check(place, group)

    def _pieces_in_all(self) -> int:
        """Return the number of chips with different pieces; faults of pieces are found later."""
        products = (
            math.prod(n for _, n in self._pieces(group, self._sizes(group), ""))
            for _, group in self.groups
        )
        known, used = len(self.found), math.lcm(*products)
        del self.found[known:]
        return used

    def _check_outer(self, place: str, group: Group) -> None:
        """Collect the weights that chips store in parts, and faults of nodes over chips."""
        outside = len(outer_nodes(group))
        for at, node in enumerate(group.tree[outside:], outside):
            self.found += [
                (f"{place}.tree[{at}]", node_text(inner), "a place before all other nodes")
                for inner in nodes((node,))
                if isinstance(inner, Spread | Keep) and inner.level == CHIPS
            ]
        read = {
            operand.tensor
            for name in group.operators
            if name in self.workload.by_name
            for operand in self.workload.operator(name).inputs
        }
        for at, node in enumerate(outer_nodes(group)):
            if not isinstance(node, Keep):
                continue
            kind = self.workload.tensors[node.tensor].kind if node.tensor in read else ""
            plain = node == Keep(node.tensor, CHIPS)
            if kind != "weight" or not plain or group.chips is not None:
                allowed = "keep WEIGHT chips, of weights that a group on all chips reads"
                self.found.append((f"{place}.tree[{at}]", node_text(node), allowed))
            self.stored.add(node.tensor)

    def _sizes(self, group: Group) -> dict[str, int]:
        """Return the sizes of a group's ranks, not merged; empty if an operator is unknown."""
        known = self.workload.by_name
        if any(name not in known for name in group.operators):
            return {}
        classes = RankClasses([known[name] for name in group.operators])
        return {classes.name(place): classes.size(place) for place in classes.parent}

    def _pieces(
        self, group: Group, sizes: Mapping[str, int], place: str
    ) -> Iterator[tuple[str, int]]:
        """Yield (rank, number of pieces) of each spread, up to the first that is faulty."""
        left = dict(sizes)
        for at, node in enumerate(outer_nodes(group)):
            if isinstance(node, Keep):
                continue
            size, where = left.get(node.rank), f"{place}.tree[{at}]"
            if size is None:
                if sizes:
                    merged = ", ".join(sizes)
                    self.found.append((where, node_text(node), f"one of the ranks {merged}"))
                return
            if node.tile < 1 or node.tile > size:
                allowed = f"a size from 1 to {size}, the positions of {node.rank}"
                self.found.append((where, node_text(node), allowed))
                return
            if size % node.tile:
                allowed = f"pieces of one size: one that divides {size}"
                self.found.append((where, node_text(node), allowed))
                return
            left[node.rank] = node.tile
            yield node.rank, size // node.tile

    def _cut(
        self, place: str, group: Group, digits: Sequence[tuple[str, ChipAxis]], strides: set[int]
    ) -> None:
        """Set the digits that cut each rank of a group's operators."""
        known = self.workload.by_name
        if any(name not in known for name in group.operators):
            return
        operators = [known[name] for name in group.operators]
        classes = RankClasses(operators)
        by_rank: dict[str, list[ChipAxis]] = {}
        for rank, axis in digits:
            try:
                by_rank.setdefault(rank, []).extend(refine_digits(axis, strides))
            except NoCommonDigitsError:
                allowed = f"pieces that refine those of other groups: strides {sorted(strides)}"
                self.found.append((f"{place}.tree", f"{rank}: every {axis.stride}th chip", allowed))
        for at, operator in enumerate(operators):
            self.cuts[operator.name] = {
                rank: tuple(by_rank[name])
                for rank in operator.ranks
                if (name := classes.name((at, rank))) in by_rank
            }

    def _check(self, place: str, group: Group) -> None:
        """Collect what a chip can't do in a group without exchanges inside it."""
        known = self.workload.by_name
        made = {known[name].output.tensor: known[name] for name in group.operators}
        for at, name in enumerate(group.operators):
            operator, cuts, where = known[name], self.cuts[name], f"{place}.operators[{at}]"
            for rank, allowed in uncuttable_ranks(operator, cuts, self.workload):
                self.found.append((where, f"{name}: {rank} over chips", allowed))
            for operand in operator.inputs:
                maker = made.get(operand.tensor)
                if maker is None:
                    continue
                shape = self.workload.shapes[operand.tensor]
                source = layout_of(maker, maker.output, self.cuts[maker.name], shape)
                layout = layout_of(operator, operand, cuts, shape)
                if source.partial and self.sums.get(operator.output.tensor) != source.partial:
                    allowed = f"another group for {name}: {maker.name} leaves partial sums"
                    value = f"{name} reads partial sums of {operand.tensor} that nobody adds"
                    self.found.append((where, value, allowed))
                elif replace(source, partial=layout.partial) != layout:
                    allowed = f"another group for {name}: {maker.name} makes other parts on a chip"
                    self.found.append((where, f"{name} reads {operand.tensor}", allowed))

    @cached_property
    def sums(self) -> Mapping[str, frozenset[ChipAxis]]:
        """Tensor -> digits over which it is made as partial sums."""
        is_one = all(group.chips is None for _, group in self.groups)
        return sums_of(self.workload, self.cuts, carried=is_one)

    # -- what a chip does -------------------------------------------------------------------------

    def share(self, mapping: MappingTree) -> Pod | None:
        """Return one chip's part of a mapping."""
        places = {
            name: ChipPlace(self.pod, first_chip(group), cores_of_group(group, self.n_cores))
            for _, group in self.groups
            for name in group.operators
        }
        digits = tuple(refine_digits(ChipAxis(1, self.count), self.strides)) if self.stored else ()
        naming = TensorNames(
            self.workload, self.cuts, self.spec, places, stored=self.stored, digits=digits
        )
        operators = tuple(naming.operator(operator) for operator in self.workload.operators)
        naming.close()
        where = {name: place for place, group in self.groups for name in group.operators}
        self.found += [(where[name], value, allowed) for name, value, allowed in naming.found]
        if naming.found:
            return None
        workload = Workload(
            self.workload.name,
            operators,
            naming.tensors,
            self.workload.repeat,
            self.workload.parameters,
            self.workload.once,
            source=self.workload.source,
        )
        reference = WorkloadReference(workload.name, workload.fingerprint)

        def on_chip(group: Group) -> Group:
            """Return a group without its nodes over chips, on cores as programs number them."""
            tree, place = group.tree[len(outer_nodes(group)) :], cores_of_group(group, self.n_cores)
            return replace(group, tree=tree, place=place, chips=None)

        inside = rename_keeps(mapping, lambda group: naming.in_group(group.operators))
        inside = replace_groups(inside, on_chip)
        return Pod(
            workload,
            replace(inside, workload=reference),
            tuple(hand_tiles(workload, inside, exchange) for exchange in naming.exchanges),
            naming.parts,
            naming.layouts,
            self.cuts,
            tuple(sorted({group.chips or range(self.count) for _, group in self.groups}, key=min)),
            naming.numbering,
        )
