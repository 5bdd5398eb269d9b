"""Random ONNX graphs: compulsory bytes are the elements that are touched, and MACs, by numpy.

The model keeps the number of the element that stands at each place of a tensor, moves these numbers
about as numpy moves elements, and marks those that an operator reads.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from simaccel.analytic.floor.compulsory import distinct_bytes
from simaccel.importers.onnx_files import load_onnx
from tests.draws import DRAWS
from tests.importers.onnx_files.models import save

Ids = np.ndarray[Any, np.dtype[np.int64]]


class Touching:
    """A graph in the making, with the elements of its inputs and weights that are read."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.ids: dict[str, Ids] = {"x": np.arange(int(np.prod(shape))).reshape(shape)}
        self.touched: set[tuple[str, int]] = set()
        self.source = {"x": "x"}
        self.outputs: dict[str, tuple[int, ...]] = {}
        self.macs = 0
        self.made: list[str] = []
        self.is_cut = False
        """Whether parts of the input, or its elements several times, are tensors of the graph."""

    def moved(
        self,
        kind: str,
        name: str,
        ids: Ids,
        *constants: list[int],
        others: Sequence[str] = (),
        **how: Any,  # noqa: ANN401
    ) -> str:
        """Add a node that moves elements only."""
        made = f"t{len(self.nodes)}"
        names = [name, *others]
        for number, one in enumerate(constants):
            names.append(f"{made}.c{number}")
            self.constants[names[-1]] = np.array(one, dtype=np.int64)
        self.nodes.append(helper.make_node(kind, names, [made], **how))
        self.ids[made], self.source[made] = ids, self.source[name]
        self.is_cut |= kind == "Slice" and bool(np.any(ids >= 0))
        return made

    def read(self, name: str, ids: Ids | None = None) -> None:
        """Mark what is read of a tensor."""
        found = self.ids[name] if ids is None else ids
        self.touched |= {(self.source[name], int(one)) for one in np.unique(found) if one >= 0}

    def inner(self, name: str) -> str:
        """Add an operator whose result stays in the graph: none of its elements is from outside."""
        self.read(name)
        made = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node("Sigmoid", [name], [made]))
        self.ids[made], self.source[made] = np.full(self.ids[name].shape, -1), self.source[name]
        self.made.append(made)
        return made

    def end_unread(self) -> None:
        """Make outputs of the graph of what none of them depends on."""
        for made in reversed(self.made):
            live = set(self.outputs)
            for node in reversed(self.nodes):
                if live & set(node.output):
                    live |= set(node.input)
            if made not in live:
                self.outputs[made] = self.ids[made].shape

    def weight(self, *shape: int) -> str:
        """Add weights, all of which are read."""
        name = f"w{len(self.constants)}"
        self.constants[name] = np.zeros(shape, np.float32)
        self.touched |= {(name, at) for at in range(int(np.prod(shape)))}
        return name

    def ends(self, kind: str, names: list[str], shape: tuple[int, ...], **how: Any) -> None:  # noqa: ANN401
        """Add an operator whose output is the graph's."""
        made = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [made], **how))
        self.outputs[made] = shape


@st.composite
def graphs(draw: st.DrawFn) -> Touching:
    """Draw readers of views of one input: windows, products, functions, sums."""
    shape = (1, draw(st.integers(2, 4)), draw(st.integers(3, 7)), draw(st.integers(3, 7)))
    graph = Touching(shape)
    names = ["x"]
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(names))
        for _ in range(draw(st.integers(0, 2))):
            name = _moved(draw, graph, name)
            if draw(st.booleans()):
                name = graph.inner(name)
            names.append(name)
            name = _joined(draw, graph, name, names)
        _reader(draw, graph, name)
    graph.end_unread()
    return graph


def _joined(draw: st.DrawFn, graph: Touching, name: str, names: list[str]) -> str:
    """Put another tensor behind it along a dimension, in half of the draws where one fits."""
    axis, ids = draw(st.integers(1, 3)), graph.ids[name]
    fits = [
        other
        for other in names
        if other != name  # what a tensor repeats of itself is stored once
        and np.delete(graph.ids[other].shape, axis).tolist() == np.delete(ids.shape, axis).tolist()
    ]
    if not fits or draw(st.booleans()):
        return name
    other = draw(st.sampled_from(fits))
    joined = np.concatenate([ids, graph.ids[other]], axis)
    outside = joined[joined >= 0]
    graph.is_cut |= len(np.unique(outside)) < outside.size
    names.append(graph.moved("Concat", name, joined, others=[other], axis=axis))
    return names[-1]


def _moved(draw: st.DrawFn, graph: Touching, name: str) -> str:
    ids = graph.ids[name]
    kind = draw(st.sampled_from(["Slice", "Transpose", "Identity"]))
    if kind == "Slice":
        axis = draw(st.integers(1, 3))
        first = draw(st.integers(0, ids.shape[axis] - 1))
        last = draw(st.integers(first + 1, ids.shape[axis]))
        part = np.take(ids, range(first, last), axis)
        return graph.moved("Slice", name, part, [first], [last], [axis])
    if kind == "Transpose":
        order = (0, *draw(st.permutations([1, 2, 3])))
        return graph.moved("Transpose", name, ids.transpose(order), perm=list(order))
    return graph.moved("Identity", name, ids)


def _reader(draw: st.DrawFn, graph: Touching, name: str) -> None:
    ids = graph.ids[name]
    _, channels, rows, columns = ids.shape
    kind = draw(st.sampled_from(["Conv", "MatMul", "Relu", "Add", "Expand"]))
    if kind == "Conv":
        reach = draw(st.integers(1, min(3, rows, columns)))
        stride, pad = draw(st.integers(1, 3)), draw(st.integers(0, reach // 2))
        filters = draw(st.integers(1, 3))
        padded = np.pad(ids, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-1)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), (2, 3))
        used = windows[:, :, ::stride, ::stride]
        graph.read(name, used)
        made = (1, filters, *used.shape[2:4])
        graph.macs += int(np.prod(made)) * channels * reach * reach
        weights = graph.weight(filters, channels, reach, reach)
        how = {"strides": [stride] * 2, "pads": [pad] * 4}
        graph.ends("Conv", [name, weights], made, **how)
    elif kind == "MatMul":
        size = draw(st.integers(1, 4))
        graph.read(name)
        graph.macs += ids.size * size
        weights = graph.weight(columns, size)
        graph.ends("MatMul", [name, weights], (*ids.shape[:3], size))
    elif kind == "Expand":  # a sum of something whole with what is repeated
        graph.read(name)
        count = draw(st.integers(2, 3))
        wide = (count, *ids.shape[1:])
        repeated = graph.moved("Expand", name, np.broadcast_to(ids, wide), list(wide))
        graph.ends("Add", [graph.weight(*wide), repeated], wide)
    else:
        graph.read(name)
        kind = "Relu" if channels == 1 else kind  # a number alone is no tensor
        others = [graph.weight(channels, 1, 1)] if kind == "Add" else []
        graph.ends(kind, [name, *others], ids.shape)


@given(graph=graphs())
@settings(max_examples=20 * DRAWS, deadline=None)
def test_compulsory_bytes_are_the_distinct_elements(graph: Touching) -> None:
    with TemporaryDirectory() as folder:
        path = save(
            Path(folder) / "m.onnx",
            graph.nodes,
            {"x": (TensorProto.FLOAT, graph.ids["x"].shape)},
            {name: (TensorProto.FLOAT, shape) for name, shape in graph.outputs.items()},
            graph.constants,
        )
        imported = load_onnx(path)
    assert imported.workload.macs == graph.macs
    made = sum(int(np.prod(shape)) for shape in graph.outputs.values())
    found, touched = distinct_bytes(imported.workload), 4 * (len(graph.touched) + made)
    left = 4 * (graph.ids["x"].size - len([name for name, _ in graph.touched if name == "x"]))
    moved = imported.through_dram or any(node.op_type == "Concat" for node in graph.nodes)
    is_exact = not (graph.is_cut and moved)  # what several forms have together is a guess there
    assert found == touched if is_exact else 4 * made <= found <= touched + left
