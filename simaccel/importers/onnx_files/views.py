"""Views: tensors of an ONNX graph as parts of stored tensors, and the operators that use these.

A `StoredTensor` has slots: the dimensions, of two or more elements, of the operator that makes it.
Reshape, Transpose, Slice and Concat make no new tensor but a view, each dimension of which is a
product of spans of slots. A reshape that would cut a slot has no view. A dimension that Expand or
Tile repeats is a span of no slot (`REPEATED`), as it is stored once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from simaccel.importers.onnx_files.constants import Shape
from simaccel.lazy import np
from simaccel.workload.einsum import (
    AffineDimension,
    Einsum,
    Kind,
    Operand,
    Operator,
    Terms,
    Vector,
    VisibleSpan,
)

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST_MARKED: Final = 10**8
"""Elements of the largest tensor whose used elements are counted; of a larger one all count."""
_MOST_LISTED: Final = 10**7
"""Positions of an operator in a dimension; if it has more, all elements count as used."""
REPEATED = -1
"""The slot of a span that repeats one element."""
_HEADS: Final = 2
"""The last dimension that can be heads, in [batch, tokens, heads, size]."""


@dataclass(eq=False)
class StoredTensor:
    """A stored tensor, with what is known of its uses so far.

    ``sizes``: of its slots, as made. ``before``: by slot, zeros that are read in front of it.
    ``reached``: by slot, the end of what is read, which is the size of a tensor that no operator
    makes. ``bits``: of an element. ``kept``: whether it goes to DRAM; ``leaves``: as an output of
    the graph, and not only for a reader without a view. ``into``: (tensor of which it is a part,
    slot, offset in it). ``distinct``: number of its distinct elements, where it repeats others.
    ``outside``: of a tensor that no operator makes, its elements by input or weight of the graph.
    """

    name: str
    sizes: list[int]
    kind: Kind
    made: bool = False
    bits: int = 16
    kept: bool = False
    leaves: bool = False
    read: bool = False
    before: dict[int, int] = field(default_factory=dict)
    reached: dict[int, int] = field(default_factory=dict)
    into: tuple[StoredTensor, int, int] | None = None
    distinct: int | None = None
    outside: Mapping[str, int] = field(default_factory=dict)

    def slot_size(self, slot: int) -> int:
        """Return the size of a slot, border of zeros included."""
        reached = self.reached.get(slot, 0)
        size = max(self.sizes[slot], reached) if self.made else reached
        return self.before.get(slot, 0) + size

    def find_inside(self) -> tuple[tuple[int, int], ...]:
        """Return (start, end) by slot of what is inside the border of zeros; empty without one."""
        found = tuple(
            (self.before.get(at, 0), min(self.before.get(at, 0) + size, self.slot_size(at)))
            for at, size in enumerate(self.sizes)
        )
        whole = tuple((0, self.slot_size(at)) for at in range(len(self.sizes)))
        return () if found == whole else found

    def keep(self, *, leaves: bool = False) -> None:
        """Mark it, and the tensor that it is a part of, as going to DRAM."""
        self.kept, self.leaves = True, self.leaves or leaves
        if self.into is not None:
            self.into[0].keep(leaves=leaves)

    def final_kind(self) -> Kind:
        """Return the tensor's kind; an operator's output that only views read is intermediate."""
        if not self.made:
            return self.kind
        return "intermediate" if self.read and not self.kept else "output"


@dataclass(frozen=True)
class SlotSpan:
    """``size`` positions of a slot from ``start`` on."""

    slot: int
    start: int
    size: int


@dataclass(frozen=True)
class SlotView:
    """A view of a stored tensor.

    ``dims``: the spans of slots that each dimension consists of. ``fixed``: spans of one position
    of slots that no dimension has.
    """

    root: StoredTensor
    dims: tuple[tuple[SlotSpan, ...], ...]
    fixed: tuple[SlotSpan, ...] = ()

    @property
    def shape(self) -> Shape:
        """The sizes of the dimensions."""
        return tuple(math.prod(span.size for span in dim) for dim in self.dims)

    @property
    def spans(self) -> list[SlotSpan]:
        """All spans of slots, in order of the slots."""
        every = (*(span for dim in self.dims for span in dim), *self.fixed)
        return sorted((one for one in every if one.slot != REPEATED), key=lambda one: one.slot)

    @property
    def elements(self) -> int:
        """The number of stored elements that it shows."""
        return math.prod(span.size for span in self.spans)

    @property
    def repeats(self) -> bool:
        """Whether it repeats elements."""
        return any(span.slot == REPEATED for dim in self.dims for span in dim)

    def expand(self, shape: Shape) -> SlotView | None:
        """Return the view broadcast to a shape; None if that isn't possible."""
        lead = len(shape) - len(self.dims)
        pairs = [*zip(((),) * lead + self.dims, (1,) * lead + self.shape, shape, strict=True)]
        if any(had not in (1, size) for _, had, size in pairs):
            return None
        loose = tuple(s for dim, had, size in pairs if had != size for s in dim)
        made = tuple(
            dim if had == size else (SlotSpan(REPEATED, 0, size),) for dim, had, size in pairs
        )
        return SlotView(self.root, made, (*self.fixed, *loose))

    def is_whole(self, span: SlotSpan) -> bool:
        """Return whether a span is all of its slot."""
        return span.start == 0 and span.size == self.root.sizes[span.slot]

    def transpose(self, order: Sequence[int]) -> SlotView:
        """Return the view with its dimensions in another order."""
        return replace(self, dims=tuple(self.dims[at] for at in order))

    def reshape(self, shape: Shape) -> SlotView | None:
        """Return the view with its spans regrouped; None if a slot would have to be cut."""
        spans = [span for dim in self.dims for span in dim if span.size > 1]
        loose = tuple(
            span for dim in self.dims for span in dim if span.size == 1 and span.slot != REPEATED
        )
        dims = []
        for size in shape:
            group: list[SlotSpan] = []
            while (left := size // math.prod(span.size for span in group)) > 1 and spans:
                if spans[0].slot == REPEATED and spans[0].size % left == 0 < spans[0].size // left:
                    rest = spans[0].size // left
                    spans[:1] = [
                        SlotSpan(REPEATED, 0, length) for length in (left, rest) if length > 1
                    ]
                group.append(spans.pop(0))
            if math.prod(span.size for span in group) != size:
                return None
            dims.append(tuple(group))
        return None if spans else SlotView(self.root, tuple(dims), (*self.fixed, *loose))

    def slice_dim(self, dim: int, start: int, size: int) -> SlotView | None:
        """Return the view with a part of a dimension; None if that is not one span."""
        if size == self.shape[dim]:
            return self
        if len(self.dims[dim]) != 1:
            return None
        (span,) = self.dims[dim]
        part = SlotSpan(span.slot, span.start + start, size)
        return replace(self, dims=(*self.dims[:dim], (part,), *self.dims[dim + 1 :]))


def fresh(
    root: StoredTensor,
    shape: Shape,
    keep: Collection[int] = (),
    splits: Mapping[int, tuple[int, ...]] | None = None,
) -> SlotView:
    """Return the view of all of a new tensor, with a slot for each dimension.

    Dimensions of size 1 have no slot, except those in ``keep``. ``splits``: sizes of dimensions
    that have several slots, of these sizes, as heads that share keys; not for the last of four
    dimensions.
    """
    keep = keep or ((0,) if math.prod(shape) == 1 else ())
    dims: list[tuple[SlotSpan, ...]] = []
    for at, size in enumerate(shape):
        has = size > 1 or at in keep
        is_size = at in keep or (at == len(shape) - 1 and at > _HEADS)
        several = {} if is_size or splits is None else splits
        parts = several.get(size, (size,)) if has else ()
        dims.append(tuple(SlotSpan(len(root.sizes) + n, 0, part) for n, part in enumerate(parts)))
        root.sizes += parts
    return SlotView(root, tuple(dims))


@dataclass(frozen=True)
class SlotUse:
    """The use of a stored tensor by an operator: the ranks that index each slot."""

    root: StoredTensor
    slots: Mapping[int, tuple[Terms, int]]
    """Slot -> ((rank, coefficient) terms, position of their start; below 0: zeros of a border)."""

    def box(self, ranks: Mapping[str, int]) -> list[tuple[int, int]]:
        """Return (first position, last + 1) of each slot."""
        slots = (self.slots[at] for at in range(len(self.slots)))
        return [(start, start + AffineDimension(terms).size(ranks)) for terms, start in slots]

    def mark(self, ranks: Mapping[str, int], marks: npt.NDArray[np.bool_]) -> None:
        """Set ``marks``, in the tensor's shape, at the elements that it uses."""
        places = []
        for slot, size in enumerate(marks.shape):
            terms, start = self.slots[slot]
            reached = np.array([start])
            for rank, factor in terms:
                reached = np.unique(reached[:, None] + factor * np.arange(ranks[rank]))
            places.append(reached[(reached >= 0) & (reached < size)])
        marks[np.ix_(*places)] = True

    def settle(self, ranks: Mapping[str, int]) -> None:
        """Extend the tensor's border and its size to what is used."""
        root, slots = self._root_slots()
        for slot, (terms, start) in slots.items():
            end = start + AffineDimension(terms).size(ranks)
            root.before[slot] = max(root.before.get(slot, 0), -start)
            root.reached[slot] = max(root.reached.get(slot, 0), end)

    def operand(self, ranks: Mapping[str, int]) -> Operand:
        """Return the operand; all uses of the tensor must be settled."""
        root, slots = self._root_slots()
        dims = tuple(AffineDimension(slots[at][0]) for at in range(len(root.sizes)))
        starts = tuple(slots[at][1] + root.before.get(at, 0) for at in range(len(root.sizes)))
        shape = tuple(dim.size(ranks) for dim in dims)
        whole = tuple(root.slot_size(at) for at in range(len(root.sizes)))
        return Operand(root.name, dims, () if shape == whole else starts)

    def _root_slots(self) -> tuple[StoredTensor, dict[int, tuple[Terms, int]]]:
        root, slots = self.root, dict(self.slots)
        while root.into is not None:
            root, slot, offset = root.into
            terms, start = slots[slot]
            slots[slot] = terms, start + offset
        return root, slots


def view_of_ranks(
    root: StoredTensor, dims: Sequence[Sequence[str]], sizes: Mapping[str, int]
) -> tuple[SlotView, SlotUse]:
    """Return the view and the use of all of a new tensor; ``dims``: the ranks of each dimension."""
    ranks = [rank for dim in dims for rank in dim]
    root.sizes = [sizes[rank] for rank in ranks]
    spans = {rank: SlotSpan(at, 0, sizes[rank]) for at, rank in enumerate(ranks)}
    view = SlotView(root, tuple(tuple(spans[rank] for rank in dim) for dim in dims))
    return view, SlotUse(root, {at: (((rank, 1),), 0) for at, rank in enumerate(ranks)})


def sizes_of(group: Sequence[SlotSpan]) -> list[int]:
    """Return the sizes of a dimension's spans."""
    return [span.size for span in group]


def ranks_of(letter: str, group: Sequence[SlotSpan]) -> dict[SlotSpan, str]:
    """Return the rank of each span of a dimension: the letter, numbered if there are several."""
    return {span: letter if len(group) == 1 else f"{letter}{at}" for at, span in enumerate(group)}


def join_views(root: StoredTensor, views: Sequence[SlotView], axis: int) -> SlotView | None:
    """Return whole tensors, concatenated along a dimension, as a view of ``root``.

    They become parts of it. None if one isn't made by an operator, is used or kept already, or has
    other slots.
    """
    first = views[0]
    slots = [view.dims[axis] for view in views]
    fits = all(
        view.root.made
        and not (view.fixed or view.root.kept or view.root.read or view.root.into)
        and all(map(view.is_whole, view.spans))
        and len(view.dims[axis]) == 1
        and view.dims[axis][0].slot == first.dims[axis][0].slot
        and _other_dims(view, axis) == _other_dims(first, axis)
        for view in views
        if first.dims[axis]
    )
    if not (fits and all(slots)) or len({id(view.root) for view in views}) < len(views):
        return None
    slot, at = first.dims[axis][0].slot, 0
    root.made, root.sizes = True, list(first.root.sizes)
    for view in views:
        view.root.into = root, slot, at
        at += view.dims[axis][0].size
    root.sizes[slot] = at
    return SlotView(root, (*first.dims[:axis], (SlotSpan(slot, 0, at),), *first.dims[axis + 1 :]))


def _other_dims(view: SlotView, axis: int) -> tuple[tuple[SlotSpan, ...], ...]:
    return tuple(dim for at, dim in enumerate(view.dims) if at != axis)


@dataclass
class PendingOperator:
    """An operator whose tensors may still get a border of zeros.

    ``kind``: of a vector operator; None: an einsum.
    """

    name: str
    ranks: Mapping[str, int]
    inputs: tuple[SlotUse, ...]
    output: SlotUse
    kind: str | None = None
    axis: str | None = None
    visible: VisibleSpan | None = None

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return 0 if self.kind else math.prod(self.ranks.values())

    def operator(self) -> Operator:
        """Return the operator; all uses of its tensors must be settled."""
        inputs = tuple(one.operand(self.ranks) for one in self.inputs)
        output = self.output.operand(self.ranks)
        if self.kind is None:
            return Einsum(self.name, self.ranks, inputs, output)
        return Vector(
            self.name, self.kind, self.ranks, inputs, output, self.axis, visible=self.visible
        )


def note_distinct(
    roots: Iterable[StoredTensor], pending: Sequence[PendingOperator], shapes: Mapping[str, Shape]
) -> None:
    """Set how many distinct elements each stored tensor brings in from outside or takes out.

    A tensor that goes to DRAM only for a reader without a view takes none out. Several stored
    tensors of one input share its elements (``shapes``), in their order.
    """
    left = {name: math.prod(shape) for name, shape in shapes.items()}
    for root in roots:
        if root.made and root.kept and not root.leaves:
            root.distinct = 0
        if root.made or not root.outside:
            continue
        count = _count_used(root, pending)
        parts = {
            name: min(most, count, left.get(name, most)) for name, most in root.outside.items()
        }
        left |= {name: left.get(name, part) - part for name, part in parts.items()}
        more = sum(parts.values())
        root.distinct = more if more < count else root.distinct


def _count_used(root: StoredTensor, pending: Sequence[PendingOperator]) -> int:
    """Return the number of distinct elements that operators use of a tensor that none makes."""
    if root.distinct is not None:
        return root.distinct
    uses = [(op.ranks, use) for op in pending for use in op.inputs if use.root is root]
    slots = ((ranks, terms) for ranks, use in uses for terms, _ in use.slots.values())
    listed = (math.prod(ranks[rank] for rank, _ in terms) for ranks, terms in slots)
    if math.prod(root.sizes) > _MOST_MARKED or max(listed, default=0) > _MOST_LISTED:
        return math.prod(root.sizes)
    marks = np.zeros(tuple(root.sizes), dtype=np.bool_)
    for ranks, use in uses:
        use.mark(ranks, marks)
    return int(np.count_nonzero(marks))
