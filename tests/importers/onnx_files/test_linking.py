"""Graphs whose operators share tensors: values against onnx's own evaluator, and what breaks."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from simaccel import load_accelerator, simulate
from simaccel.diagnosis.check import check
from simaccel.diagnosis.plain_values import expected_values
from simaccel.importers.onnx_files import ImportedWorkload, load_onnx
from tests.agreement import dram_total
from tests.draws import DRAWS


class Graph:
    """An ONNX model in the making, of nodes whose values an import has, too."""

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        self.numbers = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}
        self.shape = {"x": shape}
        self.input = shape
        self.readers: dict[str, int] = {}

    def weight(self, shape: tuple[int, ...]) -> str:
        """Return the name of random weights."""
        name = f"w{len(self.weights)}"
        self.weights[name] = self.numbers.normal(size=shape).astype(np.float32)
        return name

    def ints(self, *values: int) -> str:
        """Return the name of a constant."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.array(values, dtype=np.int64)
        return name

    def add(self, kind: str, inputs: list[str], shape: tuple[int, ...], **how: Any) -> str:  # noqa: ANN401
        """Add a node and return its output."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **how))
        self.shape[name] = shape
        return name

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        """Return the model."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.input)
        made = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shape[name])
            for name in outputs
        ]
        constants = [numpy_helper.from_array(one, name) for name, one in self.weights.items()]
        graph = helper.make_graph(self.nodes, "g", [x], made, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _imported(graph: Graph, folder: Path, outputs: list[str]) -> ImportedWorkload:
    path = folder / "model.onnx"
    onnx.save(graph.model(outputs), str(path))
    return load_onnx(path)


def _agrees(graph: Graph, imported: ImportedWorkload, output: str) -> None:
    """What the operators compute is what onnx's evaluator does; each begins with a Relu of x."""
    workload = imported.workload
    x = graph.numbers.normal(size=graph.input).astype(np.float32)
    inputs = {node.name: list(node.input) for node in graph.nodes}
    tensors = {}
    for name, shape in workload.shapes.items():
        owner, _, role = name.rpartition(".")
        kind = workload.tensors[name].kind
        if kind in ("intermediate", "output"):
            tensors[name] = np.zeros(shape)
        elif role == "I":
            assert owner == "t0"
            tensors[name] = x.reshape(shape).astype(np.float64)
        else:
            tensors[name] = graph.weights[inputs[owner][1]].reshape(shape).astype(np.float64)
    made = expected_values(workload, tensors)
    stored = next(one.output for one in workload.operators if one.name == output)
    operator = workload.operator(output)
    found = made[stored.tensor][stored.box(operator.ranks)]
    values: Any = onnx.reference.ReferenceEvaluator(graph.model([output])).run(None, {"x": x})
    expected = np.asarray(values[0])
    turned = expected.swapaxes(-1, -2)  # a Transpose may leave rows and columns as they are stored
    assert found.size == expected.size
    assert any(
        np.allclose(found.reshape(one.shape), one, rtol=1e-3, atol=1e-3)
        for one in (expected, turned)
    )


def _conv(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    n, c, h, w = graph.shape[given]
    reach = [draw(1, min(3, size)) for size in (h, w)]
    pads = [draw(0, reach[at % 2] - 1) if (h, w)[at % 2] > 1 else 0 for at in range(4)]
    strides = [draw(1, 2), draw(1, 2)]
    size = [
        (one + pads[at] + pads[at + 2] - reach[at]) // strides[at] + 1
        for at, one in enumerate((h, w))
    ]
    groups = c if draw(0, 1) else 1
    filters = c * draw(1, 2) if groups > 1 else draw(1, 4)
    weight = graph.weight((filters, c // groups, *reach))
    how = {"pads": pads, "strides": strides, "group": groups}
    return graph.add("Conv", [given, weight], (n, filters, *size), **how)


def _pool(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    positive = graph.add("Relu", [given], graph.shape[given])  # zeros around are no maxima
    n, c, h, w = graph.shape[given]
    if min(h, w) < 2:
        return positive
    pad = draw(0, 1)
    size = [(one + 2 * pad - 2) // 2 + 1 for one in (h, w)]
    how = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [pad] * 4}
    return graph.add("MaxPool", [positive], (n, c, *size), **how)


def _squeezed(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    """A product with the mean of each channel, as squeeze-and-excitation has."""
    n, c, _, _ = graph.shape[given]
    mean = graph.add("GlobalAveragePool", [given], (n, c, 1, 1))
    gate = graph.add("Relu", [mean], (n, c, 1, 1))
    order = [given, gate] if draw(0, 1) else [gate, given]
    return graph.add("Mul", order, graph.shape[given])


def _summed(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    same = [name for name, one in graph.shape.items() if one == graph.shape[given] and name != "x"]
    return graph.add("Add", [given, same[draw(0, len(same) - 1)]], graph.shape[given])


def _joined(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    n, c, h, w = graph.shape[given]
    two = [graph.add("Relu", [given], (n, c, h, w)) for _ in range(2)]
    axis = draw(1, 3)
    shape = [n, c, h, w]
    shape[axis] *= 2
    return graph.add("Concat", two, (n, shape[1], shape[2], shape[3]), axis=axis)


def _cut(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    axis = draw(1, 3)
    shape = list(graph.shape[given])
    start = draw(0, shape[axis] - 1)
    end = draw(start + 1, shape[axis])
    bounds = [graph.ints(one) for one in (start, end, axis)]
    shape[axis] = end - start
    part = graph.add("Slice", [given, *bounds], tuple(shape))
    return graph.add("Relu", [part], tuple(shape))


def _turned(graph: Graph, given: str, _: Callable[[int, int], int]) -> str:
    n, c, h, w = graph.shape[given]
    turned = graph.add("Transpose", [given], (n, c, w, h), perm=[0, 1, 3, 2])
    return graph.add("Relu", [turned], (n, c, w, h))


STEPS = (_conv, _conv, _pool, _squeezed, _summed, _joined, _cut, _turned)


def _projected(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    n, rows, size = graph.shape[given]
    wide = draw(1, 4)
    return graph.add("MatMul", [given, graph.weight((size, wide))], (n, rows, wide))


def _attended(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    """An attention whose keys are a transpose of what was made."""
    n, rows, size = graph.shape[given]
    query, key = (
        graph.add("MatMul", [given, graph.weight((size, 3))], (n, rows, 3)) for _ in range(2)
    )
    turned = graph.add("Transpose", [key], (n, 3, rows), perm=[0, 2, 1])
    scores = graph.add("MatMul", [query, turned], (n, rows, rows))
    if draw(0, 1):
        scores = graph.add("Softmax", [scores], (n, rows, rows), axis=-1)
    return graph.add("MatMul", [scores, given], (n, rows, size))


def _halves(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    """The sum of two halves of the last dimension."""
    n, rows, size = graph.shape[given]
    if size % 2:
        return _projected(graph, given, draw)
    bounds = [graph.ints(one) for one in (0, size // 2, 2, size)]
    parts = [
        graph.add("Slice", [given, *(bounds[at] for at in which)], (n, rows, size // 2))
        for which in ((0, 1, 2), (1, 3, 2))
    ]
    return graph.add("Add", parts, (n, rows, size // 2))


def _swapped(graph: Graph, given: str, _: Callable[[int, int], int]) -> str:
    n, rows, size = graph.shape[given]
    turned = graph.add("Transpose", [given], (n, size, rows), perm=[0, 2, 1])
    return graph.add("Relu", [turned], (n, size, rows))


def _centred(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    """A sum with the mean over one dimension, that is kept as 1."""
    axis = draw(1, 2)
    shape = list(graph.shape[given])
    shape[axis] = 1
    mean = graph.add("ReduceMean", [given], tuple(shape), axes=[axis], keepdims=1)
    return graph.add("Add", [given, mean], graph.shape[given])


def _along(graph: Graph, given: str, draw: Callable[[int, int], int]) -> str:
    """A convolution of one dimension."""
    n, rows, size = graph.shape[given]
    reach = draw(1, min(3, size))
    pads = [draw(0, reach - 1) if size > 1 else 0 for _ in range(2)]
    made = size + sum(pads) - reach + 1
    weight = graph.weight((2, rows, reach))
    return graph.add("Conv", [given, weight], (n, 2, made), pads=pads)


def _regrouped(graph: Graph, given: str, _: Callable[[int, int], int]) -> str:
    """Samples and rows as one dimension, and back."""
    n, rows, size = graph.shape[given]
    flat = graph.add("Reshape", [given, graph.ints(n * rows, size)], (n * rows, size))
    wide = graph.add("Gemm", [flat, graph.weight((3, size))], (n * rows, 3), transB=1)
    return graph.add("Reshape", [wide, graph.ints(n, rows, 3)], (n, rows, 3))


SEQUENCES = (
    *(_projected, _attended, _halves, _swapped, _centred, _along, _regrouped),
    lambda graph, given, _: graph.add("Softmax", [given], graph.shape[given], axis=-1),
)


@settings(max_examples=20 * DRAWS, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(
    ("steps", "most"), [(STEPS, (2, 3, 6, 6)), (SEQUENCES, (2, 4, 5))], ids=["images", "sequences"]
)
def test_values_are_those_of_the_model(
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    steps: Sequence[Callable[..., str]],
    most: tuple[int, ...],
) -> None:
    """Links, borders, boxes, broadcasts and views: the same values as onnx's evaluator.

    Only of graphs without a break: what a reader has of its own isn't of the model's inputs.
    """

    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    graph = Graph(tuple(draw(1 + (at == 3), size) for at, size in enumerate(most)), draw(0, 9))
    last = graph.add("Relu", ["x"], graph.input)
    for _ in range(draw(1, 6)):
        last = steps[draw(0, len(steps) - 1)](graph, last, draw)
    if steps is STEPS and draw(0, 1):
        n, c, h, w = graph.shape[last]
        flat = graph.add("Flatten", [last], (n, c * h * w))
        last = graph.add("MatMul", [flat, graph.weight((c * h * w, 3))], (n, 3))
    if steps is SEQUENCES or graph.nodes[-1].op_type == "Concat":
        last = graph.add("Relu", [last], graph.shape[last])
    imported = _imported(graph, tmp_path_factory.mktemp("g"), [last])
    assert not imported.workload.account.entries_of("not taken")
    if not imported.through_dram:
        _agrees(graph, imported, last)


KINDS = ("input", "output", "input", "output")


def _begun(shape: tuple[int, ...]) -> tuple[Graph, str]:
    """Return a graph that begins with a Relu, and what that makes."""
    graph = Graph(shape, seed=1)
    return graph, graph.add("Relu", ["x"], shape)


def _kinds(imported: ImportedWorkload) -> dict[str, str]:
    return {name: one.kind for name, one in imported.workload.tensors.items()}


def test_what_is_no_view_is_stored_and_said(tmp_path: Path) -> None:
    """A reshape that cuts channels breaks the link: 6 channels as 2 x 3, moved to the front."""
    graph, first = _begun((1, 6, 2, 2))
    cut = graph.add("Reshape", [first, graph.ints(1, 2, 3, 4)], (1, 2, 3, 4))
    last = graph.add("Relu", [cut], (1, 2, 3, 4))
    imported = _imported(graph, tmp_path, [last])
    assert imported.through_dram == ("t0",)
    assert [one.why for one in imported.workload.account.entries] == [
        "relu",
        "addresses what is stored",
        "relu",
    ]
    assert _kinds(imported) == dict(zip(("t0.I", "t0.O", "t2.I", "t2.O"), KINDS, strict=True))


def test_a_factor_for_each_channel_is_a_product(tmp_path: Path) -> None:
    """A depth-wise convolution of one position: no array has anything to add up there."""
    graph, first = _begun((1, 4, 1, 1))
    last = graph.add("Conv", [first, graph.weight((4, 1, 1, 1))], (1, 4, 1, 1), group=4)
    imported = _imported(graph, tmp_path, [last])
    assert [one.why for one in imported.workload.account.entries] == ["relu", "product"]
    assert imported.workload.macs == 0
    _agrees(graph, imported, last)
    assert simulate(imported.workload, load_accelerator("edge"), "naive").run.cycles > 0


def test_of_two_parts_of_a_tensor_one_is_the_readers_own(tmp_path: Path) -> None:
    """An operator sees one box of a tensor: the other half comes from DRAM; values are right."""
    graph, first = _begun((2, 3, 4))
    last = _halves(graph, first, lambda low, _: low)
    imported = _imported(graph, tmp_path, [last])
    assert imported.through_dram == ("t0.O",)
    assert _kinds(imported) == dict(zip(("t0.I", "t0.O", "t3.B", "t3.O"), KINDS, strict=True))
    result = simulate(imported.workload, load_accelerator("edge"), "naive")
    assert check(imported.workload, result.mapping, result.program)


def test_a_mean_over_one_element_is_that_element(tmp_path: Path) -> None:
    graph, first = _begun((2, 1, 3))
    last = graph.add("ReduceMean", [first], (2, 3), axes=[1], keepdims=0)
    imported = _imported(graph, tmp_path, [last])
    _agrees(graph, imported, last)
    assert simulate(imported.workload, load_accelerator("edge"), "naive").run.cycles > 0


def test_dimensions_that_are_grouped_are_views(tmp_path: Path) -> None:
    """Rows and columns as one dimension, which a product sums over as two ranks."""
    graph, first = _begun((1, 6, 2, 5))
    flat = graph.add("Reshape", [first, graph.ints(1, 6, 10)], (1, 6, 10))
    last = graph.add("MatMul", [flat, graph.weight((10, 4))], (1, 6, 4))
    imported = _imported(graph, tmp_path, [last])
    assert _kinds(imported)["t0.O"] == "intermediate"
    assert imported.workload.operators[1].ranks == {"m": 6, "k0": 2, "k1": 5, "n": 4}
    _agrees(graph, imported, last)


@pytest.mark.parametrize("outputs", [["t2"], ["t1", "t2"]])
def test_an_output_of_the_graph_goes_to_dram(tmp_path: Path, outputs: list[str]) -> None:
    graph, first = _begun((1, 3, 4, 4))
    second = graph.add("Relu", [first], (1, 3, 4, 4))
    graph.add("Relu", [second], (1, 3, 4, 4))
    kinds = _kinds(_imported(graph, tmp_path, outputs))
    assert [kinds[f"t{at}.O"] for at in range(3)] == [
        "intermediate",
        "output" if "t1" in outputs else "intermediate",
        "output",
    ]


def test_parts_that_someone_else_reads_are_not_joined(tmp_path: Path) -> None:
    graph, first = _begun((1, 3, 4, 4))
    second = graph.add("Relu", [first], (1, 3, 4, 4))
    both = graph.add("Concat", [first, second], (1, 6, 4, 4), axis=1)
    last = graph.add("Relu", [both], (1, 6, 4, 4))
    imported = _imported(graph, tmp_path, [last])
    assert imported.through_dram == ("t0", "t1")
    assert imported.workload.account.entries[2].why == "addresses what is stored"


def test_what_goes_from_layer_to_layer_stays_on_chip(tmp_path: Path) -> None:
    """Two layers and a residual behind little bandwidth: image, weights and result are moved.

    By hand, in bytes: the image is 2 x 4 x 4 (padding is stored), weights are 2 x 2 x 9 and 2 x 2,
    the result is 2 x 2 x 2.
    """
    graph = Graph((1, 2, 2, 2), seed=1)
    weights = [graph.weight((2, 2, reach, reach)) for reach in (3, 1)]
    first = graph.add("Conv", ["x", weights[0]], (1, 2, 2, 2), pads=[1] * 4)
    second = graph.add("Conv", [first, weights[1]], (1, 2, 2, 2))
    last = graph.add("Add", [second, first], (1, 2, 2, 2))
    path = tmp_path / "model.onnx"
    onnx.save(graph.model([last]), str(path))
    workload = load_onnx(path, None, 1).workload
    moved = []
    for held in ("true", "false"):
        sets = [f"compiler.resident={held}", "dram.bandwidth_bytes_per_second=100 MB/s"]
        run = simulate(workload, load_accelerator("toy", sets), "flat").run
        moved.append(dram_total(run.moved))
    least = 2 * 4 * 4 + 2 * 2 * 9 + 2 * 2 + 2 * 2 * 2
    assert moved == [least, least + 5 * 2 * 2 * 2]  # two tensors go out, and come in three times
