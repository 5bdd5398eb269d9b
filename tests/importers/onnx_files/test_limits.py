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
from tests.importers.onnx_files.models import constants_of, hollow, onnx_nodes, save, write
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
    nodes = [node(kind, inputs[kind], ["big"]), node("Relu", ["x"], ["y"])]
    path = write(
        tmp_path,
        "x[3] -> big:int64[1] y[3]",
        nodes,
        constants_of("zero=0 one=1 ones=[1] two=[0,1]")
        | {"n": np.array(size), "n1": np.array([size]), "pads": np.array([0, size])},
    )
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
    path = write(tmp_path, "x[3] -> c30:int64 y[3]", nodes, "c0=[1,1]")
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
    path = write(tmp_path, f"x0[4] z[{10**8}] -> v y", nodes)
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
    model = onnx.load(write(tmp_path, "x0[3,4] -> x1000[3,4]", nodes, constants))
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
    path = write(tmp_path, "x[3] -> y[3]", nodes, {"yes": np.array([True]).reshape(())})
    assert len(faults_of(load_onnx, path)) == 1


def test_an_output_that_is_declared_as_it_is_not(tmp_path: Path) -> None:
    path = write(tmp_path, "x[3,5] -> y[7,7]", "y = MatMul(x, w)", "w[5,6]")
    assert load_onnx(path).workload.macs == 3 * 5 * 6


def test_two_weights_of_one_name_are_no_model(tmp_path: Path) -> None:
    """Nobody knows which of them a node reads, also where both have type and shape alone."""
    weights = {"first": hollow("w", 100, 100), "second": hollow("w", 100, 50)}
    path = write(tmp_path, "x[4,100] -> y[4,50]", "y = MatMul(x, w)", weights)
    assert "single static" in refusal_of(load_onnx, path)


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
    path = write(tmp_path, "x[3,2] -> y[3,4]", nodes, {"yes": np.array([True]).reshape(())})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "w.bin").write_bytes(b"x" * 10_000)
    monkeypatch.chdir(elsewhere)
    assert load_onnx(path).workload.macs == 3 * 2 * 4


def test_arithmetic_of_constants_warns_of_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "x[3] -> q:int64[] y[3]", "q = Div(n, zero); y = Relu(x)", "n=3 zero=0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_onnx(path)


def test_long_names_of_dimensions_make_short_messages(tmp_path: Path) -> None:
    path = write(tmp_path, f"x[{'n' * 3000}] -> y[n]", "y = Relu(x)")
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
    path = write(tmp_path, f"x{shape} -> a{shape} y{shape}", nodes)
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
    path = write(tmp_path, "x[2,3] -> y[2,3] o[a,b] e[c,d]", nodes)
    account = load_onnx(path).workload.account
    left = {entry.kind for entry in account.entries_of("not taken")}
    assert "EmbedLayerNormalization" in left
    if not inputs:
        assert kind in left
