"""Nodes that move, convert or look up elements: outputs are views of other tensors, if possible.

Quantised tensors are read as they are stored: scale and zero point are applied as elements enter an
operator. An output that only a quantisation reads is rounded as it leaves its operator. What is
looked up at indices that are known when the model runs is a tensor of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Final

from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files.builder import NodeInput
from simaccel.importers.onnx_files.constants import MOVES, UNMOVED_SCALES, Shape
from simaccel.importers.onnx_files.places import NodePlace
from simaccel.importers.onnx_files.reading import OnnxGraph
from simaccel.importers.onnx_files.vectors import one_pass
from simaccel.importers.onnx_files.views import REPEATED, SlotSpan, SlotView, fresh
from simaccel.numbers import BYTE
from simaccel.workload.names import MAX_BYTES_PER_ELEMENT


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


def move(place: NodePlace) -> AccountEntry:
    """Map a node that only moves elements."""
    return place.pass_node(
        "harmless", "addresses" if set_views(place) else "addresses what is stored"
    )


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
    if any(place.network.reads[name] != 1 for name in names):
        return None
    axis = int(place.attribute("axis", 0)) % len(place.out_shape)
    return place.builder.join(f"{place.name}.O", names, axis)


def _numbers(place: NodePlace, number: int, attribute: str) -> list[int] | None:
    """Return the integers of an input, or of an attribute of older opsets; None: unknown."""
    if name := place.input_name(number):
        known = place.network.values.get(name)
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
    sizes = [place.network.shapes[name][axis] for name in place.node.output]
    ends = zip(accumulate(sizes), sizes, strict=True)
    return [view.slice_dim(axis, end - size, size) for end, size in ends]


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
    is_output = place.node.output[0] in place.network.outputs
    if is_output or place.builder.view_external(name, f"{place.name}.I") is None:
        return one_pass(place)
    _share_view(place)
    return place.pass_node("harmless", "read as it is stored; its factor is applied on the way")


def quantise(place: NodePlace) -> AccountEntry:
    """Store an operator's output quantised; if others read it too, that takes a vector operator."""
    return cast(place) if place.is_only_reader(0) else one_pass(place)


def cast(place: NodePlace) -> AccountEntry:
    """Store an operator's output in another number format, or read a tensor as it is stored."""
    if not place.is_only_reader(0):
        return move(place)
    place.builder.views[place.node.input[0]].root.bits = place.builder.made_bits
    _share_view(place)
    return place.pass_node("harmless", "rounded as it is stored")


def _share_view(place: NodePlace) -> None:
    given, made = place.node.input[0], place.node.output[0]
    place.builder.views[made] = place.builder.views[given]
    place.builder.read_tensors.add(given)
    if given in place.builder.derived:
        place.builder.derived.add(made)


LOOKUPS: Final = ("Gather", "GatherElements", "GatherND")
"""Kinds that only move elements where the indices, their second input, are constants."""
_INDICES: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys((*LOOKUPS, "GatherBlockQuantized"), (1,)),
    "EmbedLayerNormalization": (0, 1, 8),
}
"""Which inputs of nodes are indices."""


def index_names(network: OnnxGraph) -> set[str]:
    """Return the tensors that are indices of lookups, in all forms that they come in."""
    indices = set[str]()
    names = [
        node.input[number]
        for node in network.nodes
        for number in _INDICES.get(node.op_type, ())
        if number < len(node.input)
    ]
    while names:
        name = names.pop()
        maker = network.makers.get(name)
        if name not in indices and maker is not None and maker.op_type in (*MOVES, "Cast"):
            names += maker.input if maker.op_type == "Concat" else maker.input[:1]
        indices.add(name)
    return indices


def gather(place: NodePlace) -> AccountEntry:
    """Map a lookup of rows, of single elements, or of blocks."""
    kind, made = place.node.op_type, place.out_shape
    table, indices = place.shape(0), place.shape(1)
    numbers = 1
    if kind == "Gather":
        axis = int(place.attribute("axis", 0)) % len(table)
        wide = (*(1,) * axis, *indices, *(1,) * (len(made) - axis - len(indices)))
    elif kind == "GatherElements":
        wide = made
    else:
        numbers = indices[-1]
        wide = (*indices[:-1], *(1,) * (len(made) - len(indices) + 1))
    source = place.node.input[0]
    rows = _look_up(place, place.name, (source, made), (place.node.input[1], wide), numbers)
    return place.take_node("lookup", made=rows)


def gather_blocks(place: NodePlace) -> AccountEntry:
    """Map the rows that are looked up in a table of few bits, whose blocks have scales."""
    bits, made = place.attribute("bits", 4), place.out_shape
    root = place.builder.root(f"{place.name}.I", "weight", bits=bits)
    rows = fresh(root, made, range(len(made)))
    indices = place.node.input[1], _lead(place.shape(1), made)
    place.set_output(_look_up(place, place.name, (rows, made), indices))
    for number in (2, 3):
        place.report_input(number, UNMOVED_SCALES)
    return place.take_node("lookup")


def embed(place: NodePlace) -> AccountEntry:
    """Map ONNX Runtime's embedding: rows of words, segments and positions, their sums and a norm.

    Without indices of positions, these are the first ones, the same for all samples.
    """
    made, builder = place.out_shape, place.builder
    summed = _embed_rows(place, (2, 0), "words")
    rows: dict[str, NodeInput] = {}
    if place.input_name(1):
        rows["segments"] = _embed_rows(place, (4, 1), "segments"), made
    if place.input_name(8):
        rows["positions"] = _embed_rows(place, (3, 8), "positions"), made
    else:
        first = (*(1,) * (len(made) - 2), *made[-2:])
        root = builder.add_copy(f"{place.name}.positions", place.node.input[3])
        rows["positions"] = fresh(root, first), first
    for label, row in rows.items():
        name = f"{place.name}.{label}.sum"
        summed = builder.vector(name, "residual", made, [(summed, made), row])
    place.report_input(6, "a bias beside a gain: not read")
    both: list[NodeInput] = [(summed, made), place.shaped_input(5)]
    place.set_output(builder.vector(place.name, "layer_norm", made, both, len(made) - 1))
    place.set_output(summed, 2)
    return place.take_node("lookup, residual and layer_norm")


def _embed_rows(place: NodePlace, pair: tuple[int, int], label: str) -> SlotView:
    """Add the lookup of a row for each token; ``pair``: which inputs are table and indices."""
    table, indices = (place.node.input[number] for number in pair)
    wide = _lead(place.shape(pair[1]), place.out_shape)
    return _look_up(place, f"{place.name}.{label}", (table, place.out_shape), (indices, wide))


def _lead(indices: Shape, made: Shape) -> Shape:
    """Return the shape of indices of the first dimensions of what is made."""
    lead = (1,) * (len(made) - 1 - len(indices)) + indices
    return (*lead, 1)


def _look_up(
    place: NodePlace, name: str, table: NodeInput, indices: tuple[str, Shape], numbers: int = 1
) -> SlotView:
    """Add a lookup: of a table as many elements as are made, and an index of some ``numbers``.

    What is read of a table is a tensor of its own, as nobody knows which elements come.
    """
    builder, (source, made) = place.builder, table
    if not isinstance(source, SlotView):
        root = builder.add_copy(f"{name}.I", source)
        source = fresh(root, made, (), builder.splits)
        view = builder.view(indices[0])
        if view is not None and view.repeats and root.outside and place.node.op_type == "Gather":
            root.distinct = math.prod(made) // math.prod(view.shape) * view.elements
    operands: list[NodeInput] = [(source, made)]
    if numbers * builder.bits_of(indices[0]) > BYTE * MAX_BYTES_PER_ELEMENT:
        place.report_input(1, f"indices of {numbers} numbers each: not moved")
    elif math.prod(indices[1]) > 1:  # else it is a number, like an address
        operands.append((_read_indices(place, f"{name}.at", indices, numbers), indices[1]))
    return builder.vector(name, "lookup", made, operands)


def _read_indices(
    place: NodePlace, label: str, indices: tuple[str, Shape], numbers: int
) -> SlotView:
    """Return indices as a view with dimensions of what is made, or a tensor of their own."""
    builder, (name, wide) = place.builder, indices
    known = builder.view_external(name, label)
    view = known.reshape(wide) if known is not None and numbers == 1 else None
    if view is not None and not view.repeats:
        builder.read_tensors.add(name)
        return view
    root = builder.add_copy(label, name)
    root.bits *= numbers
    return fresh(root, wide)
