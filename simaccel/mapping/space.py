"""The iteration space of a group: the ranks of its fused operators, and its tensors in these ranks.

Ranks of two operators that index the same dimension of a tensor are one rank of the group: ``n`` of
a first GEMM is ``k`` of a second. Where the reader of a tensor indexes a dimension by a sum of
ranks (``2*p+r`` of a convolution), the writer's rank is *derived*: that sum, halo included. A group
rank has its first operator's name of it, with a number after it if another rank has that name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from simaccel.errors import SimaccelError
from simaccel.mapping.classes import RankClasses, dims
from simaccel.mapping.tree import Group, Keep, Tree, nodes
from simaccel.mapping.view import TensorView, sum_text, transposed_ranks
from simaccel.numbers import SHARED
from simaccel.workload import Operand, Operator, Vector, Workload
from simaccel.workload.einsum import Terms
from simaccel.workload.names import use_name
from simaccel.workload.roles import Part, part_of

_LIVE_APART = ("weight", "cache", SHARED)
"""Classes of tensors that may live in another memory than DRAM."""


class NotThisWorkloadError(SimaccelError):
    """A mapping was made for another workload, or doesn't cover this one."""


@dataclass(frozen=True, kw_only=True)
class BoundOperator:
    """An operator in the ranks of its group.

    ``ranks``: the group's names of its ranks, derived ones too. ``inputs`` and ``output``: its
    tensors in these ranks. ``names``: of the inputs in the tree: the tensor's, with a number if the
    operator reads it in several ways.
    """

    operator: Operator
    ranks: tuple[str, ...]
    inputs: tuple[TensorView, ...]
    output: TensorView
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.operator.name

    @cached_property
    def reduced(self) -> frozenset[str]:
        """The ranks that an einsum sums over; empty for a vector operator."""
        if isinstance(self.operator, Vector):
            return frozenset()
        return frozenset(rank for rank in self.ranks if rank not in self.output.names)

    @cached_property
    def parts(self) -> dict[str, Part | None]:
        """The role of each rank in a matrix product (`part_of`)."""
        tensors = [view.names for _, view in self.uses]
        return {rank: part_of(rank, tensors) for rank in self.ranks}

    @cached_property
    def uses(self) -> tuple[tuple[str, TensorView], ...]:
        """(name in the tree, view) of the inputs, then of the output."""
        return (*zip(self.names, self.inputs, strict=True), (self.output.name, self.output))


@dataclass(frozen=True, kw_only=True)
class IterationSpace:
    """The ranks of a group with their sizes, and its operators in these ranks.

    ``derived``: ranks that are sums of others: rank -> (rank, coefficient) terms. ``axes``: vector
    operator -> the rank along which it normalises or reduces. ``rows``: vector operator with a mask
    -> the rank whose position says how much of the axis is visible.
    """

    workload: Workload
    sizes: Mapping[str, int]
    operators: tuple[BoundOperator, ...]
    derived: Mapping[str, Terms] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, str] = field(default_factory=dict)
    circular: frozenset[str] = frozenset()
    """Ranks that would be sums of themselves, or of such ranks: a group with any is refused."""
    full_piece: Mapping[str, int] = field(default_factory=dict)
    """Where this is a core's smaller last piece: the sizes of ranks in a full piece."""

    @property
    def full_sizes(self) -> dict[str, int]:
        """Sizes of ranks in a full piece, whose loops a smaller last piece has, too."""
        return {**self.sizes, **self.full_piece}

    @property
    def unmerged(self) -> frozenset[str]:
        """Ranks that can't be merged with others: of axes, rows of masks and transposed tensors."""
        views = (self.plain(view) for op in self.operators for _, view in op.uses)
        return frozenset((*self.axes.values(), *self.rows.values(), *transposed_ranks(views)))

    def cut_axis(self, name: str) -> str | None:
        """Return the axis of a vector operator; None if loops can't cut it, as windows read it."""
        axis = self.axes.get(name)
        return None if axis in self.derived else axis

    def axis_ranks(self, name: str) -> tuple[str, ...]:
        """Return the ranks that cut a vector operator's axis: the axis, or its terms if derived."""
        return self.plain_ranks([axis]) if (axis := self.axes.get(name)) else ()

    def terms(self, rank: str) -> Terms:
        """Return the (rank, coefficient) terms of a derived rank; any other rank as its own."""
        return self.derived.get(rank, ((rank, 1),))

    def plain_ranks(self, ranks: Iterable[str]) -> tuple[str, ...]:
        """Return ranks with the terms of derived ones in their place, each once."""
        if not self.derived:
            return tuple(ranks)
        return tuple(dict.fromkeys(term for rank in ranks for term, _ in self.terms(rank)))

    def bound_operator(self, name: str) -> BoundOperator:
        """Return an operator by its name; KeyError if the group lacks it."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, BoundOperator]:
        return {one.name: one for one in self.operators}

    @cached_property
    def made(self) -> dict[str, str]:
        """Tensor made in the group -> name of the operator that makes it."""
        return {one.output.name: one.name for one in self.operators}

    @cached_property
    def read(self) -> dict[str, tuple[str, ...]]:
        """Tensor -> names of the group's operators that read it."""
        found: dict[str, tuple[str, ...]] = {}
        for one in self.operators:
            for view in one.inputs:
                found[view.name] = (*found.get(view.name, ()), one.name)
        return found

    @cached_property
    def escapes(self) -> frozenset[str]:
        """Tensors that leave the group: outputs, caches, and those that operators outside read."""
        inside = {one.name for one in self.operators}
        return frozenset(
            name
            for name in self.made
            if self.workload.readers.get(name, frozenset()) - inside
            or self.workload.tensors[name].kind in {"output", "cache"}
            or name not in self.read
        )

    def stored_views(self, tensor: str, aliases: Mapping[str, str]) -> tuple[TensorView, ...]:
        """Return the tensors that are stored from a tile: made in it and used outside the group.

        ``aliases``: tensors made in place, each with the tensor in whose tile it is.
        """
        written = [tensor, *(output for output, source in aliases.items() if source == tensor)]
        makers = (self.made[name] for name in written if name in self.escapes)
        return tuple(self.bound_operator(maker).output for maker in makers)

    def moves(self, view: TensorView) -> frozenset[str]:
        """Return the ranks whose loops move a tile of a view; of a derived one its terms."""
        return frozenset(self.plain_ranks(view.names)) if self.derived else view.names

    def dims(self, view: TensorView) -> tuple[Terms, ...]:
        """Return the dimensions of a view as sums of ranks, without derived ones."""
        if not self.derived or view.names.isdisjoint(self.derived):
            return view.terms
        return tuple(
            tuple((term, factor * c) for rank, factor in dim for term, c in self.terms(rank))
            for dim in view.terms
        )

    def plain(self, view: TensorView) -> TensorView:
        """Return a view with the terms of derived ranks in their place."""
        if view.names.isdisjoint(self.derived):
            return view
        return replace(view, ranks=tuple(map(sum_text, self.dims(view))))

    def widen(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return sizes with those of derived ranks, halo included, computed from the others."""
        sums = self.derived.items()
        wide = {rank: 1 + sum(c * (sizes[one] - 1) for one, c in terms) for rank, terms in sums}
        return {**sizes, **wide}


_MOST_SPACES: Final = 2048
_spaces: dict[object, IterationSpace] = {}
"""Cache of `space_of`: the candidates of a search differ in their trees, not in their ranks."""


def space_of(workload: Workload, group: Group) -> IterationSpace:
    """Return the iteration space of a group, from a cache if it is there.

    Raises:
        NotThisWorkloadError: the workload lacks one of the group's operators.
    """
    by_rank = group.merged, group.padded, group.piece, group.full_piece
    ranks = (tuple(own.items()) for own in by_rank)
    key = id(workload), group.operators, *ranks
    if key not in _spaces:
        if len(_spaces) >= _MOST_SPACES:
            _spaces.clear()
        missing = [name for name in group.operators if name not in workload.by_name]
        if missing:
            raise NotThisWorkloadError(f"group {group.name}: {workload.name} has no {missing[0]}")
        operators = [workload.by_name[name] for name in group.operators]
        # which keeps the workload, and so its id
        _spaces[key] = _merge(workload, operators, RankClasses(operators), group)
    return _spaces[key]


def mergeable(workload: Workload, operators: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the ranks of a group that can be merged: each tensor has all of them or none.

    The axis of a vector operator and the terms of a sum of ranks are left out.

    >>> from simaccel.workload import build
    >>> mergeable(build("bert", batch=2, seq_len=8), ["Q"])
    {'bn': ('b', 'n'), 'hd': ('h', 'd')}
    """
    space = space_of(workload, Group(operators=tuple(operators), tree=()))
    alone = {*space.unmerged, *space.derived}
    alone |= {term for terms in space.derived.values() for term, _ in terms}
    kinds: dict[object, list[str]] = {}
    for rank in space.sizes:
        where = []
        for at, op in enumerate(space.operators):
            for number, (_, view) in enumerate(op.uses):
                for dim in view.terms:
                    if rank in dict(dim) and dim != ((rank, 1),):
                        alone.add(rank)
                where.append((at, number, rank in view.names))
        kinds.setdefault(rank if rank in alone else tuple(where), []).append(rank)
    return {joined_name(ranks): tuple(ranks) for ranks in kinds.values() if len(ranks) > 1}


def joined_name(ranks: Sequence[str]) -> str:
    """Return the name of merged ranks: ``bn`` of b and n, ``out_in`` of out and in."""
    return "".join(ranks) if all(len(rank) == 1 for rank in ranks) else "_".join(ranks)


def _merge(
    workload: Workload, operators: Sequence[Operator], classes: RankClasses, group: Group
) -> IterationSpace:
    plain: dict[str, int] = {}
    derived: dict[str, Terms] = {}
    for place in classes.parent:
        if classes.root(place) in classes.terms:
            terms = classes.terms[classes.root(place)]
            derived[classes.name(place)] = tuple((classes.name(term), c) for term, c in terms)
        plain.setdefault(classes.name(place), classes.size(place))
    reach = {rank: _reach(rank, derived) for rank in derived}
    cycles = {rank for rank in derived if rank in reach[rank]}
    circular = frozenset(rank for rank in derived if cycles & {rank, *reach[rank]})
    derived = {rank: _plain(rank, derived) for rank in derived if rank not in circular}
    plain |= {rank: size for rank, size in group.padded.items() if rank in plain}
    inside = {part: name for name, ranks in group.merged.items() for part in ranks}
    sizes: dict[str, int] = {}
    for rank, size in plain.items():
        if rank in inside:
            sizes[inside[rank]] = math.prod(plain[part] for part in group.merged[inside[rank]])
        elif rank not in derived:
            sizes[rank] = size
    bound = [
        _bind_operator(workload, at, operator, classes, plain, group.merged)
        for at, operator in enumerate(operators)
    ]
    vectors = [(at, vector) for at, vector in enumerate(operators) if isinstance(vector, Vector)]
    axes = {op.name: classes.name((at, op.axis)) for at, op in vectors if op.axis}
    rows = {op.name: classes.name((at, op.visible.row)) for at, op in vectors if op.visible}
    return IterationSpace(
        workload=workload,
        sizes={**sizes, **group.piece},
        operators=tuple(bound),
        derived=derived,
        axes=axes,
        rows=rows,
        circular=circular,
        full_piece=group.full_piece,
    )


def _reach(rank: str, derived: Mapping[str, Terms]) -> set[str]:
    """Return all ranks that a rank is a sum of, itself too where a shortcut passes a window by."""
    found: set[str] = set()
    left = [rank]
    while left:
        terms = [one for one, _ in derived.get(left.pop(), ())]
        left += [term for term in terms if term not in found]
        found.update(terms)
    return found


def _plain(rank: str, derived: Mapping[str, Terms]) -> Terms:
    """Return the terms of a derived rank, those that are derived themselves expanded."""
    found: dict[str, int] = {}
    for one, c in derived.get(rank, ()):
        for inner, factor in _plain(one, derived) or ((one, 1),):
            found[inner] = found.get(inner, 0) + c * factor
    return tuple(found.items())


def _bind_operator(
    workload: Workload,
    at: int,
    operator: Operator,
    classes: RankClasses,
    plain: Mapping[str, int],
    merged: Mapping[str, tuple[str, ...]],
) -> BoundOperator:
    inside = {part: name for name, ranks in merged.items() for part in ranks}

    def view(operand: Operand) -> TensorView:
        texts: dict[str, int] = {}
        for dim in dims(operand, operator.ranks):
            terms = [(classes.name((at, rank)), c) for rank, c in dim]
            alone = terms[0][0]
            if len(terms) == 1 and alone in inside:
                name = inside[alone]
                texts[name] = math.prod(plain[part] for part in merged[name])
            else:
                texts[sum_text(terms)] = 1 + sum(c * (plain[rank] - 1) for rank, c in terms)
        tensor = workload.tensors[operand.tensor]
        return TensorView(
            name=operand.tensor,
            ranks=tuple(texts),
            shape=tuple(texts.values()),
            bytes_per_element=tensor.bytes_per_element,
            kind=tensor.lives if tensor.lives in _LIVE_APART else "",
            packed=tensor.packed,
            number=tensor.number,
        )

    inputs, names = tuple(view(operand) for operand in operator.inputs), []
    different: dict[str, list[TensorView]] = {}
    for input_view in inputs:
        known = different.setdefault(input_view.name, [])
        if input_view not in known:
            known.append(input_view)
        number = known.index(input_view)
        names.append(use_name(input_view.name, number))
    own = (classes.name((at, rank)) for rank in operator.ranks)
    ranks = dict.fromkeys(inside.get(name, name) for name in own)
    return BoundOperator(
        operator=operator,
        ranks=tuple(ranks),
        inputs=inputs,
        output=view(operator.output),
        names=tuple(names),
    )


def natural_ranks(
    space: IterationSpace, group: Group, op: BoundOperator, number: int
) -> tuple[tuple[str, ...], ...]:
    """Return the operator's own names of the ranks of each dimension of ``uses[number]``.

    Of a dimension that is a sum of ranks, the first.
    """
    at = group.operators.index(op.name)
    classes = RankClasses([operator.operator for operator in space.operators])
    own = {classes.name((at, rank)): rank for rank in op.operator.ranks}
    terms = op.uses[number][1].terms
    firsts = ((dim[0][0], len(dim) == 1 and dim[0][0] in group.merged) for dim in terms)
    parts = (group.merged[rank] if is_merged else (rank,) for rank, is_merged in firsts)
    return tuple(tuple(own[rank] for rank in ranks) for ranks in parts)


def aliases_of(space: IterationSpace, tree: Tree, around: Sequence[Keep]) -> dict[str, str]:
    """Return the tensors that vector operators make in place: output -> tensor in whose tile it is.

    A vector operator whose output no keep holds overwrites its first input.
    """
    kept = {keep.tensor for keep in around}
    kept |= {node.tensor for node in nodes(tree) if isinstance(node, Keep)}
    aliases: dict[str, str] = {}
    for op in space.operators:
        if isinstance(op.operator, Vector) and op.output.name not in kept:
            source = op.names[0]
            aliases[op.output.name] = aliases.get(source, source)
    return aliases


def holding_tensor(workload: Workload, name: str, around: Sequence[Keep]) -> str:
    """Return the tensor kept around a group in place of which ``name`` is made.

    ``name`` itself if it is kept, or if it is made in place of no kept tensor.
    """
    kept, found = {keep.tensor for keep in around}, name
    made = workload.in_place if kept else {}
    while found not in kept and found in made:
        found = made[found]
    return found if found in kept else name
