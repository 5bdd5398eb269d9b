"""The constants of an ONNX model: values of small ones, type and shape of all others.

Weights decide neither work nor traffic, so that their values are never needed; they may lie in
files beside or be left out altogether. Small constants decide shapes: their values are read, also
from a file beside the model, if it lies in the model's folder.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from simaccel.files.accounting import AccountEntry, split_names

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Proto: TypeAlias = Any
"""A message of ONNX's, whose classes have no types."""
Shape: TypeAlias = tuple[int, ...]
"""The sizes of a tensor's dimensions."""
MOVES: Final = split_names("""
Concat Expand Flatten Identity Reshape Slice Squeeze Tile Transpose Unsqueeze
""")
"""Kinds of nodes that only give their elements another form."""
UNMOVED_SCALES: Final = "scales and zero points of blocks are not moved"
SMALL: Final = 4096
"""Elements of a constant whose value is known; larger ones have type and shape only."""
_MOST_BYTES: Final = 16 * SMALL


@dataclass
class Constants:
    """The constants that were removed from a model.

    ``values``: of small constants, by name; ``without_values``: tensors with type and shape only.
    ``notes``: entries of those in a sparse format. ``folded``: number of removed Constant nodes.
    ``missing``: external data files of small constants that can't be read.
    """

    values: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    without_values: list[Proto] = field(default_factory=list)
    notes: list[AccountEntry] = field(default_factory=list)
    folded: int = 0
    missing: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """Names of all constants."""
        return {*self.values, *(tensor.name for tensor in self.without_values)}


def take_constants(onnx: ModuleType, model: Proto, folder: Path) -> Constants:
    """Remove the constants from a model, leaving inputs of their type and shape in their place.

    Small ones whose values are known stay, as initializers of their graph.
    """
    taken = Constants()
    main = model.graph
    for sparse in main.sparse_initializer:
        tensor = main.initializer.add()
        tensor.CopyFrom(sparse.values)
        why = "read as if its zeros were stored"
        taken.notes.append(AccountEntry(tensor.name, "not taken", why, "sparse tensor"))
        del tensor.dims[:]
        tensor.dims.extend(sparse.dims)
        tensor.ClearField("raw_data")
    del main.sparse_initializer[:]
    names = {declared.name for declared in (*main.initializer, *main.input)}
    for number, graph in enumerate(graphs_within(main)):
        count = _constant_nodes(graph)
        if graph is main:
            taken.folded = count
        kept = []
        for tensor in graph.initializer:
            value = constant_value(onnx, tensor, folder)
            if value is not None:
                kept.append(onnx.numpy_helper.from_array(value, tensor.name))
                if graph is main:
                    taken.values[tensor.name] = value
                continue
            file = _external_data(tensor).get("location")
            taken.missing += (file,) if file and math.prod(tensor.dims) <= SMALL else ()
            name = tensor.name
            if graph is not main and name in names:
                name = f"{name}.{number}"
                rename(graph, {tensor.name: name})
            names.add(name)
            typed = onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
            taken.without_values.append(typed)
        del graph.initializer[:]
        graph.initializer.extend(kept)
    constants = taken.names
    inputs = [declared for declared in main.input if declared.name not in constants]
    del main.input[:]
    main.input.extend([*inputs, *taken.without_values])
    return taken


def constant_value(onnx: ModuleType, tensor: Proto, folder: Path) -> npt.NDArray[np.generic] | None:
    """Return the value of a small constant; None if it is large or its value can't be read."""
    count = math.prod(tensor.dims)
    if count > SMALL or min(tensor.dims, default=0) < 0:
        return None
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    if tensor.external_data:
        data = _bytes_from_file(tensor, folder)
        if data is None:
            return None
        del copy.external_data[:]
        copy.ClearField("data_location")
        copy.raw_data = data
    try:
        ndarray: npt.NDArray[np.generic] = onnx.numpy_helper.to_array(copy)
    except Exception:  # noqa: BLE001 - files without values have whatever they have instead
        return None
    return ndarray if ndarray.size == count else None


def _external_data(tensor: Proto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _bytes_from_file(tensor: Proto, folder: Path) -> bytes | None:
    """Return the bytes of a constant from a file in the model's folder.

    The package `onnx` would refuse links, also those by which installers put a file in two places.
    """
    entries = _external_data(tensor)
    place = Path(entries.get("location", ""))
    if place.is_absolute() or ".." in place.parts or not place.parts:
        return None
    file = folder / place
    try:
        inside = file.resolve().is_relative_to(folder.resolve())
        if not inside or not file.is_file():
            return None
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", _MOST_BYTES))
        if not (offset >= 0 and 0 <= length <= _MOST_BYTES):
            return None
        with file.open("rb") as stream:
            stream.seek(offset)
            return stream.read(length)
    except (OSError, ValueError):
        return None


def _constant_nodes(graph: Proto) -> int:
    """Replace Constant nodes of a graph by initializers; return their number."""
    left = []
    for node in graph.node:
        tensors = [attribute.t for attribute in node.attribute if attribute.name == "value"]
        if node.op_type != "Constant" or node.domain or not tensors:
            left.append(node)
            continue
        made = graph.initializer.add()
        made.CopyFrom(tensors[0])
        made.name = node.output[0]
    count = len(graph.node) - len(left)
    if count:
        del graph.node[:]
        graph.node.extend(left)
    return count


def graphs_within(graph: Proto) -> Iterator[Proto]:
    """Yield a graph and all graphs inside its nodes."""
    yield graph
    for node in graph.node:
        for inner in graphs_of(node):
            yield from graphs_within(inner)


def graphs_of(node: Proto) -> Iterator[Proto]:
    """Yield the graphs of a node: branches, and bodies of loops."""
    for one in node.attribute:
        if one.HasField("g"):
            yield one.g
        yield from one.graphs


def nodes_within(*graphs: Proto) -> Iterator[Proto]:
    """Yield the nodes of graphs, and those of all graphs inside them."""
    for graph in graphs:
        for inner in graphs_within(graph):
            yield from inner.node


def rename(graph: Proto, names: dict[str, str]) -> None:
    """Rename tensors of a graph and of the graphs inside it."""
    for node in nodes_within(graph):
        for side in (node.input, node.output):
            for at, name in enumerate(side):
                side[at] = names.get(name, name)
    for inner in graphs_within(graph):
        for one in (*inner.output, *inner.initializer, *inner.input):
            one.name = names.get(one.name, one.name)
