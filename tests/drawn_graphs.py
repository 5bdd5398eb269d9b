"""Random small ONNX graphs: convolutions, poolings, softmax, functions of one or two tensors."""

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from simaccel.importers.onnx_files import load_onnx
from simaccel.workload import Workload

KINDS = (
    *("Conv", "Conv", "Conv", "MaxPool", "AveragePool", "GlobalAveragePool"),
    *("Relu", "Sigmoid", "Tanh", "Softmax", "Add", "Add", "Mul", "Concat"),
)
_MOST_SIZE = 9
Shape = tuple[int, ...]


@dataclass
class _Graph:
    """A graph in the making: shapes of what there is, nodes, and filters."""

    numbers: random.Random
    shapes: dict[str, Shape]
    nodes: list[Any] = field(default_factory=list)
    filters: list[Any] = field(default_factory=list)
    border: tuple[int, int, int, int] = (1, 1, 1, 1)
    """Padding beside a filter of one position."""
    most_filters: int = 3
    """Of each group of channels."""

    def add(self, kind: str) -> None:
        """Add a node of a kind that reads what there is, mostly what was made last."""
        name = f"{kind}_{len(self.nodes)}"
        known = list(self.shapes)
        given = known[-1] if self.numbers.random() < 0.75 else self.numbers.choice(known)
        inputs = [given]
        more: dict[str, Any] = {}
        shape = self.shapes[given]
        if kind in ("Add", "Mul", "Concat"):
            alike = [one for one in known if self.shapes[one] == shape]
            inputs.append(self.numbers.choice(alike))
            if kind == "Concat":
                shape = (shape[0], 2 * shape[1], *shape[2:])
                more = {"axis": 1}
        elif kind == "Conv":
            shape, more = self._conv(name, inputs, shape)
        elif kind in ("MaxPool", "AveragePool"):
            shape, more = self._pooling(kind, shape)
        elif kind == "Softmax":
            more = {"axis": self.numbers.choice((1, 2, 3))}
        elif kind == "GlobalAveragePool":
            shape = (*shape[:2], 1, 1)
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **more))
        self.shapes[name] = shape

    def _window(self, shape: Shape) -> tuple[Shape, dict[str, Any]]:
        """Draw a window that fits: the rows and columns that it makes, and its attributes."""
        reach, stride, pads, made = [], [], [], []
        for size in shape[2:]:
            reach.append(self.numbers.choice([one for one in (1, 2, 3, 3) if one <= size]))
            stride.append(self.numbers.choice((1, 1, 2, 3)))
            most = min(1, reach[-1] - 1)
            pads.append([self.numbers.randint(0, most), self.numbers.randint(0, most)])
            made.append((size + sum(pads[-1]) - reach[-1]) // stride[-1] + 1)
        before, after = zip(*pads, strict=True)
        return tuple(made), {"kernel_shape": reach, "strides": stride, "pads": [*before, *after]}

    def _conv(self, name: str, inputs: list[str], shape: Shape) -> tuple[Shape, dict[str, Any]]:
        made, more = self._window(shape)
        if self.numbers.random() < 0.25:  # a border beside a filter of one position
            more["pads"] = list(self.border)
            pads = (
                before + after
                for before, after in zip(self.border[:2], self.border[2:], strict=True)
            )
            pairs = zip(shape[2:], pads, more["kernel_shape"], more["strides"], strict=True)
            made = tuple((size + pad - reach) // stride + 1 for size, pad, reach, stride in pairs)
        groups = self.numbers.choice([one for one in (1, 1, 1, 2, shape[1]) if shape[1] % one == 0])
        filters = groups * self.numbers.randint(1, self.most_filters)
        size = (filters, shape[1] // groups, *more["kernel_shape"])
        weights = np.random.default_rng(len(self.nodes)).normal(size=size).astype(np.float32)
        self.filters.append(numpy_helper.from_array(weights, f"{name}.filters"))
        inputs.append(f"{name}.filters")
        return (shape[0], filters, *made), {**more, "group": groups}

    def _pooling(self, kind: str, shape: Shape) -> tuple[Shape, dict[str, Any]]:
        made, more = self._window(shape)
        if kind == "AveragePool":
            more["count_include_pad"] = 1
        return (*shape[:2], *made), more


def drawn_model(seed: int, most_size: int = _MOST_SIZE, most_nodes: int = 5) -> onnx.ModelProto:
    """Return a model of two or more nodes; what none of them reads is an output.

    ``most_size``: rows and columns of its input at most.
    """
    numbers = random.Random(seed)  # noqa: S311 - tests
    shape = (
        numbers.choice((1, 1, 1, 2)),
        numbers.choice((1, 2, 3, 4)),
        numbers.randint(1, most_size),
        numbers.randint(1, most_size),
    )
    return _drawn(_Graph(numbers, {"x": shape}), most_nodes)


def drawn_row(seed: int) -> onnx.ModelProto:
    """Return a drawn model of two or three nodes on one row of four positions at most."""
    numbers = random.Random(seed)  # noqa: S311 - tests
    shape = (1, numbers.choice((1, 2)), 1, numbers.randint(1, 4))
    graph = _Graph(numbers, {"x": shape}, border=(0, 1, 0, 1), most_filters=2)
    return _drawn(graph, most_nodes=3)


def _drawn(graph: _Graph, most_nodes: int) -> onnx.ModelProto:
    for _ in range(graph.numbers.randint(2, most_nodes)):
        graph.add(graph.numbers.choice(KINDS))
    if all(node.op_type == "Concat" for node in graph.nodes):  # there is nothing to run
        graph.add("Relu")
    return model_of(graph.nodes, graph.shapes, graph.filters)


def model_of(
    nodes: Sequence[Any], shapes: Mapping[str, Shape], filters: Sequence[Any] = ()
) -> onnx.ModelProto:
    """Return a model whose input is ``x`` and whose outputs are what no node reads.

    ``shapes`` of these; ``filters``: initializers.
    """
    read = {name for node in nodes for name in node.input}
    ends = [name for node in nodes for name in node.output if name not in read]

    def infos(names: Sequence[str]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shapes[name]))
            for name in names
        ]

    graph = helper.make_graph(nodes, "drawn", infos(["x"]), infos(ends), filters)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def drawn_workload(seed: int, most_size: int = _MOST_SIZE, most_nodes: int = 5) -> Workload:
    """Return a drawn model as a workload."""
    return workload_of(drawn_model(seed, most_size, most_nodes))


def workload_of(model: onnx.ModelProto) -> Workload:
    """Return a model as a workload, by way of a file."""
    onnx.checker.check_model(model, full_check=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.onnx"
        onnx.save(model, str(path))
        return load_onnx(path).workload
