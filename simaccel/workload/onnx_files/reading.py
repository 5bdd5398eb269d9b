"""ONNX files: dimensions given, shapes inferred, constants folded, branches that are known inlined.

Needs the package `onnx` (`pip install simaccel[onnx]`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from simaccel.errors import ABSENT, Fault, InputError
from simaccel.files.documents import read_bytes
from simaccel.later import np
from simaccel.workload.onnx_files.wire import wire_fault
from simaccel.workload.sizes import MAX_LAYER_SIZE, MAX_OPERATORS, size_faults

if TYPE_CHECKING:
    import numpy.typing as npt

Shape = tuple[int, ...]
_SMALL = 4096
"""Elements of a constant that is computed; larger ones have a shape only."""
_MOST_ROUNDS = 20
MAX_ONNX_BYTES: Final = 2**30
"""Models whose weights are larger have them in files beside, which are never read."""
_NAME = re.compile(r"[^A-Za-z0-9_./:@-]|^[@-]")


@dataclass
class Network:
    """The nodes that are left to do, and what is known of tensors.

    ``shapes``: of all tensors whose shape is known; ``values``: of small constants; ``weights``:
    names of constants. ``folded``: nodes whose results are constants, by kind. ``outputs`` of the
    graph.
    """

    nodes: list[Any]
    shapes: dict[str, Shape]
    values: dict[str, npt.NDArray[Any]]
    weights: set[str]
    folded: dict[str, int] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()

    def readers(self, name: str) -> int:
        """Return how often a tensor is read, by nodes or as an output of the graph."""
        return self._reads[name]

    @cached_property
    def _reads(self) -> Counter[str]:
        return Counter((*(name for node in self.nodes for name in node.input), *self.outputs))


def read_network(path: Path, dims: Mapping[str, int]) -> Network:
    """Read an ONNX file; ``dims`` has the sizes of its dynamic dimensions.

    Raises:
        InputError: no ONNX, or dimensions that lack a size: each with how to give it.

    """
    data = read_bytes(path, "ONNX", MAX_ONNX_BYTES)  # before the package, which takes long to load
    if problem := wire_fault(data):
        raise InputError([Fault(str(path), "file", problem, "an ONNX model")])
    onnx = _package(path)
    try:
        model = onnx.load_model_from_string(data)
        onnx.checker.check_model(model, full_check=False)
    except Exception as error:  # noqa: BLE001 - protobuf and the checker raise what they like
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError([Fault(str(path), "file", reason, "an ONNX model")]) from None
    if len(model.graph.node) > MAX_OPERATORS:
        allowed = f"at most {MAX_OPERATORS} nodes"
        raise InputError([Fault(str(path), "nodes", len(model.graph.node), allowed)])
    _set_dims(path, model, dims)
    return _folded(onnx, model)


def _package(path: Path) -> ModuleType:
    try:
        import onnx  # noqa: PLC0415 - an extra
        import onnx.reference  # noqa: PLC0415 - an extra
    except ImportError:
        allowed = "the package onnx: pip install 'simaccel[onnx]'"
        raise InputError([Fault(str(path), "file", "an ONNX model", allowed)]) from None
    return onnx


def _set_dims(path: Path, model: Any, dims: Mapping[str, int]) -> None:  # noqa: ANN401 - a protobuf
    """Return dynamic dimensions of inputs their sizes."""
    faults: list[Fault] = size_faults(
        str(path), {f"--dim {name}": size for name, size in dims.items()}, MAX_LAYER_SIZE
    )
    missing: dict[str, str] = {}
    used: set[str] = set()
    for given, at, dim in _dynamic(model):
        names = [f"{given}.{at}", *([dim.dim_param] if dim.dim_param else [])]
        known = [name for name in names if name in dims]
        used.update(known)
        if not known:
            missing[names[-1]] = f"dimension {at} of input {given}"
        elif not faults:
            dim.dim_value = dims[known[0]]
    faults += [
        Fault(str(path), f"--dim {name}", ABSENT, f"{name}=SIZE, the size of {what}")
        for name, what in missing.items()
    ]
    faults += [
        Fault(str(path), f"--dim {name}", dims[name], "a dynamic dimension of an input")
        for name in dims
        if name not in used
    ]
    if faults:
        raise InputError(faults)
    del model.graph.value_info[:]
    for made in model.graph.output:
        for dim in made.type.tensor_type.shape.dim:
            if dim.dim_param or dim.dim_value < 1:
                dim.Clear()


def _dynamic(model: Any) -> Iterator[tuple[str, int, Any]]:  # noqa: ANN401 - a protobuf
    """Yield (input, number, dimension) of those without a size."""
    constants = {one.name for one in model.graph.initializer}
    for given in model.graph.input:
        for at, dim in enumerate(given.type.tensor_type.shape.dim):
            if given.name not in constants and (dim.dim_param or dim.dim_value < 1):
                yield given.name, at, dim


def _folded(onnx: ModuleType, model: Any) -> Network:  # noqa: ANN401 - a protobuf
    """Infer shapes and fold constants in turns, until nothing more is known."""
    folder = _Folder(onnx)
    for one in model.graph.initializer:
        if math.prod(one.dims) <= _SMALL and not one.external_data:
            folder.values[one.name] = onnx.numpy_helper.to_array(one)
    for _ in range(_MOST_ROUNDS):
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        shapes = dict(_shapes(inferred.graph))
        left = [node for node in model.graph.node if not folder.fold(node, shapes)]
        inlined = [inner for node in left for inner in folder.inlined(node)]
        if inlined == list(model.graph.node):
            break
        del model.graph.node[:]
        model.graph.node.extend(inlined)
        known = {one.name for one in model.graph.initializer}
        model.graph.initializer.extend(
            onnx.numpy_helper.from_array(value, name)
            for name, value in folder.values.items()
            if name not in known
        )
    shapes |= {name: value.shape for name, value in folder.values.items()}
    weights = {one.name for one in model.graph.initializer}
    outputs = tuple(one.name for one in model.graph.output)
    return Network(list(model.graph.node), shapes, folder.values, weights, folder.folded, outputs)


def _shapes(graph: Any) -> Iterator[tuple[str, Shape]]:  # noqa: ANN401 - a protobuf
    for one in graph.initializer:
        yield one.name, tuple(one.dims)
    for given in (*graph.value_info, *graph.input, *graph.output):
        kind = given.type.tensor_type
        sizes = tuple(dim.dim_value for dim in kind.shape.dim)
        if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            yield given.name, sizes


class _Folder:
    """Computes nodes whose inputs are known."""

    def __init__(self, onnx: ModuleType) -> None:
        self.onnx = onnx
        self.values: dict[str, npt.NDArray[Any]] = {}
        self.folded: dict[str, int] = {}

    def fold(self, node: Any, shapes: Mapping[str, Shape]) -> bool:  # noqa: ANN401 - a protobuf
        """Compute a node if all that it needs is known; say whether it was."""
        made = self._value(node, shapes)
        if made is None:
            return False
        self.values.update(zip(node.output, made, strict=False))
        self.folded[node.op_type] = self.folded.get(node.op_type, 0) + 1
        return True

    def _value(self, node: Any, shapes: Mapping[str, Shape]) -> list[Any] | None:  # noqa: ANN401
        given = [name for name in node.input if name]
        if node.op_type in {"Shape", "Size"} and given[0] in shapes:
            whole = {given[0]: np.empty(shapes[given[0]], dtype=np.bool_)}
            return self._run(node, whole)
        if node.op_type in {"If", "Loop", "Scan"} or "Random" in node.op_type:
            return None
        sizes = [math.prod(shapes.get(name, (_SMALL + 1,))) for name in node.output if name]
        if any(name not in self.values for name in given):
            return None
        if node.op_type != "Constant" and max(sizes, default=0) > _SMALL:
            return None
        return self._run(node, {name: self.values[name] for name in given})

    def _run(self, node: Any, given: Mapping[str, npt.NDArray[Any]]) -> list[Any] | None:  # noqa: ANN401
        try:
            evaluator = self.onnx.reference.ReferenceEvaluator(node)
            made = evaluator.run(None, dict(given))
        except Exception:  # noqa: BLE001 - what can't be computed stays a node
            return None
        return [np.asarray(one) for one in made]

    def inlined(self, node: Any) -> Iterator[Any]:  # noqa: ANN401 - a protobuf
        """Yield the nodes of the branch that a condition takes, if it is known."""
        if node.op_type != "If" or node.input[0] not in self.values:
            yield node
            return
        which = "then_branch" if bool(self.values[node.input[0]].all()) else "else_branch"
        branch = next(one.g for one in node.attribute if one.name == which)
        for one in branch.initializer:
            self.values[one.name] = self.onnx.numpy_helper.to_array(one)
        yield from branch.node
        for made, inner in zip(node.output, branch.output, strict=True):
            yield self.onnx.helper.make_node("Identity", [inner.name], [made])
        self.folded["If"] = self.folded.get("If", 0) + 1


def clean_name(text: str) -> str:
    """Return a node's name as a workload can hold it.

    >>> clean_name("/conv [1]"), clean_name("@conv")
    ('/conv__1_', '_conv')
    """
    return _NAME.sub("_", text)[:150]
