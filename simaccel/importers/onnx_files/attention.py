"""The node Attention: L, softmax and A, of heads that may share keys and values."""

from __future__ import annotations

import math

from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files.building import Given
from simaccel.importers.onnx_files.layers import attention
from simaccel.importers.onnx_files.places import NodePlace
from simaccel.importers.onnx_files.views import REPEATED, SlotSpan, SlotView, fresh
from simaccel.workload.einsum import Kind

_MASK = 3
"""Where what is added to the scores stands."""
_PAST = (4, 5)
"""Where keys and values of tokens before stand."""
_FLAT = 3
"""Dimensions of [batch, tokens, heads x size]; others are [batch, heads, tokens, size]."""


def attention_node(place: NodePlace) -> AccountEntry:
    """Map an attention of ONNX; a causal mask leaves nothing out, as no dense product does."""
    node, shapes = place.node, place.network.shapes
    heads, shared = (place.attribute(f"{kind}_num_heads", 0) for kind in ("q", "kv"))
    if len(place.shape(0)) > _FLAT:
        heads, shared = place.shape(0)[1], place.shape(1)[1]
    if not heads or not shared or heads % shared:
        return place.other("not taken", f"{heads} heads that share {shared}", None)
    past = [node.input[at] if at < len(node.input) else "" for at in _PAST]
    lengths = [shapes[name][2] if name in shapes else 0 for name in past]
    group = heads // shared
    asked = _heads(place, 0, (shared, group) if group > 1 else (heads,), 0)
    keys = _repeated(_heads(place, 1, (shared,), lengths[0]), group)
    values = _repeated(_heads(place, 2, (shared,), lengths[1]), group)
    turned = keys.transposed((0, 1, 3, 2))
    names = (f"{place.name}.L", f"{place.name}.softmax", f"{place.name}.A")
    operands: tuple[Given, Given, Given] = (
        (asked, asked.shape),
        (turned, turned.shape),
        (values, values.shape),
    )
    made = attention(place.building, names, operands)
    flat = len(place.made) == _FLAT
    place.makes(made.transposed((0, 2, 1, 3)).reshaped(place.made) if flat else made)
    batch, _, rows, size = asked.shape
    macs = batch * heads * rows * keys.shape[2] * (size + values.shape[3])
    place.leaves(_MASK, "a mask or bias of the scores: not read")
    return place.taken("L, softmax and A of an attention", macs)


def _heads(place: NodePlace, number: int, heads: tuple[int, ...], past: int) -> SlotView:
    """Return an input as [batch, heads, tokens, size], with tokens of before in front."""
    name, shape, building = place.node.input[number], place.shape(number), place.building
    flat, count = len(shape) == _FLAT, math.prod(heads)
    order = (0, 2, 1, 3) if flat else (0, 1, 2, 3)
    view = None if past else building.view(name)
    if view is not None and flat:
        view = view.reshaped((*shape[:2], count, shape[2] // count))
    if view is not None:
        seen = view.transposed(order)
        single = len(seen.dims[2]) == len(seen.dims[3]) == 1
        if single and tuple(span.size for span in seen.dims[1]) == heads:
            return seen
    building.part(name)
    wide = (
        (shape[0], shape[1] + past, *heads, shape[2] // count)
        if flat
        else (shape[0], *heads, shape[2] + past, shape[3])
    )
    kind: Kind = "cache" if past else "input"
    root = building.root(f"{place.name}.{'QKV'[number]}", kind, bits=building.bits_of(name))
    dims, first = fresh(root, wide, range(len(wide))).dims, 2 if flat else 1
    merged = tuple(span for dim in dims[first : first + len(heads)] for span in dim)
    merged_view = SlotView(root, (*dims[:first], merged, *dims[first + len(heads) :]))
    if not past:
        whole = (
            (*merged_view.dims[:2], (*merged, *merged_view.dims[3])) if flat else merged_view.dims
        )
        building.claim(name, SlotView(root, whole))
    return merged_view.transposed(order)


def _repeated(view: SlotView, group: int) -> SlotView:
    """Return keys or values for a group of heads each."""
    if group == 1:
        return view
    shared = (*view.dims[1], SlotSpan(REPEATED, 0, group))
    return SlotView(view.root, (view.dims[0], shared, *view.dims[2:]), view.fixed)
