"""Convolutions, poolings, matrix products and attentions over views."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from simaccel.importers.onnx_files.builder import NodeInput, Source, WorkloadBuilder
from simaccel.importers.onnx_files.constants import Shape
from simaccel.importers.onnx_files.contractions import add_contraction
from simaccel.importers.onnx_files.places import WINDOW_RANKS, FilterWindow
from simaccel.importers.onnx_files.views import (
    REPEATED,
    PendingOperator,
    SlotSpan,
    SlotUse,
    SlotView,
    fresh,
    ranks_of,
    sizes_of,
    view_of_ranks,
)
from simaccel.workload.einsum import Kind, Terms, VisibleSpan

_LETTERS: Final = "abcdefghij"
"""Letters of the dimensions before the last two."""


@dataclass(frozen=True)
class Filters:
    """A convolution's groups, and the output and input channels of each."""

    groups: int
    outputs: int
    inputs: int

    @property
    def parts(self) -> tuple[int, ...]:
        """Groups and the input channels of each, where both are several; else nothing."""
        return (self.groups, self.inputs) if self.groups > 1 and self.inputs > 1 else ()


@dataclass(frozen=True)
class WindowedOperand:
    """An input of a node over which windows slide; ``name``: of the operator that reads it."""

    builder: WorkloadBuilder
    name: str
    operand: NodeInput
    windows: Sequence[FilterWindow]

    @property
    def window_ranks(self) -> Sequence[tuple[str, str]]:
        """Ranks of output positions and of filter taps, by window."""
        return WINDOW_RANKS[-len(self.windows) :]

    def add_pooling(self, kind: str) -> SlotView:
        """Add a pooling whose windows slide over all dimensions after samples and channels."""
        source, view = self.image()
        single = all(window.outputs == 1 for window in self.windows)
        if single and not any((*view.dims[:2], view.fixed)):
            source, view = self._new_image((0,))  # for at least one rank
        ranks = ranks_of("n", view.dims[0]) | ranks_of("g", view.dims[1]) | _fixed_ranks(view)
        use, sizes = self._read(source, view, ranks)
        places = [[place for place in [p] if place in sizes] for p, _ in self.window_ranks]
        dims = [[ranks[s] for s in dim] for dim in view.dims[:2]]
        fixed = [ranks[s] for s in view.fixed]
        return self.builder.make(self.name, [*dims, *places], sizes, (use,), kind, fixed)

    def add_conv(self, filters: Filters, weights: Source = None) -> SlotView:
        """Add a convolution; without the name of ``weights``, they are a new tensor."""
        use, sizes, (samples, outer, inner) = self.read_filtered(filters)
        rows = self.window_ranks
        reach = [[tap for tap in [r] if tap in sizes] for _, r in rows]
        kind: Kind = self.builder.kind_of(weights) if isinstance(weights, str) else "weight"
        filter_use = self.builder.factor(
            f"{self.name}.W", weights, [outer, inner, *reach], sizes, kind
        )
        places = [[place for place in [p] if place in sizes] for p, _ in rows]
        made_of = [samples, outer, *places]
        alone = "m" not in sizes and all(n == 1 for rank, n in sizes.items() if rank not in outer)
        fixed = [rank for rank in sizes if rank not in chain(*made_of)] if alone else []
        vector = "product" if alone else None  # each element has a factor of its own
        return self.builder.make(self.name, made_of, sizes, (use, filter_use), vector, fixed)

    def read_filtered(
        self, filters: Filters
    ) -> tuple[SlotUse, dict[str, int], tuple[list[str], list[str], list[str]]]:
        """Return how a convolution reads its input, the sizes of its ranks, and its ranks by role.

        The roles: samples, output channels (groups included), input channels of a group. With
        several groups of several channels the input's channels are split into groups and their own.
        """
        source, view = self.image(filters.parts)
        channels = ranks_of("c" if filters.groups == 1 else "g", view.dims[1])
        if filters.parts:
            channels = dict(zip(view.dims[1], "gc", strict=True))
        samples = ranks_of("n", view.dims[0])
        ranks = samples | channels | _fixed_ranks(view)
        use, sizes = self._read(source, view, ranks)
        outer = [channel for channel in channels.values() if channel.startswith("g")]
        inner = [channel for channel in channels.values() if channel.startswith("c")]
        if filters.outputs > 1 or not outer:
            sizes["m"] = filters.outputs
            outer = [*outer, "m"]
        return use, sizes, ([*samples.values()], outer, inner)

    def image(self, channels: tuple[int, ...] = ()) -> tuple[Source, SlotView]:
        """Return (source, view) of the input; of a new tensor if it has no view for windows.

        ``channels``: groups and the channels of each, where both are several. Channels that a view
        repeats need a new tensor, as filters have weights for each.
        """
        source, shape = self.operand
        view = self.builder.view(source)
        if view is not None and view.shape == shape:
            pairs = zip(view.dims[2:], self.windows, strict=True)
            split = not channels or sizes_of(view.dims[1]) == [*channels]
            slides = all(_window_fits(view, dim, window) for dim, window in pairs)
            if split and slides and not view.repeats:
                return source, view
        return self._new_image(channels=channels)

    def _new_image(
        self, keep: Collection[int] = (), channels: tuple[int, ...] = ()
    ) -> tuple[Source, SlotView]:
        """Return (source, view) of a new tensor; ``keep``: dimensions that have a slot."""
        source, shape = self.operand
        root = self.builder.add_copy(f"{self.name}.I", source)
        also = {2 + at for at, window in enumerate(self.windows) if window.length > 1}
        if channels:
            parted = fresh(root, (shape[0], *channels, *shape[2:]), {at + 1 for at in also} or (0,))
            dims = (parted.dims[0], parted.dims[1] + parted.dims[2], *parted.dims[3:])
            view = SlotView(root, dims)
        else:
            view = fresh(root, shape, {*keep, *also})
        self.builder.set_first_view(source, view)
        return source, view

    def _read(
        self, source: Source, view: SlotView, ranks: Mapping[SlotSpan, str]
    ) -> tuple[SlotUse, dict[str, int]]:
        """Return the use of a view by sliding self.windows, and the sizes of all ranks."""
        sizes = {rank: span.size for span, rank in ranks.items()}
        slots: dict[int, tuple[Terms, int]] = {
            span.slot: (((rank, 1),), span.start)
            for span, rank in ranks.items()
            if span.slot != REPEATED
        }
        for dim, window, (place, offset) in zip(
            view.dims[2:], self.windows, self.window_ranks, strict=True
        ):
            terms = [(place, window.stride)] if window.outputs > 1 else []
            terms += [(offset, window.dilation)] if window.taps > 1 else []
            if not dim:
                continue
            terms = terms or [(offset, 1)]
            known = {place: window.outputs, offset: window.taps}
            sizes |= {rank: known[rank] for rank, _ in terms}
            slots[dim[0].slot] = tuple(terms), dim[0].start - window.zeros_before
        return self.builder.read(source, view, slots), sizes


def add_reduction(
    builder: WorkloadBuilder, name: str, read: NodeInput, axes: Collection[int], *, keeps: bool
) -> SlotView:
    """Add the mean over ``axes``; ``keeps``: the output has these dimensions, with size 1."""
    source, view = builder.whole(name, read)
    gone = {span for at in axes for span in view.dims[at]}
    if not gone:  # dimensions of size 1: each element is its own mean
        made = builder.vector(name, "scale", read[1], [read])
        left = tuple(dim for at, dim in enumerate(made.dims) if keeps or at not in axes)
        return SlotView(made.root, left, made.fixed)
    if len(gone) == len(view.spans):  # the output must have a rank
        if isinstance(source, str) and view.root is builder.roots.get(f"{name}.I"):
            builder.views.pop(source, None)  # set by `whole` above, in another form
        root = builder.add_copy(f"{name}.I", source, "input")
        whole = fresh(root, (1, *read[1]), (0,))
        source, view = None, SlotView(whole.root, whole.dims[1:], whole.dims[0])
        gone = {span for dim in view.dims for span in dim}
    ranks = {span: f"i{at}" for at, span in enumerate(view.spans)}
    sizes = {rank: span.size for span, rank in ranks.items()}
    dims = [[ranks[span] for span in dim if span not in gone] for dim in view.dims]
    fixed = [ranks[span] for span in view.fixed]
    use = builder.read_linked(source, ranks, view)
    made = builder.make(name, dims, sizes, (use,), "average_pooling", fixed)
    left = tuple(dim for at, dim in enumerate(made.dims) if keeps or at not in axes)
    return SlotView(made.root, left, made.fixed)


def _fixed_ranks(view: SlotView) -> dict[SlotSpan, str]:
    """Return ranks for the fixed spans of a view, which no dimension has."""
    return {span: f"z{at}" for at, span in enumerate(view.fixed)}


def _window_fits(view: SlotView, dim: Sequence[SlotSpan], window: FilterWindow) -> bool:
    """Return whether a window can slide over a dimension: only whole slots can have a border."""
    if not dim:
        return window.length == 1 and not window.zeros_before
    if len(dim) > 1 or dim[0].slot == REPEATED:
        return False
    inside = 0 <= -window.zeros_before <= dim[0].size - window.length
    return inside or view.is_whole(dim[0])


@dataclass(frozen=True)
class Factor:
    """The second factor of a matrix product: weights or activations.

    ``transposed``: it is stored as [..., n, k]. ``name``: of its tensor, if several operators read
    the same.
    """

    source: NodeInput
    kind: Kind
    transposed: bool = False
    name: str = ""

    @property
    def shape(self) -> Shape:
        """Shape as [..., k, n]."""
        shape = self.source[1]
        return (*shape[:-2], shape[-1], shape[-2]) if self.transposed else shape


def add_product(
    builder: WorkloadBuilder,
    name: str,
    first: NodeInput,
    second: Factor,
    *,
    transposed: bool = False,
) -> SlotView:
    """Add numpy's matmul; if the second factor has no batch, that of the first counts as rows.

    ``transposed``: the first factor is [k, m].
    """
    batch = len(second.shape) - 2 if any(length > 1 for length in second.shape[:-2]) else 0
    if batch and first[1][:-2] != second.shape[:-2]:
        return _add_batched_product(builder, name, first, second)
    source, stored = builder.whole(name, first)
    view = stored.transpose((1, 0)) if transposed else stored
    outer, inner = view.dims[:-1], view.dims[-1]
    shared = ranks_of("b", [span for dim in outer[:batch] for span in dim])
    rows = ranks_of("m", [span for dim in outer[batch:] for span in dim])
    ranks = shared | rows | ranks_of("k", inner) | _fixed_ranks(view)
    sizes = {rank: span.size for span, rank in ranks.items()}
    dims = [[ranks[span] for span in dim] for dim in outer]
    by_dim = [*dims[:batch], [ranks[span] for span in inner]]
    other, columns = _second_factor(builder, name, second, by_dim, sizes, alone=not any(dims))
    use = builder.read_linked(source, ranks, stored)
    if len(second.shape) > 1:
        return builder.make(name, [*dims, columns], sizes, (use, other))
    return builder.make(name, dims, sizes, (use, other), fixed=columns)


def _second_factor(
    builder: WorkloadBuilder,
    name: str,
    second: Factor,
    dims: Sequence[Sequence[str]],
    sizes: dict[str, int],
    *,
    alone: bool,
) -> tuple[SlotUse, list[str]]:
    """Return the use of the second factor and the ranks of its columns, whose sizes it adds.

    ``dims``: ranks of the dimensions before the columns. ``alone``: the output has no other ranks.
    """
    source, stored_shape = second.source
    shape, view = second.shape, builder.view(source)
    count = shape[-1] if len(shape) > 1 else 1
    if view is not None and view.shape == stored_shape and len(shape) > 1 and not view.fixed:
        if second.transposed:
            *lead_dims, last_row, last_column = range(len(stored_shape))
            view = view.transpose((*lead_dims, last_column, last_row))
        before = len(shape) - 1 - len(dims)
        known = view.dims[before:-1]
        columns = ranks_of("n", view.dims[-1])
        fits = [sizes_of(dim) for dim in known] == [[sizes[r] for r in wanted] for wanted in dims]
        stored = all(span.slot != REPEATED for span in columns)
        if fits and stored and (columns or not alone) and not any(view.dims[:before]):
            sizes |= {rank: span.size for span, rank in columns.items()}
            ranks = dict(zip(chain(*known), chain(*dims), strict=True)) | columns
            return builder.read_linked(source, ranks, view), [*columns.values()]
    columns_own = ["n"] if count > 1 or alone else []
    sizes |= dict.fromkeys(columns_own, count)
    last = [[*dims[-1]], columns_own] if len(shape) > 1 or alone else [[*dims[-1]]]
    if second.transposed:
        last.reverse()
    lead: list[list[str]] = [[] for _ in shape[: len(shape) - len(dims) - 1]]
    lead += [[*lead_dim] for lead_dim in dims[:-1]]
    label = second.name or f"{name}.W"
    use = builder.factor(label, source, [*lead, *last], sizes, second.kind, columns_own)
    return use, columns_own


def _add_batched_product(
    builder: WorkloadBuilder, name: str, first: NodeInput, second: Factor
) -> SlotView:
    lead = _LETTERS[: max(len(first[1]), len(second.shape)) - 2]
    left, right = ("mk" if len(first[1]) > 1 else "k"), ("kn" if len(second.shape) > 1 else "k")
    letters = [
        lead[len(lead) - len(shape) + len(own) :] + own
        for shape, own in ((first[1], left), (second.shape, right))
    ]
    made = left[:-1] + right[1:]
    return add_contraction(
        builder, name, [(first, letters[0]), (second.source, letters[1])], lead + made
    )


def add_attention(
    builder: WorkloadBuilder,
    names: tuple[str, str, str],
    operands: tuple[NodeInput, NodeInput, NodeInput],
    visible: VisibleSpan | None = None,
) -> SlotView:
    """Add Q K, softmax and its product with V; Q is [..., m, k], K [..., k, c] and V [..., c, d].

    ``names``: of the three operators. ``visible``: the keys that a row of m attends to, if not all.
    """
    logit, softmax, attend = names
    query, key, value = operands
    source, view = _query(builder, f"{logit}.Q", query)
    shared = ranks_of("b", [span for dim in view.dims[:-2] for span in dim])
    ranks = shared | {view.dims[-2][0]: "m", view.dims[-1][0]: "k"} | _fixed_ranks(view)
    sizes = {rank: span.size for span, rank in ranks.items()}
    sizes |= {"c": key[1][-1], "d": value[1][-1]}
    heads, alone = list(shared.values()), list(_fixed_ranks(view).values())
    lead = [[ranks[span] for span in dim] for dim in view.dims[:-2]]
    keys = builder.factor(f"{logit}.K", key[0], [*lead, ["k"], ["c"]], sizes, "input")
    values = builder.factor(f"{attend}.V", value[0], [*lead, ["c"], ["d"]], sizes, "input")
    use = builder.read_linked(source, ranks, view)

    scores, weights = (
        view_of_ranks(builder.root(own, "intermediate"), [[*heads, "m", "c"]], sizes)[1]
        for own in (f"{logit}.S", f"{softmax}.P")
    )
    picked = {rank: sizes[rank] for rank in (*heads, "m", "c")}
    seen = None if visible is None else replace(visible, row="m")
    first = {rank: sizes[rank] for rank in (*heads, *alone, "m", "k", "c")}
    builder.add(PendingOperator(logit, first, (use, keys), scores))
    builder.add(PendingOperator(softmax, picked, (scores,), weights, "softmax", "c", seen))
    last = {**picked, "d": sizes["d"]}
    return builder.make(attend, [*lead, ["m"], ["d"]], last, (weights, values))


def _query(builder: WorkloadBuilder, name: str, operand: NodeInput) -> tuple[Source, SlotView]:
    source, shape = operand
    view = builder.view(source)
    if view is not None and view.shape == shape and len(view.dims[-2]) == len(view.dims[-1]) == 1:
        return source, view
    last = len(shape) - 2, len(shape) - 1
    root = builder.add_copy(name, source, "input")
    fresh_view = fresh(root, shape, last, builder.splits)
    builder.set_first_view(source, fresh_view)
    return source, fresh_view
