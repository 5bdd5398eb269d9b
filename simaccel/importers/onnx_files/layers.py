"""Convolutions, poolings, matrix products and attentions over views."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from simaccel.importers.onnx_files.building import Given, Source, WorkloadBuilder
from simaccel.importers.onnx_files.constants import Shape
from simaccel.importers.onnx_files.contractions import contraction
from simaccel.importers.onnx_files.places import FilterWindow
from simaccel.importers.onnx_files.views import (
    REPEATED,
    PendingOperator,
    SlotSpan,
    SlotUse,
    SlotView,
    fresh,
    ranks_of,
    sizes_of,
)
from simaccel.workload.einsum import Kind, Terms, VisibleSpan

ROWS: Final = (("o", "t"), ("p", "r"), ("q", "s"))
"""Ranks of positions and of the filter, for planes, rows and columns."""
_LETTERS: Final = "abcdefghij"
"""Letters of the dimensions before the last two."""
MOST_WINDOWS: Final = len(ROWS)
"""Dimensions that windows may go over."""


@dataclass(frozen=True)
class Filters:
    """A convolution's groups, and the output and input channels of each."""

    groups: int
    outputs: int
    inputs: int


def pooling(
    building: WorkloadBuilder, name: str, kind: str, operand: Given, windows: Sequence[FilterWindow]
) -> SlotView:
    """Add a pooling whose windows go over all dimensions after samples and channels."""
    source, view = _image(building, name, operand, windows)
    if not any((*view.dims[:2], view.fixed)) and all(window.made == 1 for window in windows):
        source, view = _own_image(building, name, operand, windows, (0,))  # it makes a rank
    ranks = ranks_of("n", view.dims[0]) | ranks_of("g", view.dims[1]) | _fixed_ranks(view)
    use, sizes = _read_windows(building, source, view, ranks, windows)
    places = [[place for place in [p] if place in sizes] for p, _ in ROWS[-len(windows) :]]
    dims = [[ranks[s] for s in dim] for dim in view.dims[:2]]
    fixed = [ranks[s] for s in view.fixed]
    made, out = building.output(name, [*dims, *places, fixed], sizes)
    building.add(PendingOperator(name, sizes, (use,), out, kind))
    return SlotView(made.root, made.dims[:-1], made.dims[-1])


def conv(
    building: WorkloadBuilder,
    name: str,
    operand: Given,
    filters: Filters,
    windows: Sequence[FilterWindow],
    weights: Source = None,
) -> SlotView:
    """Add a convolution."""
    use, sizes, (samples, outer, inner) = read_filtered(building, name, operand, filters, windows)
    rows = ROWS[-len(windows) :]
    reach = [[tap for tap in [r] if tap in sizes] for _, r in rows]
    kind: Kind = building.kind_of(weights) if isinstance(weights, str) else "weight"
    filter_use = building.factor(f"{name}.W", weights, [outer, inner, *reach], sizes, kind)
    places = [[place for place in [p] if place in sizes] for p, _ in rows]
    made_of = [samples, outer, *places]
    alone = "m" not in sizes and all(n == 1 for rank, n in sizes.items() if rank not in outer)
    fixed = [rank for rank in sizes if rank not in chain(*made_of)] if alone else []
    made, out = building.output(name, [*made_of, fixed], sizes)
    vector = "product" if alone else None  # each element has a factor of its own
    building.add(PendingOperator(name, sizes, (use, filter_use), out, vector))
    return SlotView(made.root, made.dims[:-1], made.dims[-1])


def read_filtered(
    building: WorkloadBuilder,
    name: str,
    operand: Given,
    filters: Filters,
    windows: Sequence[FilterWindow],
) -> tuple[SlotUse, dict[str, int], tuple[list[str], list[str], list[str]]]:
    """Return the access of a convolution to its image, the rank sizes, and its ranks by role.

    The roles: samples, output channels (groups included), input channels of a group. With several
    groups of several channels the image's channels are split into groups and channels of a group.
    """
    mixed = filters.groups > 1 and filters.inputs > 1
    parts = (filters.groups, filters.inputs) if mixed else ()
    source, view = _image(building, name, operand, windows, parts)
    channels = ranks_of("c" if filters.groups == 1 else "g", view.dims[1])
    if mixed:
        channels = dict(zip(view.dims[1], "gc", strict=True))
    samples = ranks_of("n", view.dims[0])
    ranks = samples | channels | _fixed_ranks(view)
    use, sizes = _read_windows(building, source, view, ranks, windows)
    outer = [channel for channel in channels.values() if channel.startswith("g")]
    inner = [channel for channel in channels.values() if channel.startswith("c")]
    if filters.outputs > 1 or not outer:
        sizes["m"] = filters.outputs
        outer = [*outer, "m"]
    return use, sizes, ([*samples.values()], outer, inner)


def reduction(
    building: WorkloadBuilder, name: str, read: Given, axes: Collection[int], *, keeps: bool
) -> SlotView:
    """Add the mean over whole dimensions, which the output has with size 1 or not at all."""
    source, view = building.whole(name, read)
    gone = {span for at in axes for span in view.dims[at]}
    if not gone:  # dimensions of size 1: each element is its own mean
        made = building.vector(name, "scale", read[1], [read])
        left = tuple(dim for at, dim in enumerate(made.dims) if keeps or at not in axes)
        return SlotView(made.root, left, made.fixed)
    if len(gone) == len(view.spans):  # what is made has a rank
        if isinstance(source, str) and view.root is building.roots.get(f"{name}.I"):
            building.views.pop(source, None)  # claimed just now, in another form
        root = building.add_copy(f"{name}.I", source, "input")
        whole = fresh(root, (1, *read[1]), (0,))
        source, view = None, SlotView(whole.root, whole.dims[1:], whole.dims[0])
        gone = {span for dim in view.dims for span in dim}
    ranks = {span: f"i{at}" for at, span in enumerate(view.spans)}
    sizes = {rank: span.size for span, rank in ranks.items()}
    dims = [[ranks[span] for span in dim if span not in gone] for dim in view.dims]
    made, out = building.output(name, [*dims, [ranks[span] for span in view.fixed]], sizes)
    use = building.read_linked(source, ranks, view)
    building.add(PendingOperator(name, sizes, (use,), out, "average_pooling"))
    left = tuple(dim for at, dim in enumerate(made.dims[:-1]) if keeps or at not in axes)
    return SlotView(made.root, left, made.dims[-1])


def _fixed_ranks(view: SlotView) -> dict[SlotSpan, str]:
    """Return ranks for what no dimension has."""
    return {span: f"z{at}" for at, span in enumerate(view.fixed)}


def _image(
    building: WorkloadBuilder,
    name: str,
    operand: Given,
    windows: Sequence[FilterWindow],
    channels: tuple[int, ...] = (),
) -> tuple[Source, SlotView]:
    """Return what windows go over, if it can be read so, or a tensor of the reader's own.

    ``channels``: groups and the channels of each, where both are several. Channels that are
    repeated are a tensor of the reader's own: filters have weights for each.
    """
    source, shape = operand
    view = building.view(source)
    if view is not None and view.shape == shape:
        pairs = zip(view.dims[2:], windows, strict=True)
        split = not channels or sizes_of(view.dims[1]) == [*channels]
        once = all(span.slot != REPEATED for span in view.dims[1])
        if once and split and all(_fits(view, dim, window) for dim, window in pairs):
            return source, view
    return _own_image(building, name, operand, windows, channels=channels)


def _own_image(
    building: WorkloadBuilder,
    name: str,
    operand: Given,
    windows: Sequence[FilterWindow],
    keep: Collection[int] = (),
    channels: tuple[int, ...] = (),
) -> tuple[Source, SlotView]:
    """Return a tensor of the reader's own; ``keep``: dimensions that are slots at size 1, too."""
    source, shape = operand
    root = building.add_copy(f"{name}.I", source)
    also = {2 + at for at, window in enumerate(windows) if window.length > 1}
    if channels:
        parted = fresh(root, (shape[0], *channels, *shape[2:]), {at + 1 for at in also} or (0,))
        dims = (parted.dims[0], parted.dims[1] + parted.dims[2], *parted.dims[3:])
        view = SlotView(root, dims)
    else:
        view = fresh(root, shape, {*keep, *also})
    building.set_first_view(source, view)
    return source, view


def _fits(view: SlotView, dim: Sequence[SlotSpan], window: FilterWindow) -> bool:
    """Return whether a window can go over a dimension: zeros may only stand around a whole slot."""
    if not dim:
        return window.length == 1 and not window.before
    if len(dim) > 1 or dim[0].slot == REPEATED:
        return False
    inside = not window.before and window.length <= dim[0].size
    return inside or view.is_whole(dim[0])


def _read_windows(
    building: WorkloadBuilder,
    source: Source,
    view: SlotView,
    ranks: Mapping[SlotSpan, str],
    windows: Sequence[FilterWindow],
) -> tuple[SlotUse, dict[str, int]]:
    """Return how windows go over a view, and the sizes of all ranks of that."""
    sizes = {rank: span.size for span, rank in ranks.items()}
    slots: dict[int, tuple[Terms, int]] = {
        span.slot: (((rank, 1),), span.start)
        for span, rank in ranks.items()
        if span.slot != REPEATED
    }
    for dim, window, (place, offset) in zip(
        view.dims[2:], windows, ROWS[-len(windows) :], strict=True
    ):
        terms = [(place, window.stride)] if window.made > 1 else []
        terms += [(offset, window.dilation)] if window.reach > 1 else []
        if not dim:
            continue
        terms = terms or [(offset, 1)]
        known = {place: window.made, offset: window.reach}
        sizes |= {rank: known[rank] for rank, _ in terms}
        slots[dim[0].slot] = tuple(terms), dim[0].start - window.before
    return building.read(source, view, slots), sizes


@dataclass(frozen=True)
class Factor:
    """The second factor of a product: weights, or something else; ``turned``: [..., n, k].

    ``name``: of its tensor, where several operators have the same.
    """

    given: Given
    kind: Kind
    turned: bool = False
    name: str = ""

    @property
    def shape(self) -> Shape:
        """Its shape as [..., k, n]."""
        shape = self.given[1]
        return (*shape[:-2], shape[-1], shape[-2]) if self.turned else shape


def product(
    building: WorkloadBuilder, name: str, first: Given, second: Factor, *, turned: bool = False
) -> SlotView:
    """Add numpy's matmul of two tensors; a second one without a batch sees all rows as one.

    ``turned``: the first factor is [k, m].
    """
    batch = len(second.shape) - 2 if any(length > 1 for length in second.shape[:-2]) else 0
    if batch and first[1][:-2] != second.shape[:-2]:
        return _add_batched_product(building, name, first, second)
    source, view = building.whole(name, first)
    use_of = view
    view = view.transpose((1, 0)) if turned else view
    outer, inner = view.dims[:-1], view.dims[-1]
    shared = ranks_of("b", [span for dim in outer[:batch] for span in dim])
    rows = ranks_of("m", [span for dim in outer[batch:] for span in dim])
    ranks = shared | rows | ranks_of("k", inner) | _fixed_ranks(view)
    sizes = {rank: span.size for span, rank in ranks.items()}
    dims = [[ranks[span] for span in dim] for dim in outer]
    by_dim = [*dims[:batch], [ranks[span] for span in inner]]
    other, columns = _second(building, name, second, by_dim, sizes, alone=not any(dims))
    use = building.read_linked(source, ranks, use_of)
    made, out = building.output(name, [*dims, columns], sizes)
    building.add(PendingOperator(name, sizes, (use, other), out))
    return made if len(second.shape) > 1 else SlotView(made.root, made.dims[:-1], made.dims[-1])


def _second(
    building: WorkloadBuilder,
    name: str,
    second: Factor,
    dims: Sequence[Sequence[str]],
    sizes: dict[str, int],
    *,
    alone: bool,
) -> tuple[SlotUse, list[str]]:
    """Return how the second factor is read, and the ranks of its columns; adds their sizes.

    ``dims``: ranks of the dimensions before the columns; ``alone``: nothing else is made.
    """
    source, shape_given = second.given
    shape, view = second.shape, building.view(source)
    count = shape[-1] if len(shape) > 1 else 1
    if view is not None and view.shape == shape_given and len(shape) > 1 and not view.fixed:
        if second.turned:
            view = view.transpose(
                (*range(len(shape_given) - 2), len(shape_given) - 1, len(shape_given) - 2)
            )
        before = len(shape) - 1 - len(dims)
        known = view.dims[before:-1]
        columns = ranks_of("n", view.dims[-1])
        fits = [sizes_of(dim) for dim in known] == [[sizes[r] for r in wanted] for wanted in dims]
        if fits and (columns or not alone) and not any(view.dims[:before]):
            sizes |= {rank: span.size for span, rank in columns.items()}
            ranks = dict(zip(chain(*known), chain(*dims), strict=True)) | columns
            return building.read_linked(source, ranks, view), [*columns.values()]
    columns_own = ["n"] if count > 1 or alone else []
    sizes |= dict.fromkeys(columns_own, count)
    last = [[*dims[-1]], columns_own] if len(shape) > 1 or alone else [[*dims[-1]]]
    if second.turned:
        last.reverse()
    lead: list[list[str]] = [[] for _ in shape[: len(shape) - len(dims) - 1]]
    lead += [[*lead_dim] for lead_dim in dims[:-1]]
    use = building.factor(second.name or f"{name}.W", source, [*lead, *last], sizes, second.kind)
    return use, columns_own


def _add_batched_product(
    building: WorkloadBuilder, name: str, first: Given, second: Factor
) -> SlotView:
    """Add a product whose factors have batches that are repeated for each other."""
    lead = _LETTERS[: max(len(first[1]), len(second.shape)) - 2]
    left, right = ("mk" if len(first[1]) > 1 else "k"), ("kn" if len(second.shape) > 1 else "k")
    letters = [
        lead[len(lead) - len(shape) + len(own) :] + own
        for shape, own in ((first[1], left), (second.shape, right))
    ]
    made = left[:-1] + right[1:]
    return contraction(
        building, name, [(first, letters[0]), (second.given, letters[1])], lead + made
    )


def attention(
    building: WorkloadBuilder,
    names: tuple[str, str, str],
    operands: tuple[Given, Given, Given],
    visible: VisibleSpan | None = None,
) -> SlotView:
    """Add L, softmax and A of Q [..., m, k], K [..., k, c] and V [..., c, d].

    ``visible``: the keys that a row of m sees, if not all.
    """
    logit, softmax, attend = names
    query, key, value = operands
    source, view = _query(building, f"{logit}.Q", query)
    shared = ranks_of("b", [span for dim in view.dims[:-2] for span in dim])
    ranks = shared | {view.dims[-2][0]: "m", view.dims[-1][0]: "k"} | _fixed_ranks(view)
    sizes = {rank: span.size for span, rank in ranks.items()}
    sizes |= {"c": key[1][-1], "d": value[1][-1]}
    heads, alone = list(shared.values()), list(_fixed_ranks(view).values())
    lead = [[ranks[span] for span in dim] for dim in view.dims[:-2]]
    keys = building.factor(f"{logit}.K", key[0], [*lead, ["k"], ["c"]], sizes, "input")
    values = building.factor(f"{attend}.V", value[0], [*lead, ["c"], ["d"]], sizes, "input")
    use = building.read_linked(source, ranks, view)

    scores, weights = (
        building.read_own(own, [*heads, "m", "c"], sizes, "intermediate")
        for own in (f"{logit}.S", f"{softmax}.P")
    )
    picked = {rank: sizes[rank] for rank in (*heads, "m", "c")}
    seen = None if visible is None else replace(visible, row="m")
    first = {rank: sizes[rank] for rank in (*heads, *alone, "m", "k", "c")}
    building.add(PendingOperator(logit, first, (use, keys), scores))
    building.add(PendingOperator(softmax, picked, (scores,), weights, "softmax", "c", seen))
    made, out = building.output(attend, [*lead, ["m"], ["d"]], sizes)
    building.add(PendingOperator(attend, {**picked, "d": sizes["d"]}, (weights, values), out))
    return made


def _query(building: WorkloadBuilder, name: str, operand: Given) -> tuple[Source, SlotView]:
    source, shape = operand
    view = building.view(source)
    if view is not None and view.shape == shape and len(view.dims[-2]) == len(view.dims[-1]) == 1:
        return source, view
    last = len(shape) - 2, len(shape) - 1
    root = building.add_copy(name, source, "input")
    fresh_view = fresh(root, shape, last, building.splits)
    building.set_first_view(source, fresh_view)
    return source, fresh_view
