"""ONNX models of a few nodes, made here."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

Type = tuple[int, Sequence[int | str | None] | None]
"""ONNX's number of an element type, and a shape."""


def onnx_nodes(text: str) -> list[onnx.NodeProto]:
    """Return nodes in ONNX's text form, such as ``r = Relu(x); y = MatMul(r, w)``."""
    return [onnx.parser.parse_node(one) for one in text.split("; ")]


_TENSOR: Final = re.compile(r"(\w+)(?::(\w+))?(\[[^]]*\])?(?:=(\[[^]]*\]|[-\d.]+))?")


def types_of(text: str) -> dict[str, Type]:
    """Return types and shapes, such as ``x[n,2] i:int64[] y``: floats, integers, any shape."""
    return {
        name: (
            TensorProto.DataType.Value((kind or "float").upper()),
            [_size(one) for one in dims[1:-1].split(",") if one] if dims else None,
        )
        for name, kind, dims, _ in _TENSOR.findall(text)
    }


def _size(text: str) -> int | str | None:
    text = text.strip()
    return int(text) if text.isdigit() else None if text == "?" else text


def constants_of(text: str) -> dict[str, Any]:
    """Return constants such as ``w[8,5] t=[3,1] z:uint8=0``: ones, or integers of 64 bits."""
    types, found = types_of(text), dict[str, Any]()
    for name, kind, dims, value in _TENSOR.findall(text):
        element = helper.tensor_dtype_to_np_dtype(types[name][0])
        if value:
            found[name] = np.array(json.loads(value), element if kind else np.int64)
        else:
            found[name] = np.ones(json.loads(dims), element)
    return found


def write(
    path: Path,
    tensors: str,
    nodes: str | Sequence[Any],
    constants: str | Mapping[str, Any] = "",
    **versions: int,
) -> Path:
    """Write a model of inputs and outputs such as ``x[4] -> y[4]``; in a folder, as ``m.onnx``."""
    inputs, outputs = map(types_of, tensors.split("->"))
    made: Sequence[Any] = onnx_nodes(nodes) if isinstance(nodes, str) else nodes
    domains = {one.domain: 1 for one in made if one.domain}
    path = path / "m.onnx" if path.is_dir() else path
    given = constants_of(constants) if isinstance(constants, str) else constants
    return save(path, made, inputs, outputs, given, **versions, domains=domains)


def save(
    path: Path,
    nodes: Sequence[Any],
    inputs: Mapping[str, Type],
    outputs: Mapping[str, Type],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = 17,
    ir_version: int | None = None,
    domains: Mapping[str, int] | None = None,
) -> Path:
    """Write a model; below IR version 4 its constants are inputs, too."""
    tensors = [
        numpy_helper.from_array(value, name) if isinstance(value, np.ndarray) else value
        for name, value in (constants or {}).items()
    ]
    infos = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    if ir_version is not None and ir_version < 4:
        infos += [
            helper.make_tensor_value_info(one.name, one.data_type, list(one.dims))
            for one in tensors
        ]
    made = [helper.make_tensor_value_info(name, *kind) for name, kind in outputs.items()]
    graph = helper.make_graph(list(nodes), "g", infos, made, tensors)
    sets = [helper.make_opsetid(name, n) for name, n in {"": opset, **(domains or {})}.items()]
    model = helper.make_model(graph, opset_imports=sets)
    model.ir_version = ir_version or 8
    path.write_bytes(model.SerializeToString())
    return path


def hollow(name: str, *dims: int, kind: int = TensorProto.FLOAT) -> onnx.TensorProto:
    """Return a constant with type and sizes and no values."""
    return onnx.TensorProto(name=name, dims=dims, data_type=kind)
