"""ONNX nodes that look up elements of a tensor at indices which are known when the model runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files.builder import NodeInput
from simaccel.importers.onnx_files.constants import Shape
from simaccel.importers.onnx_files.places import NodePlace
from simaccel.importers.onnx_files.reading import OnnxGraph
from simaccel.importers.onnx_files.views import SlotView, fresh
from simaccel.numbers import BYTE
from simaccel.workload.names import MAX_BYTES_PER_ELEMENT

if TYPE_CHECKING:
    from simaccel.importers.onnx_files.constants import Proto

LOOKUPS: Final = ("Gather", "GatherElements", "GatherND")
"""Kinds that only move elements where the indices, their second input, are constants."""
_INDICES: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys((*LOOKUPS, "GatherBlockQuantized"), (1,)),
    "EmbedLayerNormalization": (0, 1, 8),
}
"""Which inputs of nodes are indices."""
_SAME: Final = frozenset(
    ("Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Tile")
) | {"Transpose", "Unsqueeze"}
"""Nodes that give indices another form."""


def index_names(network: OnnxGraph) -> set[str]:
    """Return the tensors that are indices of lookups, in all forms that they come in."""
    makers = {name: node for node in network.nodes for name in node.output}
    indices = set[str]()
    names = [
        node.input[number]
        for node in network.nodes
        for number in _INDICES.get(node.op_type, ())
        if _has(node, number)
    ]
    while names:
        name = names.pop()
        maker = makers.get(name)
        if name not in indices and maker is not None and maker.op_type in _SAME:
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
        place.attribute("axis")
        wide = made
    else:
        place.attribute("batch_dims")
        numbers = indices[-1]
        wide = (*indices[:-1], *(1,) * (len(made) - len(indices) + 1))
    source = place.node.input[0]
    place.set_output(
        _look_up(place, place.name, (source, made), (place.node.input[1], wide), numbers)
    )
    return place.take_node("lookup")


def gather_blocks(place: NodePlace) -> AccountEntry:
    """Map the rows that are looked up in a table of few bits, whose blocks have scales."""
    bits, made = place.attribute("bits", 4), place.out_shape
    for harmless in ("gather_axis", "quantize_axis", "block_size"):
        place.attribute(harmless)
    root = place.builder.root(f"{place.name}.I", "weight", bits=bits)
    rows = fresh(root, made, range(len(made)))
    indices = place.node.input[1], _lead(place.shape(1), made)
    place.set_output(_look_up(place, place.name, (rows, made), indices))
    for number in (2, 3):
        place.report_input(number, "scales and zero points of blocks are not moved")
    return place.take_node("lookup")


def embed(place: NodePlace) -> AccountEntry:
    """Map ONNX Runtime's embedding: rows of words, segments and positions, their sums and a norm.

    Without indices of positions, these are the first ones, the same for all samples.
    """
    made, builder = place.out_shape, place.builder
    place.attribute("mask_index_type")
    summed = _embed_rows(place, (2, 0), "words")
    rows: dict[str, NodeInput] = {}
    if _has(place.node, 1):
        rows["segments"] = _embed_rows(place, (4, 1), "segments"), made
    if _has(place.node, 8):
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


def _has(node: Proto, number: int) -> bool:
    return number < len(node.input) and bool(node.input[number])


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
