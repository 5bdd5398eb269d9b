"""Building of a workload's operators from ONNX nodes, whose tensors are views of stored tensors.

A node reads the output of another in place as long as that is a view of a stored tensor (`views`).
If it is not, or if the tensor is an input or weight of the graph, the reader gets a new stored
tensor, and the output goes to DRAM. Windows that reach over the edge read zeros, which are stored
around the tensor and moved like all other elements.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files.constants import Shape
from simaccel.importers.onnx_files.views import (
    REPEATED,
    PendingOperator,
    SlotSpan,
    SlotUse,
    SlotView,
    StoredTensor,
    fresh,
    join_views,
    note_distinct,
    sizes_of,
    view_of_ranks,
)
from simaccel.numbers import BYTE, PACKED_BITS
from simaccel.workload.einsum import Kind, Operator, Tensor, Terms

Source = str | SlotView | None
"""A tensor of the graph by name, a view, or None: a new tensor that only its reader has."""
NodeInput = tuple[Source, Shape]
"""An input of a node: (its source, its shape)."""


@dataclass
class WorkloadBuilder:
    """A workload that is being built, operator by operator.

    ``shapes`` and ``bits`` (of an element): by tensor of the graph. ``constants``: names of
    weights. ``splits``: size of a dimension that a repetition has made (query heads that share
    keys) -> the sizes of the slots into which it is split.
    """

    shapes: Mapping[str, Shape]
    bits: Mapping[str, int]
    constants: Collection[str] = ()
    splits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    distinct: Mapping[str, int] = field(default_factory=dict)
    """Constant that repeats elements of others -> number of its distinct elements."""
    exact: bool = False
    """Whether transposed convolutions multiply no zeros around their input."""
    made_bits: int = 16
    """Bits of an element of the current node's output."""
    views: dict[str, SlotView] = field(default_factory=dict)
    """Tensor of the graph that an operator has written or read -> its view of a stored tensor."""
    derived: set[str] = field(default_factory=set)
    """Keys of ``views`` that no operator writes, but nodes that only move elements."""
    read_tensors: set[str] = field(default_factory=set)
    """Tensors of the graph that the current node has read, as a view or from DRAM."""
    begun: int = 0
    """Operators of the nodes before the current one."""
    attributes: set[str] = field(default_factory=set)
    """Attributes of the current node that have been read."""
    notes: list[AccountEntry] = field(default_factory=list)
    """Account entries besides those of nodes."""
    through_dram: set[str] = field(default_factory=set)
    """Tensors of the graph that go through DRAM, as a reader can't address them as a view."""
    external_copies: dict[str, StoredTensor] = field(default_factory=dict)
    """Input or weight that no view addressed -> its stored tensor, which others may read."""
    roots: dict[str, StoredTensor] = field(default_factory=dict)
    """Stored tensors by name."""
    outside: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """Tensor that nodes only move -> its number of elements from each input or weight."""
    pending: list[PendingOperator] = field(default_factory=list)

    def note(self, name: str, why: str, elements: int = 0) -> None:
        """Report elements that are moved otherwise than the file has them."""
        self.notes.append(AccountEntry(name, "not taken", why, "tensor", 0, elements))

    # -- tensors

    def view(self, source: Source) -> SlotView | None:
        """Return the view of a source; None without one."""
        return source if isinstance(source, SlotView) else self.views.get(source or "")

    def store_in_dram(self, source: Source) -> None:
        """Keep a source's stored tensor in DRAM, for a reader that has no view of it."""
        view = self.view(source)
        if view is None or not (view.root.made or view.root.read):
            if isinstance(source, str) and view is not None:
                self.external_copies[source] = view.root
            return
        view.root.keep()
        if isinstance(source, str):
            self.read_tensors.add(source)
            self.through_dram.add(source)

    def set_first_view(self, source: Source, view: SlotView) -> None:
        """Set the view of an input or weight of the graph to that of its first reader."""
        if not isinstance(source, str) or self.shapes.get(source) != view.shape:
            return
        known = self.views.get(source)
        if known is None or not (known.root.made or known.root.read):
            view.root.bits = self.bits_of(source)
            self.views[source] = view

    def view_external(self, name: str, label: str) -> SlotView | None:
        """Return the view of an input or weight, stored as ``label``; None without a shape."""
        if name not in self.views and self.shapes.get(name):
            root = self._share_constant(
                name, self.root(label, self.kind_of(name), bits=self.bits_of(name))
            )
            self._record_origin(root, name)
            self.views[name] = fresh(root, self.shapes[name], (), self.splits)
        return self.views.get(name)

    def outside_elements(self, source: Source) -> Mapping[str, int] | None:
        """Return the number of a source's elements from each input or weight; None if unknown."""
        view = self.view(source)
        if view is not None and view.root.made:
            return {}
        if isinstance(source, str):
            whole = {source: math.prod(self.shapes[source])} if source in self.shapes else None
            return self.outside.get(source, whole)
        return view.root.outside or None if view is not None else None

    def _record_origin(self, root: StoredTensor, source: Source) -> None:
        """Record the inputs and weights that the elements of a new tensor are from, if known."""
        known = self.outside_elements(source)
        if known is not None:
            root.outside, root.distinct = known, root.distinct if known else 0

    def record_origins(self, names: Sequence[str], moved: Sequence[str]) -> None:
        """Record the inputs and weights of the elements that a node moves into ``names``."""
        parts = [self.outside_elements(name) for name in moved]
        counts = Counter[str]()
        for part in parts:
            counts.update(part or {})
        for name in self.shapes.keys() & {*names} if None not in parts else ():
            self.outside[name] = {
                source: min(count, *(math.prod(self.shapes[tensor]) for tensor in (source, name)))
                for source, count in counts.items()
            }

    def bits_of(self, source: Source) -> int:
        """Return the bits of an element of a source."""
        view = self.view(source)
        if view is not None:
            return view.root.bits
        return self.bits.get(source, self.made_bits) if isinstance(source, str) else self.made_bits

    def read(
        self, source: Source, view: SlotView, slots: Mapping[int, tuple[Terms, int]]
    ) -> SlotUse:
        """Return an operator's use of a view; ``slots``: slot -> (its sum of ranks, its start)."""
        view.root.read = True
        if isinstance(source, str):
            self.read_tensors.add(source)
        return SlotUse(view.root, slots)

    def root(
        self,
        name: str,
        kind: Kind,
        sizes: Sequence[int] = (),
        *,
        made: bool = False,
        bits: int | None = None,
    ) -> StoredTensor:
        """Return a new stored tensor; ``made``: whether an operator writes it."""
        own_bits = self.made_bits if bits is None else bits
        root = self.roots[name] = StoredTensor(name, list(sizes), kind, made, own_bits)
        return root

    def add_copy(self, name: str, source: Source, kind: Kind | None = None) -> StoredTensor:
        """Return a new stored tensor with a source's elements, for a reader without a view."""
        self.store_in_dram(source)
        root = self.root(name, kind or self.kind_of(source), bits=self.bits_of(source))
        view = self.view(source)
        if view is not None and view.repeats:
            root.distinct = view.elements
        if source is not None and root.kind != "cache":
            self._record_origin(root, source)
        return self._share_constant(source, root)

    def _share_constant(self, source: Source, root: StoredTensor) -> StoredTensor:
        """Set the number of distinct elements of a constant that repeats some, and report it."""
        if isinstance(source, str) and source in self.distinct:
            count = root.distinct = self.distinct[source]
            why = f"{count} elements, read as the {math.prod(self.shapes[source])} that they become"
            self.note(root.name, why, count)
        return root

    def read_linked(self, source: Source, ranks: Mapping[SlotSpan, str], view: SlotView) -> SlotUse:
        """Return an operator's use of a view; ``ranks``: the operator's rank of each span."""
        return self.read(source, view, {s.slot: (((ranks[s], 1),), s.start) for s in view.spans})

    def factor(
        self,
        name: str,
        source: Source,
        dims: Sequence[Sequence[str]],
        sizes: Mapping[str, int],
        kind: Kind,
        own: Collection[str] = (),
    ) -> SlotUse:
        """Return an operator's use of a source; ``dims``: the ranks of each dimension.

        If the source's view is not divided into the same sizes, it becomes a new tensor; so it does
        if it repeats elements over a rank of ``own``, which no other input has.
        """
        view = self.view(source)
        wanted = [[sizes[rank] for rank in dim] for dim in dims]
        if view is not None and not view.fixed and [sizes_of(dim) for dim in view.dims] == wanted:
            pairs = [*zip(chain(*view.dims), chain(*dims), strict=True)]
            stored = {span: rank for span, rank in pairs if span.slot != REPEATED}
            if len(stored) == len(pairs) or not {*own} - {*stored.values()}:
                return self.read_linked(source, stored, view)
        factor_view, use = view_of_ranks(self.add_copy(name, source, kind), dims, sizes)
        self.set_first_view(source, factor_view)
        return self.read(source, factor_view, use.slots)

    def make(
        self,
        name: str,
        dims: Sequence[Sequence[str]],
        sizes: Mapping[str, int],
        inputs: Sequence[SlotUse],
        kind: str | None = None,
        fixed: Sequence[str] = (),
    ) -> SlotView:
        """Add an operator over ranks of ``sizes``, and return its output.

        ``dims``: ranks by dimension of the output; ``fixed``: those that none has. ``kind``: of a
        vector operator; an elementwise product is one, as no array folds it.
        """
        indexed = [{r for terms, _ in use.slots.values() for r, _ in terms} for use in inputs]
        everywhere = set(chain(*dims, fixed)).intersection(*indexed)
        if everywhere.issuperset(sizes) and max(sizes.values()) > 1:
            kind = kind or "product"
        root = self.root(f"{name}.O", "output", made=True)
        made, use = view_of_ranks(root, [*dims, fixed], sizes)
        self.add(PendingOperator(name, sizes, tuple(inputs), use, kind))
        return SlotView(root, made.dims[:-1], made.dims[-1])

    def add(self, pending: PendingOperator) -> None:
        """Add an operator; if it reads two parts of one tensor, the second becomes a new tensor."""
        inputs = list(pending.inputs)
        for at, use in enumerate(inputs):
            for other in inputs[:at]:
                if other.root is use.root and other.box(pending.ranks) != use.box(pending.ranks):
                    use.root.keep()
                    self.through_dram.add(use.root.name)
                    sizes = [after - before for before, after in use.box(pending.ranks)]
                    name = f"{pending.name}.{'ABCD'[at]}"
                    root = self.root(name, "input", sizes, bits=use.root.bits)
                    root.outside, root.distinct = use.root.outside, 0 if use.root.made else None
                    slots = {slot: (terms, 0) for slot, (terms, _) in use.slots.items()}
                    inputs[at] = SlotUse(root, slots)
        self.pending.append(replace(pending, inputs=tuple(inputs)))

    def join(self, name: str, parts: Sequence[Source], axis: int) -> SlotView | None:
        """Return a concatenation as a view of one new tensor; None if parts are used elsewhere."""
        views = [view for part in parts if (view := self.view(part)) is not None]
        if len(views) < len(parts) or self.derived & set(parts):
            return None
        root = StoredTensor(name, [], "output", bits=views[0].root.bits)
        joined = join_views(root, views, axis)
        if joined is not None:
            self.roots[name] = root
        return joined

    def finish(self, outputs: Collection[str]) -> tuple[list[Operator], dict[str, Tensor]]:
        """Return the operators and tensors; ``outputs``: the graph's, which go to DRAM."""
        for name in outputs:
            if name in self.views:
                self.views[name].root.keep(leaves=True)
        self.through_dram |= {name for name, root in self.external_copies.items() if root.read}
        for pending in self.pending:
            for use in (*pending.inputs, pending.output):
                use.settle(pending.ranks)
        operators = [pending.operator() for pending in self.pending]
        note_distinct(self.roots.values(), self.pending, self.shapes)
        stored = {
            operand.tensor
            for operator in operators
            for operand in (*operator.inputs, operator.output)
        }
        tensors = {
            name: Tensor(
                name,
                -(-root.bits // BYTE),
                root.final_kind(),
                packed=root.bits <= PACKED_BITS,
                inside=root.find_inside(),
                distinct=root.distinct,
            )
            for name, root in self.roots.items()
            if name in stored
        }
        for name, tensor in tensors.items():
            if (bits := self.roots[name].bits) != tensor.bits:
                self.note(name, f"elements of {bits} bits, moved as {tensor.bits}")
        return operators, tensors

    # -- vector operators

    def vector(
        self,
        name: str,
        kind: str,
        shape: Shape,
        operands: Sequence[NodeInput],
        axis: int | None = None,
    ) -> SlotView:
        """Add a vector operator and return its output; operands but the first may be broadcast."""
        may_repeat = len(operands) == 1 and axis is None
        source, view = self.whole(name, (operands[0][0], shape), axis, repeats=may_repeat)
        ranks = {span: f"i{at}" for at, span in enumerate(view.spans)}
        uses = [self.read_linked(source, ranks, view)]
        for number, (other, own_shape) in enumerate(operands[1:]):
            wide = (1,) * (len(shape) - len(own_shape)) + own_shape
            uses.append(self._read_broadcast(f"{name}.{'BCD'[number]}", (other, wide), view, ranks))
        axis_rank = None if axis is None else ranks[view.dims[axis][0]]
        sizes = {rank: span.size for span, rank in ranks.items()}
        made, out = view_of_ranks(self.root(f"{name}.O", "output", made=True), [[*sizes]], sizes)
        self.add(PendingOperator(name, sizes, tuple(uses), out, kind, axis_rank))
        new = dict(zip(view.spans, made.dims[0], strict=True))
        dims = tuple(tuple(new.get(span, span) for span in dim) for dim in view.dims)
        return SlotView(made.root, dims, tuple(new[span] for span in view.fixed))

    def whole(
        self, name: str, operand: NodeInput, axis: int | None = None, *, repeats: bool = False
    ) -> tuple[Source, SlotView]:
        """Return (source, view) of an operator's first input; a new tensor if it has no view.

        ``axis``: a dimension that must be a single span. ``repeats``: whether the view may repeat
        elements.
        """
        source, shape = operand
        view = self.view(source)
        if view is not None and (view.shape != shape or not view.spans):
            view = None
        if view is not None and view.repeats and not repeats:
            why = f"read as the {math.prod(shape)} that they are repeated to"
            self.note(name, f"{view.elements} elements, {why}", view.elements)
            view = None
        if view is not None and (axis is None or len(view.dims[axis]) == 1):
            return source, view
        root = self.add_copy(f"{name}.I", source)
        keep, splits = ((), self.splits) if axis is None else ((axis,), None)
        fresh_view = fresh(root, shape, keep, splits)
        self.set_first_view(source, fresh_view)
        return source, fresh_view

    def _read_broadcast(
        self, name: str, operand: NodeInput, like: SlotView, ranks: Mapping[SlotSpan, str]
    ) -> SlotUse:
        """Return the use of an operand that may be broadcast to the view ``like``."""
        source, shape = operand
        view = self.view(source)
        view_dims = () if view is None else view.dims
        pairs = [*zip(((),) * (len(shape) - len(view_dims)) + view_dims, like.dims, strict=True)]
        fits = all(not dim or sizes_of(dim) == sizes_of(full_dim) for dim, full_dim in pairs)
        if view is not None and not view.fixed and view.spans and fits:
            own = {a: ranks[b] for p, q in pairs if p for a, b in zip(p, q, strict=True)}
            return self.read_linked(source, own, view)
        own_shape = self.shapes.get(source, shape) if isinstance(source, str) else shape
        ranks_by_dim = [
            [ranks[s] for s in full_dim] if n > 1 and all(s.slot != REPEATED for s in dim) else []
            for (dim, full_dim), n in zip(pairs, shape, strict=True)
        ]
        sizes = {ranks[span]: span.size for dim in like.dims for span in dim if span.slot >= 0}
        own_dims = ranks_by_dim[len(shape) - len(own_shape) :]
        return self.factor(name, source, own_dims, sizes, self.kind_of(source))

    def kind_of(self, source: Source) -> Kind:
        """Return the kind of a tensor that no operator writes."""
        view = self.view(source)
        if view is not None and not view.root.made:
            return view.root.kind
        return "weight" if isinstance(source, str) and source in self.constants else "input"
