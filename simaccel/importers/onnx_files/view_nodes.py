"""Nodes that only move or convert elements: their outputs are views of other tensors, if possible.

Quantised tensors are read as they are stored: scale and zero point are applied as elements enter an
operator. An output that only a quantisation reads is rounded as it leaves its operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files.places import NodePlace
from simaccel.importers.onnx_files.views import REPEATED, SlotSpan, SlotView


def set_views(place: NodePlace) -> bool:
    """Set a node's outputs to views of its inputs; return False if they must be stored instead.

    Inputs that are views themselves are then stored in DRAM. True if no input is a view.
    """
    builder, node = place.builder, place.node
    if node.op_type in (*_VIEWS, "Split") or len({*node.input}) == 1:
        builder.view_external(node.input[0], f"{place.name}.I")
    if not any(name in builder.views for name in node.input):
        return True
    views = _output_views(place) if node.output[0] in place.network.shapes else []
    for number, view in enumerate(views):
        place.set_output(view, number)
        builder.derived.update(node.output[number : number + 1])
    if not views or None in views:
        for name in node.input:
            builder.store_in_dram(name)
        return False
    builder.read_tensors.update(node.input)
    return True


def _output_views(place: NodePlace) -> list[SlotView | None]:
    """Return the view that each output is, None if it is none; no entries if the node has none."""
    kind, view = place.node.op_type, place.builder.views.get(place.node.input[0])
    if kind == "Concat":
        return [_join_parts(place)]
    if view is None or kind not in _VIEWS:
        return _split(place, view) if view is not None and kind == "Split" else []
    return [_VIEWS[kind](place, view)]


def _reshape_view(place: NodePlace, view: SlotView) -> SlotView | None:
    return view if view.shape == place.out_shape else view.reshape(place.out_shape)


def _tile_node(place: NodePlace, view: SlotView) -> SlotView | None:
    """Return the view of a Tile node: each repeated dimension gets an outer span of repetitions."""
    dims = [
        tuple(part for part in (SlotSpan(REPEATED, 0, size // had),) if part.size > 1) + dim
        for dim, had, size in zip(view.dims, view.shape, place.out_shape, strict=True)
    ]
    return SlotView(view.root, tuple(dims), view.fixed)


def _join_parts(place: NodePlace) -> SlotView | None:
    """Return the view of a concatenation; None if a part also has other readers."""
    names = list(place.node.input)
    if len(names) == 1:
        return place.builder.views[names[0]]
    if len({*names}) == 1:
        return _tile_node(place, place.builder.views[names[0]])
    if any(place.network.readers(name) != 1 for name in names):
        return None
    axis = int(place.attribute("axis", 0)) % len(place.out_shape)
    return place.builder.join(f"{place.name}.O", names, axis)


def _numbers(place: NodePlace, number: int, attribute: str) -> list[int] | None:
    """Return the integers of an input, or of an attribute of older opsets; None: unknown."""
    if number < len(place.node.input) and place.node.input[number]:
        known = place.network.values.get(place.node.input[number])
        return None if known is None else [int(one) for one in known.reshape(-1)]
    found = place.attribute(attribute)
    return None if found is None else [int(one) for one in found]


def _slice_node(place: NodePlace, view: SlotView) -> SlotView | None:
    starts, ends = _numbers(place, 1, "starts"), _numbers(place, 2, "ends")
    if starts is None or ends is None:
        return None
    axes = _numbers(place, 3, "axes") or list(range(len(starts)))
    steps = _numbers(place, 4, "steps") or [1] * len(starts)
    sliced: SlotView | None = view
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if sliced is None or step != 1:
            return None
        dim = axis % len(view.dims)
        first, last, _ = slice(start, end).indices(sliced.shape[dim])
        sliced = sliced.slice_dim(dim, first, last - first)
    return sliced


def _split(place: NodePlace, view: SlotView) -> list[SlotView | None]:
    axis = int(place.attribute("axis", 0)) % len(view.dims)
    found, at = list[SlotView | None](), 0
    for name in place.node.output:
        size = place.network.shapes[name][axis]
        found.append(view.slice_dim(axis, at, size))
        at += size
    return found


def _pick_position(place: NodePlace, view: SlotView) -> SlotView | None:
    """Return the view of a Gather with constant, consecutive indices, each repeated alike."""
    known = _numbers(place, 1, "indices")
    axis = int(place.attribute("axis", 0)) % len(view.dims)
    if not known:
        return None
    had = view.shape[axis]
    first, size = known[0] % had, len({*known})
    each = len(known) // size
    part = view.slice_dim(axis, first, size)
    rows = [at % had - first for at in known]
    if part is None or rows != [at // each for at in range(len(known))] or first + size > had:
        return None
    if each > 1:
        wide = (*part.dims[axis], SlotSpan(REPEATED, 0, each))
        part = replace(part, dims=(*part.dims[:axis], wide, *part.dims[axis + 1 :]))
    return part if part.shape == place.out_shape else part.reshape(place.out_shape)


_VIEWS: Final[Mapping[str, Callable[[NodePlace, SlotView], SlotView | None]]] = {
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshape_view),
    **dict.fromkeys(("Cast", "CastLike", "Identity", "Dropout"), _reshape_view),
    "Expand": lambda place, view: view.expand(place.out_shape),
    "Tile": _tile_node,
    "Transpose": lambda place, view: view.transpose(
        place.attribute("perm") or range(len(view.dims))[::-1]
    ),
    "Slice": _slice_node,
    "Gather": _pick_position,
}
"""Node type with one output -> the function that returns its view of the first input."""


def dequantise(place: NodePlace) -> AccountEntry:
    """Read a quantised tensor as it is stored; an output of the graph takes a vector operator."""
    name = place.node.input[0]
    if place.node.output[0] in place.network.outputs:
        return _add_pass(place)
    view = place.builder.view_external(name, f"{place.name}.I")
    if view is None:
        return _add_pass(place)
    _share_view(place)
    return place.pass_node("harmless", "read as it is stored; its factor is applied on the way")


def quantise(place: NodePlace) -> AccountEntry:
    """Store an operator's output quantised; if others read it too, that takes a vector operator."""
    if not place.is_only_reader(0):
        return _add_pass(place)
    _store_narrower(place)
    return place.pass_node("harmless", "rounded as it is stored")


def cast(place: NodePlace) -> AccountEntry:
    """Store an operator's output in another number format, or read a tensor as it is stored."""
    if place.is_only_reader(0):
        _store_narrower(place)
        return place.pass_node("harmless", "rounded as it is stored")
    return place.pass_node(
        "harmless", "addresses" if set_views(place) else "addresses what is stored"
    )


def _store_narrower(place: NodePlace) -> None:
    root = place.builder.views[place.node.input[0]].root
    root.bits = place.builder.made_bits
    _share_view(place)


def _share_view(place: NodePlace) -> None:
    given, made = place.node.input[0], place.node.output[0]
    place.builder.views[made] = place.builder.views[given]
    place.builder.read_tensors.add(given)
    if given in place.builder.derived:
        place.builder.derived.add(made)


def _add_pass(place: NodePlace) -> AccountEntry:
    given = [place.shaped_input(0)]
    place.set_output(place.builder.vector(place.name, "scale", place.out_shape, given))
    return place.take_node("scale")
