"""Constant folding of an ONNX model: shapes, constants, and branches whose conditions are known."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from simaccel.files.accounting import AccountEntry, split_names
from simaccel.files.limits import MAX_SHAPE_NUMBERS
from simaccel.importers.onnx_files.constants import (
    MOVES,
    SMALL,
    UNMOVED_SCALES,
    Constants,
    Proto,
    Shape,
    graphs_of,
    rename,
)
from simaccel.importers.onnx_files.extensions import ALIKE, attribute_of, outputs_of
from simaccel.importers.onnx_files.growth import followed_numbers
from simaccel.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Value = npt.NDArray[np.generic]

_MOST_ROUNDS: Final = 20
_CHANNELS = 2
"""Dimensions that no window goes over: samples and channels."""
_PADS: Final = ("pads", "auto_pad")
_WHOLE: Final = frozenset((6, 7, 9))
"""ONNX's type numbers of INT32, INT64 and BOOL."""
_COMPUTED: Final = split_names("""
Abs Add And ArgMax ArgMin Cast CastLike Ceil Clip Concat ConstantOfShape CumSum Div Equal Exp Expand
Flatten Floor Gather GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Log
Max Min Mod Mul Neg NonZero Not Or Pow Range Reciprocal ReduceMax ReduceMin ReduceProd ReduceSum
Reshape Round ScatterElements ScatterND Shape Sign Size Slice Split Sqrt Squeeze Sub Sum Tile
Transpose Trilu Unsqueeze Where Xor
""")
"""Kinds of nodes whose values are computed: arithmetic of shapes, in the memory of their outputs.

The reference implementations of others (a pooling with pads, a resize) may take any memory.
"""
_KEEPS: Final = MOVES | {"Cast", "CastLike", "DequantizeLinear", "Gather", "Split"}
"""Kinds of nodes that only move or convert a constant's elements, which stay stored as they are."""
_NEVER: Final = ("Random", "Bernoulli", "Multinomial")
"""Prefixes of kinds of nodes with random results."""
_BITS: Final = {"BOOL": 8, "FLOAT": 32, "DOUBLE": 64, "FLOAT6E2M3": 8, "FLOAT6E3M2": 8}
"""Bits of an element as the file stores it, where the name of its type does not say them."""


class ConstantFolder:
    """A folding of constants: nodes whose results are constant are removed from a model's graph.

    ``dims``: sizes of named dimensions. ``values``: values of small constants, by name;
    ``constants``: names of all constants. ``folded``: number of removed nodes. ``distinct``: number
    of distinct elements of a constant that repeats other constants, by name. ``notes``: entries of
    scales and zero points of blocks, by name.
    """

    def __init__(
        self, onnx: ModuleType, model: Proto, constants: Constants, dims: Mapping[str, int]
    ) -> None:
        self.onnx, self.model = onnx, model
        self.values: dict[str, Value] = dict(constants.values)
        self.constants = constants.names
        self.folded = constants.folded
        self._opsets = {opset.domain: opset.version for opset in model.opset_import}
        self._stored: dict[str, int] = {}
        self.distinct: dict[str, int] = {}
        self.notes: dict[str, AccountEntry] = {}
        self._types: dict[str, int] = {}
        self._reads: Counter[str] = Counter()
        self._originals: dict[str, str] = {}
        self._declared = self._forget(dims)

    def fold(self) -> tuple[dict[str, Shape], dict[str, int]]:
        """Infer shapes and fold constants until nothing changes.

        Return the shapes of tensors, and the bits of their elements as stored.
        """
        graph = self.model.graph
        shapes = self._infer(follows=False)
        for _ in range(_MOST_ROUNDS):
            shapes = self._infer(follows=followed_numbers(graph, shapes) <= MAX_SHAPE_NUMBERS)
            self._reads = Counter(name for node in graph.node for name in node.input)
            before = {*self.values}, {*self.constants}
            left = [node for node in graph.node if not self._leaves(node, shapes)]
            taken = {name for node in graph.node for name in node.output} | {*shapes}
            inlined = [inner for node in left for inner in self._inline_branch(node, taken)]
            grown = self._extend(inlined, shapes)
            if not grown and inlined == list(graph.node):
                break
            del graph.node[:]
            for node in inlined:
                for at, name in enumerate(node.input):
                    node.input[at] = self._originals.get(name, name)
            graph.node.extend(inlined)
            self._keep(shapes, *before)
        shapes |= {name: value.shape for name, value in self.values.items()}
        shapes = {name: kind[0] for name, kind in self._declared.items()} | shapes
        bits = {name: self._bits(name) for name in self._types}
        return shapes, {name: n for name, n in bits.items() if n} | self._stored

    def _bits(self, name: str) -> int:
        """Return the bits of an element of a tensor; 0 if it has no size."""
        kind = self.onnx.TensorProto.DataType.Name(self._types.get(name, 0))
        said = re.search("[0-9]+", kind)
        return _BITS.get(kind) or (int(said[0]) if said else 0)

    # -- shapes

    def _forget(self, dims: Mapping[str, int]) -> dict[str, tuple[Shape, int]]:
        """Remove the shapes that the file declares for outputs of nodes; return (shape, type)."""
        graph, forgotten = self.model.graph, {}
        for info in (*graph.value_info, *graph.output):
            kind = info.type.tensor_type
            sizes = [dims.get(d.dim_param, d.dim_value) for d in kind.shape.dim]
            if info.type.HasField("tensor_type") and kind.HasField("shape") and all(sizes):
                forgotten[info.name] = tuple(sizes), kind.elem_type
        del graph.value_info[:]
        for info in graph.output:
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
        return forgotten

    def _infer(self, *, follows: bool) -> dict[str, Shape]:
        """Return the shapes that are known; ``follows``: values that are sizes are followed."""
        graph = self.onnx.shape_inference.infer_shapes(self.model, data_prop=follows).graph
        found: dict[str, Shape] = {one.name: tuple(one.dims) for one in graph.initializer}
        self._types |= {one.name: one.data_type for one in graph.initializer}
        for given in (*graph.value_info, *graph.input, *graph.output):
            kind = given.type.tensor_type
            if kind.elem_type:
                self._types[given.name] = kind.elem_type
            if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
                found[given.name] = tuple(dim.dim_value for dim in kind.shape.dim)
        return found

    def _extend(self, nodes: Sequence[Proto], shapes: Mapping[str, Shape]) -> bool:
        """Add the types of outputs that ONNX's inference doesn't know; return whether any were."""
        grown = False
        known = {info.name for info in self.model.graph.value_info}
        for node in nodes:
            unknown = [n for n in node.output if n and n not in shapes and n not in known]
            if not unknown or not (node.domain or node.op_type in ALIKE):
                continue
            made = outputs_of(node, shapes, self._types) or [
                self._declared.get(n) for n in node.output
            ]
            for name, kind in zip(node.output, made, strict=False):
                if name in unknown and kind is not None:
                    info = self.onnx.helper.make_tensor_value_info(name, kind[1], list(kind[0]))
                    self.model.graph.value_info.append(info)
                    grown = True
        return grown

    # -- constants

    def _leaves(self, node: Proto, shapes: Mapping[str, Shape]) -> bool:
        """Return whether a node's results are constant; if so, record them (it can be removed)."""
        kind, inputs = node.op_type, [name for name in node.input if name]
        is_shared = any(self._reads[n] > 1 and self._types.get(n) not in _WHOLE for n in inputs[:1])
        if kind in {"Shape", "Size"} and not node.domain and inputs[0] in shapes:
            made = self._run(node, {inputs[0]: _hollow(shapes[inputs[0]])})
        elif (
            any(name not in self.constants for name in inputs)
            or (not inputs and kind != "Constant")
            or kind.startswith(_NEVER)
            or any(True for _ in graphs_of(node))
            or (kind == "Transpose" and is_shared)
        ):
            return False
        else:
            made = self._compute_values(node, shapes)
        names = [name for name in node.output if name]
        if made is None and any(name not in shapes for name in names):
            return False
        self.values |= dict(zip(node.output, made or (), strict=False))
        self.constants.update(names)
        if kind in _KEEPS:
            self._keep_stored(node, inputs, names, shapes)
        if kind == "Identity":
            self._originals[names[0]] = self._originals.get(inputs[0], inputs[0])
        self.folded += 1
        return True

    def _keep_stored(
        self, node: Proto, inputs: list[str], names: list[str], shapes: Mapping[str, Shape]
    ) -> None:
        """Record how a constant made from others is stored: bits, and distinct elements."""
        bits = self._stored.get(inputs[0], self._bits(inputs[0]))
        self._stored |= dict.fromkeys(names, bits) if bits else {}
        sources = {*inputs} if node.op_type == "Concat" else {inputs[0]}
        count = sum(self.distinct.get(n, math.prod(shapes.get(n, ()))) for n in sources)
        if all(name in shapes for name in sources):
            wide = [name for name in names if math.prod(shapes.get(name, ())) > count]
            self.distinct |= dict.fromkeys(wide, count)
        if node.op_type == "DequantizeLinear" and attribute_of(node, "block_size", 0):
            for name in inputs[1:]:
                size, why = math.prod(shapes.get(name, ())), UNMOVED_SCALES
                if size > 1:
                    self.notes[name] = AccountEntry(name, "not taken", why, "tensor", 0, size)

    def _compute_values(self, node: Proto, shapes: Mapping[str, Shape]) -> list[Value] | None:
        """Return the results of a node whose inputs have known values; None if they are large."""
        sizes = [math.prod(shapes.get(name, (SMALL + 1,))) for name in node.output if name]
        if node.op_type != "Constant":
            known = all(name in self.values for name in node.input if name)
            fits = max(sizes, default=0) <= SMALL
            if not known or not fits or node.op_type not in _COMPUTED or node.domain:
                return None
        return self._run(node, {name: self.values[name] for name in node.input if name})

    def _run(self, node: Proto, values: Mapping[str, Value]) -> list[Value] | None:
        """Return a node's results by ONNX's reference evaluator; None if that fails."""
        helper = self.onnx.helper
        inputs, outputs = (
            [helper.make_value_info(name, self.onnx.TypeProto()) for name in names if name]
            for names in (values, node.output)
        )
        graph = helper.make_graph([node], "node", inputs, outputs)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                evaluator = self.onnx.reference.ReferenceEvaluator(graph, opsets=self._opsets)
                made = evaluator.run(None, dict(values))
        except Exception:  # noqa: BLE001 - what can't be computed stays a node
            return None
        return [np.asarray(array) for array in made]

    def _keep(self, shapes: Mapping[str, Shape], values: set[str], constants: set[str]) -> None:
        """Add new constants to the graph: initializers, or, without a value, typed inputs."""
        graph, helper = self.model.graph, self.onnx.helper
        for name in sorted(self.values.keys() - values):
            graph.initializer.append(self.onnx.numpy_helper.from_array(self.values[name], name))
        for name in sorted(self.constants - constants - self.values.keys()):
            kind = self._types.get(name, self.onnx.TensorProto.FLOAT)
            graph.input.append(helper.make_tensor_value_info(name, kind, list(shapes[name])))

    # -- branches

    def _inline_branch(self, node: Proto, taken: set[str]) -> Iterator[Any]:
        """Yield the nodes of an If's branch, if its condition is known; else the node itself."""
        if node.op_type != "If" or node.domain or node.input[0] not in self.values:
            yield node
            return
        which = "then_branch" if bool(self.values[node.input[0]].all()) else "else_branch"
        branch = next(attribute.g for attribute in node.attribute if attribute.name == which)
        if len(branch.output) != len(node.output):
            text = f"{which} of {node.name or 'If'} has {len(branch.output)} outputs"
            raise ValueError(f"{text}, not {len(node.output)}")
        inner = [tensor.name for tensor in branch.initializer]
        inner += [name for inner_node in branch.node for name in inner_node.output if name]
        rename(branch, {name: f"{node.output[0]}/{name}" for name in inner if name in taken})
        for tensor in branch.initializer:
            self.values[tensor.name] = self.onnx.numpy_helper.to_array(tensor)
            self.constants.add(tensor.name)
        yield from branch.node
        for made, result in zip(node.output, branch.output, strict=True):
            yield self.onnx.helper.make_node("Identity", [result.name], [made])
        self.folded += 1

    def fold_paddings(
        self, nodes: Sequence[Proto], shapes: Mapping[str, Shape], outputs: Sequence[str]
    ) -> None:
        """Make paddings of zeros pads of the convolutions that read them.

        Pad nodes that are folded lose their inputs; one that another node reads, too, stays.
        ``outputs``: of the graph.
        """
        readers: dict[str, list[Proto]] = {}
        for node in nodes:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        for node in nodes:
            pads = _zeros(node, self.values, shapes)
            convolutions = readers.get(node.output[0], []) if pads else []
            taken = all(_takes(reader, node.output[0]) for reader in convolutions)
            if not pads or not taken or node.output[0] in outputs:
                continue
            for convolution in convolutions:
                own = attribute_of(convolution, "pads") or [0] * len(pads)
                both = [a + b for a, b in zip(own, pads, strict=True)]
                left = [known for known in convolution.attribute if known.name not in _PADS]
                left.append(self.onnx.helper.make_attribute("pads", both))
                del convolution.attribute[:]
                convolution.attribute.extend(left)
                convolution.input[0] = node.input[0]
            del node.input[:]


def _hollow(shape: Shape) -> Value:
    """Return an array of a shape that needs no memory for its elements."""
    try:
        return np.broadcast_to(np.False_, shape)
    except ValueError:  # more elements than numpy counts
        return np.broadcast_to(np.False_, (0,))


def _takes(node: Proto, padding: str) -> bool:
    """Return whether a node is a convolution of a padding, with explicit pads or none."""
    plain = node.op_type == "Conv" and not node.domain
    auto = attribute_of(node, "auto_pad", "NOTSET")
    once = node.input[0] == padding and list(node.input).count(padding) == 1
    return bool(plain and once and auto in {"NOTSET", "VALID", ""})


def _zeros(node: Proto, values: Mapping[str, Value], shapes: Mapping[str, Shape]) -> list[int]:
    """Return a padding's zeros before and after each spatial dimension; empty for another Pad."""
    if node.op_type != "Pad" or node.domain or attribute_of(node, "mode", "constant") != "constant":
        return []
    rank, names = len(shapes.get(node.input[0], ())), [*node.input, "", "", ""]
    pads = attribute_of(node, "pads") or values.get(names[1], ())
    value, axes = values.get(names[2]), values.get(names[3], range(rank))
    filled = value is None and bool(names[2])  # with what isn't known
    filled |= bool(attribute_of(node, "value", 0.0)) or (value is not None and bool(value.any()))
    if filled or (names[3] and names[3] not in values) or len(pads) != 2 * len(axes):
        return []
    sizes = [0] * 2 * rank
    for at, axis in enumerate(axes):
        sizes[int(axis) % rank] = int(pads[at])
        sizes[int(axis) % rank + rank] = int(pads[at + len(axes)])
    before, behind = sizes[:rank], sizes[rank:]
    if rank <= _CHANNELS or min(sizes) < 0 or any(before[:_CHANNELS] + behind[:_CHANNELS]):
        return []
    return before[_CHANNELS:] + behind[_CHANNELS:]
