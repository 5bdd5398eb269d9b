"""Convolutions, poolings, matrix products and attentions over views."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from simaccel.workload.einsum import Kind
from simaccel.workload.onnx_files.building import (
    Building,
    Given,
    Pending,
    Source,
    Window,
    ranks_of,
    sizes_of,
)
from simaccel.workload.onnx_files.views import Shape, Span, Terms, Use, View, fresh

_ROWS: Final = (("p", "r"), ("q", "s"))
"""Ranks of positions and of the filter, for rows and columns."""


@dataclass(frozen=True)
class Filters:
    """A convolution's groups, and the output and input channels of each."""

    groups: int
    outputs: int
    inputs: int


def pooling(
    building: Building, name: str, kind: str, given: Given, windows: Sequence[Window]
) -> View:
    """Add a pooling whose windows go over all dimensions behind samples and channels."""
    source, view = _image(building, name, given, windows)
    ranks = ranks_of("n", view.dims[0]) | ranks_of("g", view.dims[1]) | _fixed(view)
    use, sizes = _reading(building, source, view, ranks, windows)
    places = [[one for one in [p] if one in sizes] for p, _ in _ROWS[-len(windows) :]]
    dims = [[ranks[s] for s in dim] for dim in view.dims[:2]]
    fixed = [ranks[s] for s in view.fixed]
    if not any((*dims, *places, fixed)):
        fixed = [next(iter(sizes))]
    made, out = building.output(name, [*dims, *places, fixed], sizes)
    building.pending.append(Pending(name, sizes, (use,), out, kind))
    return View(made.root, made.dims[:-1], made.dims[-1])


def conv(
    building: Building, name: str, given: Given, filters: Filters, windows: Sequence[Window]
) -> View:
    """Add a convolution; what has several groups reads its channels as groups and their own."""
    source, view = _image(building, name, given, windows)
    mixed = filters.groups > 1 and filters.inputs > 1
    if mixed and sizes_of(view.dims[1]) != [filters.groups, filters.inputs]:
        building.part(source)
        lengths = tuple(one.length for one in windows)
        shape = (given[1][0], filters.groups, filters.inputs, *lengths)
        own = fresh(building.root(f"{name}.I", "input"), shape)
        dims = (own.dims[0], own.dims[1] + own.dims[2], *own.dims[3:])
        source, view = None, View(own.root, dims)
    letter = "c" if filters.groups == 1 else "g"
    channels = ranks_of(letter, view.dims[1])
    if mixed:
        channels = dict(zip(view.dims[1], "gc", strict=True))
    ranks = ranks_of("n", view.dims[0]) | channels | _fixed(view)
    use, sizes = _reading(building, source, view, ranks, windows)
    groups = [one for one in channels.values() if one.startswith("g")]
    inner = [one for one in channels.values() if one.startswith("c")]
    outer = groups
    if filters.outputs > 1 or not groups:
        sizes["m"] = filters.outputs
        outer = [*groups, "m"]
    reach = [one for one in "rs" if one in sizes]
    weights = building.own(f"{name}.W", [*outer, *inner, *reach], sizes, "weight")
    places = [[one for one in [p] if one in sizes] for p, _ in _ROWS[-len(windows) :]]
    made, out = building.output(name, [[ranks[s] for s in view.dims[0]], outer, *places], sizes)
    building.pending.append(Pending(name, sizes, (use, weights), out))
    return made


def _fixed(view: View) -> dict[Span, str]:
    return {span: f"z{at}" for at, span in enumerate(view.fixed)}


def _image(
    building: Building, name: str, given: Given, windows: Sequence[Window]
) -> tuple[Source, View]:
    """Return what windows go over, if it can be read so, or a tensor of the reader's own."""
    source, shape = given
    view = building.view(source)
    if view is not None and view.shape == shape:
        pairs = zip(view.dims[2:], windows, strict=True)
        if all(_fits(view, dim, window) for dim, window in pairs):
            return source, view
    building.part(source)
    lengths = tuple(one.length for one in windows)
    own = fresh(building.root(f"{name}.I", "input"), (*shape[:2], *lengths))
    return None, own


def _fits(view: View, dim: Sequence[Span], window: Window) -> bool:
    """Return whether a window can go over a dimension: zeros may only stand around a whole slot."""
    if not dim:
        return window.length == 1 and not window.before
    if len(dim) > 1:
        return False
    inside = not window.before and window.length <= dim[0].size
    return inside or view.is_whole(dim[0])


def _reading(
    building: Building,
    source: Source,
    view: View,
    ranks: Mapping[Span, str],
    windows: Sequence[Window],
) -> tuple[Use, dict[str, int]]:
    """Return how windows go over a view, and the sizes of all ranks of that."""
    sizes = {rank: span.size for span, rank in ranks.items()}
    slots: dict[int, tuple[Terms, int]] = {
        span.slot: (((rank, 1),), span.start) for span, rank in ranks.items()
    }
    for dim, window, (place, offset) in zip(
        view.dims[2:], windows, _ROWS[-len(windows) :], strict=True
    ):
        terms = [(place, window.stride)] if window.made > 1 else []
        terms += [(offset, window.dilation)] if window.reach > 1 else []
        if not dim:
            continue
        terms = terms or [(offset, 1)]
        known = {place: window.made, offset: window.reach}
        sizes |= {rank: known[rank] for rank, _ in terms}
        before = window.before if source is not None else 0
        slots[dim[0].slot] = tuple(terms), dim[0].start - before
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
    building: Building, name: str, first: Given, second: Factor, *, turned: bool = False
) -> View:
    """Add numpy's matmul of two tensors; a second one without a batch sees all rows as one.

    ``turned``: the first factor is [k, m].
    """
    batch = len(second.shape) - 2 if any(one > 1 for one in second.shape[:-2]) else 0
    if batch and first[1][:-2] != second.shape[:-2]:
        return _apart(building, name, first, second)
    source, view = building.whole(name, first)
    use_of = view
    view = view.transposed((1, 0)) if turned else view
    outer, inner = view.dims[:-1], view.dims[-1]
    shared = ranks_of("b", [span for dim in outer[:batch] for span in dim])
    rows = ranks_of("m", [span for dim in outer[batch:] for span in dim])
    ranks = shared | rows | ranks_of("k", inner) | _fixed(view)
    sizes = {rank: span.size for span, rank in ranks.items()}
    dims = [[ranks[span] for span in dim] for dim in outer]
    by_dim = [*dims[:batch], [ranks[span] for span in inner]]
    other, columns = _second(building, name, second, by_dim, sizes, alone=not any(dims))
    use = building.linked(source, ranks, use_of)
    made, out = building.output(name, [*dims, columns], sizes)
    building.pending.append(Pending(name, sizes, (use, other), out))
    return made if len(second.shape) > 1 else View(made.root, made.dims[:-1], made.dims[-1])


def _second(
    building: Building,
    name: str,
    second: Factor,
    dims: Sequence[Sequence[str]],
    sizes: dict[str, int],
    *,
    alone: bool,
) -> tuple[Use, list[str]]:
    """Return how the second factor is read, and the ranks of its columns; adds their sizes.

    ``dims``: ranks of the dimensions before the columns; ``alone``: nothing else is made.
    """
    source, given = second.given
    shape, view = second.shape, building.view(source)
    count = shape[-1] if len(shape) > 1 else 1
    if view is not None and view.shape == given and len(shape) > 1 and not view.fixed:
        if second.turned:
            view = view.transposed((*range(len(given) - 2), len(given) - 1, len(given) - 2))
        known = view.dims[len(shape) - 1 - len(dims) : -1]
        columns = ranks_of("n", view.dims[-1])
        fits = [sizes_of(dim) for dim in known] == [[sizes[r] for r in one] for one in dims]
        if fits and (columns or not alone):
            sizes |= {rank: span.size for span, rank in columns.items()}
            ranks = dict(zip(chain(*known), chain(*dims), strict=True)) | columns
            return building.linked(source, ranks, view), [*columns.values()]
    building.part(source)
    columns_own = ["n"] if count > 1 or alone else []
    sizes |= dict.fromkeys(columns_own, count)
    inner = list(chain(*dims))
    order = [*columns_own, *inner] if second.turned else [*inner, *columns_own]
    return building.own(second.name or f"{name}.W", order, sizes, second.kind), columns_own


def _apart(building: Building, name: str, first: Given, second: Factor) -> View:
    """Add a product whose factors have different batches, of tensors of its own."""
    for source, _ in (first, second.given):
        building.part(source)
    batch = math.prod(_broadcast(first[1][:-2], second.shape[:-2]))
    rows = first[1][-2] if len(first[1]) > 1 else 1
    sizes = {"b": batch, "m": rows, "k": first[1][-1], "n": second.shape[-1]}
    uses = (
        building.own(f"{name}.I", "bmk", sizes, "input"),
        building.own(f"{name}.W", "bkn", sizes, "input"),
    )
    made, out = building.output(name, [["b"], ["m"], ["n"]], sizes)
    building.pending.append(Pending(name, sizes, uses, out))
    return made


def _broadcast(one: Shape, two: Shape) -> Shape:
    length = max(len(one), len(two))
    wide = [(1,) * (length - len(shape)) + shape for shape in (one, two)]
    return tuple(map(max, *wide))


def attention(
    building: Building, names: tuple[str, str, str], given: tuple[Given, Given, Given]
) -> View:
    """Add L, softmax and A of Q [..., m, k], K [..., k, c] and V [..., c, d]."""
    logit, softmax, attend = names
    query, key, value = given
    source, view = _query(building, f"{logit}.Q", query)
    shared = ranks_of("b", [span for dim in view.dims[:-2] for span in dim])
    ranks = shared | {view.dims[-2][0]: "m", view.dims[-1][0]: "k"} | _fixed(view)
    sizes = {rank: span.size for span, rank in ranks.items()}
    sizes |= {"c": key[1][-1], "d": value[1][-1]}
    heads, alone = list(shared.values()), list(_fixed(view).values())
    lead = [[ranks[span] for span in dim] for dim in view.dims[:-2]]
    keys = _factor(building, f"{logit}.K", key, [*lead, ["k"], ["c"]], sizes)
    values = _factor(building, f"{attend}.V", value, [*lead, ["c"], ["d"]], sizes)
    use = building.linked(source, ranks, view)

    scores, weights = (
        building.own(one, [*heads, "m", "c"], sizes, "intermediate")
        for one in (f"{logit}.S", f"{softmax}.P")
    )
    picked = {rank: sizes[rank] for rank in (*heads, "m", "c")}
    first = {rank: sizes[rank] for rank in (*heads, *alone, "m", "k", "c")}
    building.pending.append(Pending(logit, first, (use, keys), scores))
    building.pending.append(Pending(softmax, picked, (scores,), weights, "softmax", "c"))
    made, out = building.output(attend, [*lead, ["m"], ["d"]], sizes)
    building.pending.append(Pending(attend, {**picked, "d": sizes["d"]}, (weights, values), out))
    return made


def _query(building: Building, name: str, given: Given) -> tuple[Source, View]:
    source, shape = given
    view = building.view(source)
    if view is not None and view.shape == shape and len(view.dims[-2]) == len(view.dims[-1]) == 1:
        return source, view
    building.part(source)
    last = len(shape) - 2, len(shape) - 1
    return None, fresh(building.root(name, "input"), shape, last)


def _factor(
    building: Building,
    name: str,
    given: Given,
    dims: Sequence[Sequence[str]],
    sizes: Mapping[str, int],
) -> Use:
    """Return how K or V is read, by the ranks of each of its dimensions."""
    source = given[0]
    view = building.view(source)
    wanted = [[sizes[rank] for rank in one] for one in dims]
    if view is not None and not view.fixed and [sizes_of(dim) for dim in view.dims] == wanted:
        pairs = zip(chain(*view.dims), chain(*dims), strict=True)
        return building.linked(source, dict(pairs), view)
    building.part(source)
    return building.own(name, list(chain(*dims)), sizes, "input")
