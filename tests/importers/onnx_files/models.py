"""ONNX models of a few nodes, made here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

Type = tuple[int, Sequence[int | str]]
"""ONNX's number of an element type, and a shape."""


def onnx_nodes(text: str) -> list[onnx.NodeProto]:
    """Return nodes in ONNX's text form, such as ``r = Relu(x); y = MatMul(r, w)``."""
    return [onnx.parser.parse_node(one) for one in text.split("; ")]


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
