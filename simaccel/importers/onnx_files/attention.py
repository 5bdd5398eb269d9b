"""Attention nodes as L, softmax and A, with heads that may share keys and values.

These are ONNX's own Attention (opset 23), and from ONNX Runtime's domain MultiHeadAttention,
GroupQueryAttention, and Attention (or QAttention, quantised), whose weights project one input to
queries, keys and values.

A causal mask is cut into blocks of rows, as in a transformer of `workload.language`: what lies
above the diagonal blocks is neither computed nor moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files import layers
from simaccel.importers.onnx_files.builder import NodeInput
from simaccel.importers.onnx_files.constants import Shape
from simaccel.importers.onnx_files.layers import Factor
from simaccel.importers.onnx_files.places import NodePlace
from simaccel.importers.onnx_files.views import REPEATED, SlotSpan, SlotView, fresh, sizes_of
from simaccel.workload.einsum import Kind
from simaccel.workload.language.phase import PhaseTokens, RowBlock

_FLAT: Final = 3
"""Dimensions of [batch, tokens, heads x size]; others are [batch, heads, tokens, size]."""
_MASK: Final = "a mask or bias of the scores: not read"
_ANGLES: Final = "angles of rotary embeddings: not read"
_BIAS: Final = "a bias of queries, keys and values: not read"


@dataclass(frozen=True)
class _AttentionInputs:
    """Queries, keys and values of a node, and their sizes.

    ``operands``: queries, keys and values, each [batch, tokens, heads x size] or [batch, heads,
    tokens, size]. ``kv_heads``: heads of keys and values, each shared by as many query heads.
    ``kv_tokens``: tokens of keys and of values, those in the cache included. ``is_rotated``:
    whether rotary embeddings are applied to queries and keys first. ``unread``: reason by input
    that is not read.
    ``causal``: the first row attends to its own key and those before it, each later row to one
    more; with a ``window``, only to the last ``window`` of them.
    """

    operands: tuple[NodeInput, NodeInput, NodeInput]
    heads: int
    kv_heads: int
    kv_tokens: tuple[int, int]
    is_rotated: bool = False
    unread: Mapping[int, str] = field(default_factory=dict)
    causal: bool = False
    window: int | None = None

    def row_blocks(self, rows: int) -> Iterator[RowBlock]:
        """Yield blocks of rows with the keys that they attend to."""
        keys = self.kv_tokens[0]
        if not self.causal or rows == 1:
            yield RowBlock(first=0, rows=rows, first_key=0, keys=keys)
            return
        _, shape = self.operands[1]
        before = keys - (shape[1] if len(shape) == _FLAT else shape[2])
        tokens = PhaseTokens(batch=1, rows=rows, past=before)
        for block in tokens.row_blocks(self.window):
            first = tokens.first_key(self.window) + block.first_key
            yield replace(block, first_key=first, keys=min(block.keys, keys - first))


def attention_node(place: NodePlace) -> AccountEntry:
    """Map an attention: rotary embeddings that are part of it, then L, softmax and A."""
    inputs = _READ[place.node.domain, place.node.op_type](place)
    heads, kv_heads = inputs.heads, inputs.kv_heads
    if not heads or not kv_heads or heads % kv_heads:
        return place.pass_node("not taken", f"{heads} heads that share {kv_heads}", None)
    group = heads // kv_heads
    query, key, value = inputs.operands
    key_tokens, value_tokens = inputs.kv_tokens
    queries = _heads(place, "Q", query, (kv_heads, group) if group > 1 else (heads,))
    if inputs.is_rotated:
        queries = _rotate_heads(place, "Q", queries)
        fresh_keys = _rotate_heads(place, "K", _heads(place, "new", key, (kv_heads,)))
        key = fresh_keys, fresh_keys.shape
    keys = _heads(place, "K", key, (kv_heads,), key_tokens)
    values = _heads(place, "V", value, (kv_heads,), value_tokens)
    for number, view in enumerate((keys, values), 1):
        place.set_output(view, number)
    blocks = list(inputs.row_blocks(queries.shape[2]))
    made = _attend(place, queries, _repeat_heads(keys, group), _repeat_heads(values, group), blocks)
    flat = len(place.out_shape) == _FLAT
    place.set_output(
        made.transpose((0, 2, 1, 3)).reshape(place.out_shape) if made and flat else made
    )
    for number, why in inputs.unread.items():
        place.report_input(number, why)
    become = "L, softmax and A of an attention"
    if len(blocks) > 1:
        become += f" in {len(blocks)} blocks of rows, each with the keys that it sees"
    return place.take_node(become)


def _attend(
    place: NodePlace,
    queries: SlotView,
    keys: SlotView,
    values: SlotView,
    blocks: Sequence[RowBlock],
) -> SlotView | None:
    """Add L, softmax and A of each block of rows; return all rows of the output of A."""
    made: list[SlotView] = []
    for number, block in enumerate(blocks):
        parts = (
            queries.slice_dim(2, block.first, block.rows),
            keys.slice_dim(2, block.first_key, block.keys),
            values.slice_dim(2, block.first_key, block.keys),
        )
        query, key, value = (view for view in parts if view is not None)
        label = f".{number}" if len(blocks) > 1 else ""
        key = key.transpose((0, 1, 3, 2))
        operands = (query, query.shape), (key, key.shape), (value, value.shape)
        names = (f"{place.name}.L{label}", f"{place.name}.softmax{label}", f"{place.name}.A{label}")
        made.append(layers.add_attention(place.builder, names, operands, block.visible))
    return made[0] if len(made) == 1 else place.builder.join(f"{place.name}.A.O", made, 2)


# -- inputs of each kind of node


def _onnx(place: NodePlace) -> _AttentionInputs:
    """Read ONNX's own node."""
    heads, kv_heads = (int(place.attribute(f"{kind}_num_heads", 0)) for kind in ("q", "kv"))
    if len(place.shape(0)) > _FLAT:
        heads, kv_heads = place.shape(0)[1], place.shape(1)[1]
    operands = place.shaped_input(0), place.shaped_input(1), place.shaped_input(2)
    tokens = _count_tokens(place, operands[1], 4), _count_tokens(place, operands[2], 5)
    causal = bool(place.attribute("is_causal", 0))
    return _AttentionInputs(operands, heads, kv_heads, tokens, unread={3: _MASK}, causal=causal)


def _multi_head(place: NodePlace) -> _AttentionInputs:
    """Read a MultiHeadAttention, whose inputs may be packed: [batch, tokens, heads, 2 or 3, size].

    Keys and values of an earlier attention are [batch, heads, tokens, size].
    """
    heads, inputs = int(place.attribute("num_heads", 0)), place.node.input
    names = [name for name in inputs[:3] if name]
    packed = place.shape(len(names) - 1)
    operands: list[NodeInput] = [(name, place.network.shapes[name]) for name in names]
    if len(names) < 3:  # noqa: PLR2004 - some of queries, keys and values are packed
        part = (*packed[:2], heads * packed[-1])
        operands = [*operands[:-1], *[(names[-1], part)] * (4 - len(names))]
    query, key, value = operands
    tokens = _count_tokens(place, key, 6), _count_tokens(place, value, 7)
    unread = {3: _BIAS, 4: _MASK, 5: _MASK}
    causal = bool(place.attribute("unidirectional", 0))
    return _AttentionInputs((query, key, value), heads, heads, tokens, unread=unread, causal=causal)


def _group_query(place: NodePlace) -> _AttentionInputs:
    """Read a GroupQueryAttention, which is causal; a window limits the keys of a token."""
    heads, kv_heads = (int(place.attribute(name, 0)) for name in ("num_heads", "kv_num_heads"))
    name, shape = place.shaped_input(0)
    if not place.node.input[1]:  # queries, keys and values are packed
        size = shape[-1] // max(1, heads + 2 * kv_heads)
        query, key = ((name, (*shape[:2], count * size)) for count in (heads, kv_heads))
        operands: tuple[NodeInput, NodeInput, NodeInput] = query, key, key
    else:
        operands = (name, shape), place.shaped_input(1), place.shaped_input(2)
    tokens = _count_tokens(place, operands[1], 3)
    window = int(place.attribute("local_window_size", -1))
    if window > 0 and shape[1] == 1:
        tokens = min(tokens, window)
    unread = {7: _ANGLES, 8: _ANGLES, 10: _MASK}
    is_rotated = bool(place.attribute("do_rotary", 0))
    limit = window if window > 0 else None
    return _AttentionInputs(
        operands, heads, kv_heads, (tokens, tokens), is_rotated, unread, causal=True, window=limit
    )


def _read_projections(place: NodePlace) -> _AttentionInputs:
    """Read ONNX Runtime's Attention, with its projection to queries, keys and values."""
    heads, (batch, tokens, _) = int(place.attribute("num_heads", 0)), place.shape(0)
    sizes = place.attribute("qkv_hidden_sizes") or [place.shape(1)[1] // 3] * 3
    factor = Factor(place.shaped_input(1), place.builder.kind_of(place.node.input[1]))
    made = layers.add_product(place.builder, f"{place.name}.QKV", place.shaped_input(0), factor)
    query, key, value = ((made, (batch, tokens, int(size))) for size in sizes)
    quantised = place.node.op_type == "QAttention"  # scales stand behind the bias
    past = place.network.shapes.get(place.input_name(8 if quantised else 4))
    kv_tokens = tokens + (past[3] if past else 0)
    is_rotated = bool(place.attribute("do_rotary", 0))
    unread = {5: _MASK} if quantised else {3: _MASK, 5: _MASK}
    causal, operands = bool(place.attribute("unidirectional", 0)), (query, key, value)
    return _AttentionInputs(
        operands, heads, heads, (kv_tokens, kv_tokens), is_rotated, unread, causal
    )


def _count_tokens(place: NodePlace, operand: NodeInput, past: int) -> int:
    """Return the tokens of keys or values: the new ones, and those of the cache, input ``past``.

    If the cache has room for all tokens (an output has the same size), the new ones are in it.
    """
    shapes, shape = place.network.shapes, operand[1]
    new = shape[1] if len(shape) == _FLAT else shape[2]
    before = shapes.get(place.input_name(past))
    if not before:
        return new
    outputs = [shapes[name] for name in place.node.output[1:3] if name in shapes]
    return before[2] if before in outputs and before[2] >= new else before[2] + new


_READ: Final[Mapping[tuple[str, str], Callable[[NodePlace], _AttentionInputs]]] = {
    ("", "Attention"): _onnx,
    ("com.microsoft", "MultiHeadAttention"): _multi_head,
    ("com.microsoft", "GroupQueryAttention"): _group_query,
    ("com.microsoft", "Attention"): _read_projections,
    ("com.microsoft", "QAttention"): _read_projections,
}


# -- heads


def _heads(
    place: NodePlace, letter: str, operand: NodeInput, heads: tuple[int, ...], kv_tokens: int = 0
) -> SlotView:
    """Return an operand as [batch, heads, tokens, size].

    ``kv_tokens``: tokens of keys or values with those of the cache; 0: the operand's own.
    """
    (source, shape), builder = operand, place.builder
    flat, count = len(shape) == _FLAT, math.prod(heads)
    order = (0, 2, 1, 3) if flat else (0, 1, 2, 3)
    tokens = shape[1] if flat else shape[2]
    is_cached = bool(kv_tokens) and kv_tokens != tokens
    view = None if is_cached else builder.view(source)
    if view is not None and view.shape != shape:
        view = None
    if view is not None and flat:
        view = view.reshape((*shape[:2], count, shape[2] // count))
    if view is not None:
        as_heads = view.transpose(order)
        single = len(as_heads.dims[2]) == len(as_heads.dims[3]) == 1
        if single and tuple(sizes_of(as_heads.dims[1])) == heads:
            return as_heads
    wide: Shape = (
        (shape[0], kv_tokens or tokens, *heads, shape[2] // count)
        if flat
        else (shape[0], *heads, kv_tokens or tokens, shape[3])
    )
    kind: Kind | None = "cache" if is_cached else None
    root = builder.add_copy(f"{place.name}.{letter}", source, kind)
    dims, first = fresh(root, wide, range(len(wide))).dims, 2 if flat else 1
    merged = tuple(span for dim in dims[first : first + len(heads)] for span in dim)
    merged_view = SlotView(root, (*dims[:first], merged, *dims[first + len(heads) :]))
    if not is_cached:
        whole = (
            (*merged_view.dims[:2], (*merged, *merged_view.dims[3])) if flat else merged_view.dims
        )
        builder.set_first_view(source, SlotView(root, whole))
    return merged_view.transpose(order)


def _rotate_heads(place: NodePlace, letter: str, view: SlotView) -> SlotView:
    """Return heads after rotary embedding: one pass over them."""
    name = f"{place.name}.rotary.{letter}"
    return place.builder.vector(name, "scale", view.shape, [(view, view.shape)])


def _repeat_heads(view: SlotView, group: int) -> SlotView:
    """Return keys or values, each used by a group of query heads."""
    if group == 1:
        return view
    shared = (*view.dims[1], SlotSpan(REPEATED, 0, group))
    return SlotView(view.root, (view.dims[0], shared, *view.dims[2:]), view.fixed)
