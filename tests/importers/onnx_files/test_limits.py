"""ONNX files that would take much memory, or read what isn't theirs: refused, or read cheaply."""

import math
import resource
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from simaccel.errors import InputError
from simaccel.importers.onnx_files import load_onnx
from simaccel.importers.onnx_files.growth import ShapeBounds
from tests.importers.onnx_files.models import Type, hollow, onnx_nodes, save
from tests.refusals import faults_of, refusal_of

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
_MOST_GROWTH = 200_000
"""KiB that reading a file of a few hundred bytes may take."""


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("size", [400_000_000, 10**10, 2**62])
@pytest.mark.parametrize("kind", ["ConstantOfShape", "Range", "Tile", "Expand", "OneHot", "Pad"])
def test_a_small_file_takes_no_memory(kind: str, size: int, tmp_path: Path) -> None:
    """The output is declared with one element, which is not so."""
    inputs = {
        "ConstantOfShape": ["n1"],
        "Range": ["zero", "n", "one"],
        "Tile": ["ones", "n1"],
        "Expand": ["ones", "n1"],
        "OneHot": ["ones", "n", "two"],
        "Pad": ["ones", "pads"],
    }
    constants = {
        "n": np.array(size),
        "n1": np.array([size]),
        "zero": np.array(0),
        "one": np.array(1),
        "ones": np.array([1]),
        "two": np.array([0, 1]),
        "pads": np.array([0, size]),
    }
    nodes = [node(kind, inputs[kind], ["big"]), node("Relu", ["x"], ["y"])]
    outputs: dict[str, Any] = {"big": (I64, [1]), "y": (F32, [3])}
    path = save(tmp_path / "m.onnx", nodes, {"x": (F32, [3])}, outputs, constants)
    before = _peak()
    with suppress(InputError):  # a size that no layer has
        load_onnx(path)
    assert _peak() - before < _MOST_GROWTH


_DOUBLING: dict[str, list[onnx.NodeProto]] = {
    "concatenated sizes": [node("Concat", [f"c{i}"] * 2, [f"c{i + 1}"], axis=0) for i in range(30)],
    "gathered dimensions": [node("Gather", [f"c{i}"] * 2, [f"c{i + 1}"]) for i in range(30)],
    "dimensions by sizes": [
        *(node("Concat", [f"c{i}"] * 2, [f"c{i + 1}"], axis=0) for i in range(20)),
        *(node("ConstantOfShape", ["c20"], [f"c{i}"]) for i in range(21, 30)),
        node("Identity", ["c29"], ["c30"]),
    ],
}


@pytest.mark.parametrize("kind", _DOUBLING)
def test_shapes_that_double_are_refused_before_they_are_made(kind: str, tmp_path: Path) -> None:
    """Thirty nodes of these kinds made 5 GB of shapes, from a file of 2 KB."""
    nodes = [*_DOUBLING[kind], node("Relu", ["x"], ["y"])]
    outputs: dict[str, Any] = {"c30": (I64, None), "y": (F32, [3])}
    constants = {"c0": np.array([1, 1])}
    path = save(tmp_path / "m.onnx", nodes, {"x": (F32, [3])}, outputs, constants)
    before = _peak()
    with pytest.raises(InputError, match=r"m\.onnx: shapes: got .*; allowed: at most 4194304 numb"):
        load_onnx(path)
    assert _peak() - before < _MOST_GROWTH


_WINDOWS: dict[str, tuple[onnx.NodeProto, list[int], list[int]]] = {
    "strides": (node("ConvTranspose", ["x", "w"], ["y"], strides=[10**6]), [1, 4, 8], [10**6 + 1]),
    "a long filter": (node("Conv", ["x", "w"], ["y"], pads=[10**9, 0]), [1, 4, 8], [10**9]),
    "a long window": (
        node("AveragePool", ["x"], ["y"], kernel_shape=[10**9], pads=[10**9, 10**9]),
        [1, 4, 8],
        [],
    ),
}


@pytest.mark.parametrize("kind", _WINDOWS)
def test_long_windows_are_named_at_once(kind: str, tmp_path: Path) -> None:
    """A file of 130 bytes took 7 GB, or went over a million million taps."""
    large, shape, reach = _WINDOWS[kind]
    inputs: dict[str, Any] = {"x": (F32, shape), "w": (F32, [4, 4, *reach]), "z": (F32, [3])}
    outputs: dict[str, Any] = {"y": (F32, None), "v": (F32, [3])}
    path = save(tmp_path / "m.onnx", [large, node("Relu", ["z"], ["v"])], inputs, outputs)
    before = _peak()
    left = load_onnx(path).workload.account.entries_of("not taken")
    assert [entry.why for entry in left if entry.kind == large.op_type] == [
        "more than 256 phases of strides"
        if kind == "strides"
        else "a window, stride or dilation of 1000000000"
    ]
    assert _peak() - before < _MOST_GROWTH


def test_numbers_that_are_no_sizes_are_not_followed(tmp_path: Path) -> None:
    """ONNX's inference lists each number of one dimension: 60 bytes each, of a sum's as well."""
    nodes = [node("Concat", [f"x{i}"] * 2, [f"x{i + 1}"], axis=0) for i in range(36)]
    nodes += [node("Add", ["x36", "x36"], ["v"]), node("Add", ["z", "z"], ["y"])]
    inputs: dict[str, Any] = {"x0": (F32, [4]), "z": (F32, [10**8])}
    outputs: dict[str, Any] = {"v": (F32, None), "y": (F32, None)}
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs)
    before = _peak()
    workload = load_onnx(path).workload
    sizes = {math.prod(operator.ranks.values()) for operator in workload.operators}
    assert sizes == {4 * 2**36, 10**8}
    assert _peak() - before < _MOST_GROWTH


def test_sizes_cut_from_sizes_do_not_add_up(tmp_path: Path) -> None:
    """As exporters write a reshape of all but the last dimension, a thousand times."""
    nodes = []
    for at in range(1000):
        nodes += [
            node("Shape", [f"x{at}"], [f"s{at}"]),
            node("Slice", [f"s{at}", "zero", "last"], [f"l{at}"]),
            node("Concat", [f"l{at}", "two", "two"], [f"c{at}"], axis=0),
            node("Reshape", [f"x{at}", f"c{at}"], [f"h{at}"]),
            node("Shape", [f"h{at}"], [f"t{at}"]),
            node("Slice", [f"t{at}", "minus", "end"], [f"e{at}"]),
            node("Concat", [f"l{at}", "four"], [f"d{at}"], axis=0),
            node("Reshape", [f"h{at}", f"d{at}"], [f"x{at + 1}"]),
        ]
    sizes = {"zero": 0, "last": -1, "two": 2, "minus": -2, "end": 2**63 - 1, "four": 4}
    constants = {name: np.array([size]) for name, size in sizes.items()}
    inputs: dict[str, Any] = {"x0": (F32, [3, 4])}
    model = onnx.load(save(tmp_path / "m.onnx", nodes, inputs, {"x1000": (F32, [3, 4])}, constants))
    bounds = ShapeBounds(constants)
    bounds.take(model.graph)
    # dimensions and numbers of each: 2 + 2, 2 + 1, 1 + 3, 3, 3 + 3, 3 + 2, 1 + 2 and 2
    assert bounds.total < 1000 * 40


def test_functions_that_double_are_refused_before_they_are_inlined(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function(
            "own",
            f"f{at}",
            ["a"],
            ["c"],
            [
                node(f"f{at + 1}", ["a"], ["b"], domain="own"),
                node(f"f{at + 1}", ["b"], ["c"], domain="own"),
            ],
            opsets,
        )
        for at in range(30)
    ]
    functions.append(
        helper.make_function("own", "f30", ["a"], ["c"], onnx_nodes("c = Relu(a)"), opsets)
    )
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        onnx_nodes("y = own.f0(x)"), "g", [info("x", F32, [3])], [info("y", F32, [3])]
    )
    model = helper.make_model(graph, opset_imports=opsets, functions=functions)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=f"nodes: got {2**30}; allowed: at most 100000 nodes"):
        load_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize("kind", ["Shape", "Size"])
def test_the_shape_of_what_is_huge(kind: str, tmp_path: Path) -> None:
    nodes = [node(kind, ["x"], ["s"]), node("Relu", ["z"], ["y"])]
    inputs: dict[str, Any] = {"x": (F32, [1, 3, 10**9, 8]), "z": (F32, [3])}
    outputs: dict[str, Any] = {"s": (I64, [4] if kind == "Shape" else []), "y": (F32, [3])}
    before = _peak()
    load_onnx(save(tmp_path / "m.onnx", nodes, inputs, outputs))
    assert _peak() - before < _MOST_GROWTH


def test_a_branch_with_another_number_of_outputs(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    branch = helper.make_graph(
        onnx_nodes("a = Relu(x); b = Neg(x)"),
        "branch",
        [],
        [info("a", F32, [3]), info("b", F32, [3])],
    )
    nodes = [node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)]
    constants = {"yes": np.array([True]).reshape(())}
    path = save(tmp_path / "m.onnx", nodes, {"x": (F32, [3])}, {"y": (F32, [3])}, constants)
    assert len(faults_of(load_onnx, path)) == 1


def test_an_output_that_is_declared_as_it_is_not(tmp_path: Path) -> None:
    nodes = onnx_nodes("y = MatMul(x, w)")
    constants = {"w": np.zeros((5, 6), np.float32)}
    path = save(tmp_path / "m.onnx", nodes, {"x": (F32, [3, 5])}, {"y": (F32, [7, 7])}, constants)
    assert load_onnx(path).workload.macs == 3 * 5 * 6


def test_two_weights_of_one_name_are_no_model(tmp_path: Path) -> None:
    """Nobody knows which of them a node reads, also where both have type and shape alone."""
    weights = {"first": hollow("w", 100, 100), "second": hollow("w", 100, 50)}
    nodes, types = onnx_nodes("y = MatMul(x, w)"), ({"x": (F32, [4, 100])}, {"y": (F32, [4, 50])})
    assert "single static" in refusal_of(
        load_onnx, save(tmp_path / "m.onnx", nodes, *types, weights)
    )


def test_a_branch_whose_weights_are_beside_is_not_read_from_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = helper.make_tensor_value_info
    weights = TensorProto(name="w", dims=[2, 4], data_type=F32, data_location="EXTERNAL")
    weights.external_data.add(key="location", value="w.bin")
    branch = helper.make_graph(
        onnx_nodes("a = MatMul(x, w)"), "b", [], [info("a", F32, [3, 4])], [weights]
    )
    nodes = [node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"x": (F32, [3, 2])},
        {"y": (F32, [3, 4])},
        {"yes": np.array([True]).reshape(())},
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "w.bin").write_bytes(b"x" * 10_000)
    monkeypatch.chdir(elsewhere)
    assert load_onnx(path).workload.macs == 3 * 2 * 4


def test_arithmetic_of_constants_warns_of_nothing(tmp_path: Path) -> None:
    nodes = onnx_nodes("q = Div(n, zero); y = Relu(x)")
    constants = {"n": np.array(3), "zero": np.array(0)}
    outputs: dict[str, Any] = {"q": (I64, []), "y": (F32, [3])}
    path = save(tmp_path / "m.onnx", nodes, {"x": (F32, [3])}, outputs, constants)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_onnx(path)


def test_long_names_of_dimensions_make_short_messages(tmp_path: Path) -> None:
    inputs: dict[str, Any] = {"x": (F32, ["n" * 3000])}
    path = save(tmp_path / "m.onnx", onnx_nodes("y = Relu(x)"), inputs, {"y": (F32, ["n"])})
    assert len(refusal_of(load_onnx, path)) < 500


@pytest.mark.parametrize(
    ("kind", "names", "shape"),
    [
        ("MultiHeadAttention", ["x", "x", "x"], [2, 5, 64]),  # no number of heads
        ("GroupQueryAttention", ["x"], [5, 64]),
        ("MatMulNBits", ["x", "x", "x"], [5, 64]),
        ("SkipLayerNormalization", ["x"], [5, 64]),
        ("QLinearConv", ["x", "x"], [1, 4, 9, 9]),
    ],
)
def test_a_node_that_lacks_inputs_or_attributes_is_named(
    tmp_path: Path, kind: str, names: list[str], shape: list[int]
) -> None:
    nodes = [
        node(kind, names, ["a"], domain="com.microsoft"),
        node("Relu", ["x"], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    kinds: dict[str, Any] = {"x": (F32, shape)}
    made: dict[str, Any] = dict.fromkeys(("a", "y"), (F32, shape))
    path = save(tmp_path / "m.onnx", nodes, kinds, made, domains={"com.microsoft": 1})
    account = load_onnx(path).workload.account
    assert f"{kind}_0" in [one.name for one in account.entries_of("not taken")]


@pytest.mark.parametrize(
    "kind", ["Gather", "GatherND", "Tile", "Reshape", "Split", "Transpose", "Slice", "Unsqueeze"]
)
@pytest.mark.parametrize("inputs", [[], ["x"]])
def test_a_node_without_its_inputs_is_named(tmp_path: Path, kind: str, inputs: list[str]) -> None:
    """Among the runtime's kinds, which ONNX's checker doesn't look at."""
    nodes = [
        helper.make_node(kind, inputs, ["o"], domain="com.microsoft"),
        helper.make_node("EmbedLayerNormalization", inputs, ["e"], domain="com.microsoft"),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    made: dict[str, Type] = {
        "y": (TensorProto.FLOAT, [2, 3]),
        "o": (TensorProto.FLOAT, ["a", "b"]),
        "e": (TensorProto.FLOAT, ["c", "d"]),
    }
    given: dict[str, Type] = {"x": (TensorProto.FLOAT, [2, 3])}
    path = save(tmp_path / "m.onnx", nodes, given, made, domains={"com.microsoft": 1})
    account = load_onnx(path).workload.account
    left = {entry.kind for entry in account.entries_of("not taken")}
    assert "EmbedLayerNormalization" in left
    if not inputs:
        assert kind in left
