"""Forms that exporters write and few try: elements are read once, and what isn't read is named."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper

from simaccel import load_accelerator, simulate
from simaccel.analytic.floor.compulsory import distinct_bytes
from simaccel.diagnosis.check import check
from simaccel.errors import InputError
from simaccel.importers.onnx_files import load_onnx
from simaccel.run.memories import reformed_dram_bytes
from simaccel.schedulers import make_mapping
from simaccel.workload import Workload, parse_workload
from tests.importers.onnx_files.models import Type, onnx_nodes, save

F32, I8, I32 = (getattr(TensorProto, one) for one in ("FLOAT", "INT8", "INT32"))
EDGE = load_accelerator("edge_tpu")
node = helper.make_node


Array = npt.NDArray[Any]


def _numbers(*values: int) -> Array:
    return np.array(values, np.int64)


def _floats(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def _made(
    path: Path,
    nodes: list[Any],
    inputs: dict[str, list[int]],
    constants: dict[str, Array],
    opset: int = 17,
) -> Workload:
    """Return a model whose outputs say no shape; its values are right as it runs.

    Outputs are `y` and all that no node reads.
    """
    kinds: dict[str, Type] = {name: (F32, shape) for name, shape in inputs.items()}
    read = {name for one in nodes for name in one.input}
    made = [name for one in nodes for name in one.output if name and name not in {*read, "y"}]
    outputs: dict[str, Any] = dict.fromkeys(["y", *made], (F32, None))
    save(path, nodes, kinds, outputs, constants, opset=opset)
    workload = load_onnx(path).workload
    result = simulate(workload, EDGE, "naive-m")
    assert check(workload, result.mapping, result.program)
    return workload


def _left(workload: Workload) -> list[str]:
    return [one.why for one in workload.account.entries_of("not taken")]


@pytest.mark.parametrize(("heads", "size"), [(8, 16), (8, 8), (4, 8)])
@pytest.mark.parametrize("late", [False, True])
def test_keys_that_heads_share_are_read_once(
    tmp_path: Path, heads: int, size: int, *, late: bool
) -> None:
    keys = onnx_nodes(
        "k5 = Unsqueeze(k, two); ke = Expand(k5, wide); kr = Reshape(ke, flat); "
        "kt = Transpose <perm = [0, 1, 3, 2]> (kr)"
    )
    values = onnx_nodes("v5 = Unsqueeze(v, two); ve = Expand(v5, wide); vr = Reshape(ve, flat)")
    scores = onnx_nodes("l = MatMul(q, kt); p = Softmax <axis = -1> (l)")
    before, behind = ([], values) if late else (values, [])
    nodes = [*keys, *before, *scores, *behind, node("MatMul", ["p", "vr"], ["y"])]
    constants = {
        "two": _numbers(2),
        "wide": _numbers(1, 2, heads // 2, 10, size),
        "flat": _numbers(1, heads, 10, size),
    }
    shared = [1, 2, 10, size]
    inputs = {"q": [1, heads, 10, size], "k": shared, "v": shared}
    workload = _made(tmp_path / "m.onnx", nodes, inputs, constants)
    assert workload.macs == 2 * heads * 10 * 10 * size
    assert distinct_bytes(workload) == 4 * 10 * size * (heads + 2 + 2 + heads)  # q, k, v, y


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(
    ("repeat", "constants", "rows", "inner"),
    [
        ([("Tile", "t")], {"t": _numbers(3, 1)}, 12, 8),
        ([("Tile", "t")], {"t": _numbers(1, 2)}, 4, 16),
        ([("Unsqueeze", "z"), ("Expand", "t")], {"z": _numbers(0), "t": _numbers(5, 4, 8)}, 20, 8),
        (
            [("Unsqueeze", "one"), ("Expand", "t"), ("Reshape", "f")],
            {"one": _numbers(1), "t": _numbers(4, 3, 8), "f": _numbers(12, 8)},
            12,
            8,
        ),
    ],
)
def test_rows_that_are_repeated_are_read_so_and_named(
    tmp_path: Path,
    repeat: list[tuple[str, str]],
    constants: dict[str, Any],
    rows: int,
    inner: int,
    *,
    behind: bool,
) -> None:
    nodes, at = (onnx_nodes("r = Relu(x)"), "r") if behind else ([], "x")
    for number, (kind, given) in enumerate(repeat):
        nodes.append(node(kind, [at, given], [f"t{number}"]))
        at = f"t{number}"
    nodes.append(node("MatMul", [at, "w"], ["y"]))
    every = {**constants, "w": _floats(inner, 6)}
    workload = _made(tmp_path / "m.onnx", nodes, {"x": [4, 8]}, every)
    assert workload.macs == rows * inner * 6
    assert _left(workload) == [f"32 elements, read as the {rows * inner} that they are repeated to"]


@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize("behind", [False, True])
def test_a_padding_before_a_convolution_is_its_own(
    tmp_path: Path, opset: int, *, behind: bool
) -> None:
    pads = [0, 0, 1, 0, 0, 0, 1, 2]
    given: Any = {"pads": pads} if opset < 11 else {}
    names = ["r" if behind else "x", *(["p"] if opset >= 11 else [])]
    nodes = [
        *(onnx_nodes("r = Relu(x)") if behind else []),
        node("Pad", names, ["b"], **given),
        node("Conv", ["b", "w"], ["y"], pads=[0, 1, 0, 0], strides=[2, 1]),
    ]
    constants = {"w": _floats(6, 4, 3, 3)} | ({"p": _numbers(*pads)} if opset >= 11 else {})
    workload = _made(tmp_path / "m.onnx", nodes, {"x": [1, 4, 9, 9]}, constants, opset=opset)
    rows, columns = (9 + 2 - 3) // 2 + 1, 9 + 2 + 1 - 3 + 1
    assert workload.macs == 6 * rows * columns * 36
    assert distinct_bytes(workload) == 4 * (324 + 216 + 6 * rows * columns)
    assert not _left(workload)


@pytest.mark.parametrize(
    ("how", "value"),
    [({"mode": "reflect"}, None), ({}, np.array(1, np.float32)), ({}, np.array(0, np.float32))],
)
def test_a_padding_that_is_no_zeros_or_read_twice_stays(
    tmp_path: Path, how: dict[str, str], value: Array | None
) -> None:
    names = ["x", "p", *(["v"] if value is not None else [])]
    nodes = [node("Pad", names, ["b"], **how), node("Conv", ["b", "w"], ["y"])]
    twice = value is not None and not value.any()
    if twice:
        nodes += onnx_nodes("z = Relu(b); u = MatMul(z, m)")
    constants = {"p": _numbers(0, 0, 1, 1, 0, 0, 1, 1), "w": _floats(6, 4, 3, 3)}
    constants |= {"v": value} if value is not None else {}
    constants |= {"m": _floats(11, 2)} if twice else {}
    workload = _made(tmp_path / "m.onnx", nodes, {"x": [1, 4, 9, 9]}, constants)
    assert workload.macs == 6 * 81 * 36 + twice * 4 * 11 * 11 * 2
    assert workload.shapes[workload.operators[0].inputs[0].tensor][-1] == 11


SCALES = np.array([1, 1, 2, 2], np.float32)
DIFFER: dict[str, tuple[list[Any], dict[str, list[int]], dict[str, Any], int]] = {
    "enlarged": (
        onnx_nodes('r = Resize(x, "", s); y = Conv(r, w)'),
        {"x": [1, 4, 5, 5]},
        {"s": SCALES, "w": _floats(3, 4, 1, 1)},
        100 + 12 + 300,
    ),
    "rows of a product": (
        onnx_nodes("e = Tile(x, t); y = MatMul(e, w)"),
        {"x": [2, 8]},
        {"t": _numbers(3, 1), "w": _floats(8, 4)},
        16 + 32 + 24,
    ),
    "rows that two products read": (
        onnx_nodes("e = Expand(x, t); y = MatMul(e, w); z = MatMul(e, v)"),
        {"x": [1, 8]},
        {"t": _numbers(16, 8), "w": _floats(8, 4), "v": _floats(8, 3)},
        8 + 32 + 24 + 64 + 48,
    ),
    "rows of a softmax": (
        onnx_nodes("e = Expand(x, t); y = Softmax <axis = -1> (e)"),
        {"x": [1, 8]},
        {"t": _numbers(16, 8)},
        8 + 128,
    ),
    "a column and a row": (onnx_nodes("y = Add(a, b)"), {"a": [5, 1], "b": [1, 7]}, {}, 5 + 7 + 35),
    "a constant that is repeated": (
        onnx_nodes("s = Shape(a); e = Expand(w, s); y = Add(a, e)"),
        {"a": [4, 6, 8]},
        {"w": _floats(1, 1, 8)},
        192 + 8 + 192,
    ),
    "rows of a table that repeat": (
        onnx_nodes("b = Gather(t, at); y = Add(x, b)"),
        {"x": [49, 3]},
        {"t": _floats(13, 3), "at": _numbers(*(number * 5 % 13 for number in range(49)))},
        147 + 13 * 3 + 147,
    ),
    "heads that a gather repeats": (
        onnx_nodes("w = Gather <axis = 1> (v, at); y = MatMul(p, w)"),
        {"p": [1, 4, 5, 9], "v": [1, 2, 9, 16]},
        {"at": _numbers(-2, -2, -1, -1)},
        4 * 5 * 9 + 2 * 9 * 16 + 4 * 5 * 16,
    ),
    "heads put behind themselves": (
        onnx_nodes("w = Concat <axis = 1> (v, v); y = MatMul(p, w)"),
        {"p": [1, 4, 5, 9], "v": [1, 2, 9, 16]},
        {},
        4 * 5 * 9 + 2 * 9 * 16 + 4 * 5 * 16,
    ),
    "the last row and the first": (
        onnx_nodes("w = Gather(v, at); y = MatMul(w, m)"),
        {"v": [4, 8]},
        {"at": _numbers(3, 0), "m": _floats(8, 3)},
        16 + 24 + 6,
    ),
    "weights that are cast": (
        [node("Cast", ["w"], ["c"], to=F32), node("MatMul", ["x", "c"], ["y"])],
        {"x": [4, 8]},
        {"w": np.zeros((8, 6), np.float16)},
        32 + 24 + 24,
    ),
    "a vector times a vector": (onnx_nodes("y = MatMul(a, b)"), {"a": [8], "b": [8]}, {}, 17),
    "a number squared, and slopes of channels": (
        onnx_nodes("m = Mul(x, x); y = PRelu(m, s)"),
        {"x": [1, 4, 5, 5]},
        {"s": _floats(4, 1, 1)},
        100 + 4 + 100,
    ),
}


@pytest.mark.parametrize("case", DIFFER)
def test_elements_that_repeat_others_need_not_come(tmp_path: Path, case: str) -> None:
    nodes, inputs, constants, elements = DIFFER[case]
    workload = _made(tmp_path / "m.onnx", nodes, inputs, constants)
    assert distinct_bytes(workload) == 4 * elements
    assert distinct_bytes(parse_workload(dict(workload.parameters))) == 4 * elements


def test_a_resize_to_a_part_reads_all(tmp_path: Path) -> None:
    nodes = onnx_nodes('b = Resize <mode = "linear"> (x, "", s); y = Conv(b, w)')
    constants = {"s": np.array([1, 1, 0.5, 0.25], np.float32), "w": _floats(5, 4, 3, 3)}
    workload = _made(tmp_path / "m.onnx", nodes, {"x": [1, 4, 16, 16]}, constants)
    assert workload.macs == 5 * 6 * 2 * 36
    assert distinct_bytes(workload) == 4 * (4 * 16 * 16 + 180 + 5 * 6 * 2)


def test_a_resize_that_is_read_as_what_it_makes_says_so(tmp_path: Path) -> None:
    nodes = onnx_nodes('b = Resize(x, "", s); y = Conv(b, w)')
    constants = {"s": np.array([1, 1, 2, 2], np.float32), "w": _floats(5, 4, 3, 3)}
    workload = _made(tmp_path / "m.onnx", nodes, {"x": [1, 4, 8, 8]}, constants)
    assert _left(workload) == ["256 elements, read as the 1024 that are made"]


Case = tuple[list[Any], dict[str, list[int]], dict[str, Any], list[str]]
SCORES = onnx_nodes("p = Softmax <axis = -1> (m); y = MatMul(p, v)")
QKV = {"q": [2, 10, 8], "k": [2, 8, 12], "v": [2, 12, 8]}
CASES: dict[str, Case] = {
    "a bias of the scores, a constant": (
        [node("MatMul", ["q", "k"], ["l"]), node("Add", ["l", "b"], ["m"]), *SCORES],
        QKV,
        {"b": _floats(1, 10, 12)},
        ["Add_1: b"],
    ),
    "a number is no mask": (
        [node("MatMul", ["q", "k"], ["l"]), node("Mul", ["l", "b"], ["m"]), *SCORES],
        QKV,
        {"b": np.array(0.5, np.float32)},
        [],
    ),
    "a bias": (
        onnx_nodes("y = Gemm(x, w, c)"),
        {"x": [4, 8]},
        {"w": _floats(8, 6), "c": _floats(6)},
        [],
    ),
    "states before": (
        onnx_nodes('"", y = RNN <hidden_size = 6> (x, w, r, "", "", h)'),
        {"x": [3, 2, 5], "h": [1, 2, 6]},
        {"w": _floats(1, 6, 5), "r": _floats(1, 6, 6)},
        ["RNN_0: h"],
    ),
    "gains of channels": (
        onnx_nodes("y = InstanceNormalization(x, g, b)"),
        {"x": [1, 4, 5, 5]},
        {"g": _floats(4), "b": _floats(4)},
        ["InstanceNormalization_0: g", "InstanceNormalization_0: b"],
    ),
    "scores that go out, too": (
        onnx_nodes('y, "", "", s = Attention(q, k, v)'),
        {name: [1, 4, 6, 8] for name in "qkv"},
        {},
        ["s"],
    ),
    "an output whose rows repeat": (
        onnx_nodes("e = Tile(x, t); y = Relu(e)"),
        {"x": [2, 8]},
        {"t": _numbers(3, 1)},
        ["y"],
    ),
    "an output that is a copy": (
        onnx_nodes("y = Concat <axis = 0> (k, x); z = MatMul(y, w)"),
        {"k": [7, 8], "x": [1, 8]},
        {"w": _floats(8, 6)},
        ["y"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_inputs_that_are_not_read_are_named(tmp_path: Path, case: str) -> None:
    nodes, inputs, constants, left = CASES[case]
    opset = 23 if nodes[0].op_type == "Attention" else 17
    workload = _made(tmp_path / "m.onnx", nodes, inputs, constants, opset)
    assert [one.name for one in workload.account.entries_of("not taken")] == left
    workload.account.require_modelled()


@pytest.mark.parametrize("domain", ["acme", "com.microsoft.nchwc"])
def test_a_convolution_of_others_is_not_onnxs(tmp_path: Path, domain: str) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"], domain=domain),
        node("Conv", ["a", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    made: dict[str, Type] = {"y": (F32, [1, 4, 9, 9]), "a": (F32, [1, 4, 9, 9])}
    constants = {"w": _floats(4, 4, 3, 3)}
    path = tmp_path / "m.onnx"
    save(path, nodes, {"x": (F32, [1, 4, 9, 9])}, made, constants, domains={domain: 1})
    account = load_onnx(path).workload.account
    assert [one.name for one in account.entries_of("not taken")] == ["Conv_0"]
    with pytest.raises(InputError, match=f"a node of the domain {domain}"):
        account.require_modelled()


def test_channels_that_stand_last_are_refused(tmp_path: Path) -> None:
    quantised = ["x", "s", "z", "w", "s", "z", "s", "z"]
    kinds: dict[str, Type] = {"x": (I8, [1, 9, 9, 4])}
    nodes = [node("QLinearConv", quantised, ["y"], domain="com.microsoft", channels_last=1)]
    constants = {
        "s": np.array(0.1, np.float32),
        "z": np.array(0, np.int8),
        "w": np.zeros((6, 4, 3, 3), np.int8),
    }
    path = tmp_path / "m.onnx"
    outputs: dict[str, Type] = {"y": (I8, [1, 7, 7, 6])}
    save(path, nodes, kinds, outputs, constants, domains={"com.microsoft": 1})
    with pytest.raises(InputError, match="none is modelled of QLinearConv"):
        load_onnx(path)


def test_an_input_without_a_shape_gets_its_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    nodes = onnx_nodes("y = MatMul(x, w)")
    nothing: Any = None
    save(path, nodes, {"x": (F32, nothing)}, {"y": (F32, nothing)}, {"w": _floats(8, 6)})
    assert load_onnx(path, {"x.0": 4, "x.1": 8}).workload.macs == 4 * 48
    with pytest.raises(
        InputError, match=r"--dim x\.0: got nothing; allowed: dim=x\.0=SIZE and so on"
    ):
        load_onnx(path)


def test_what_operators_give_each_other_in_another_form_need_not_move(tmp_path: Path) -> None:
    """A U of two levels: the image, all weights and the output come and go, each once."""
    nodes = [
        node("Conv", ["x", "w1"], ["skip"], pads=[1] * 4),
        node("MaxPool", ["skip"], ["small"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["small", "w2"], ["deep"], pads=[1] * 4),
        node("ConvTranspose", ["deep", "wt"], ["up"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", ["up", "skip", "x"], ["both"], axis=1),
        node("Conv", ["both", "w3"], ["y"], pads=[1] * 4),
    ]
    shapes = {"w1": (4, 3, 3, 3), "w2": (4, 4, 3, 3), "wt": (4, 4, 2, 2), "w3": (2, 11, 3, 3)}
    constants = {name: _floats(*shape) for name, shape in shapes.items()}
    workload = _made(tmp_path / "m.onnx", nodes, {"x": [1, 3, 16, 16]}, constants)
    weights = 4 * 3 * 9 + 4 * 4 * 9 + 4 * 4 * 4 + 2 * 11 * 9
    assert distinct_bytes(workload) == 4 * (3 * 16 * 16 + weights + 2 * 16 * 16)
    on = load_accelerator("edge")
    moved = simulate(workload, on, make_mapping(workload, on, "naive-m")).run.moved
    both = 11 * 18 * 18  # with the zeros around it
    assert reformed_dram_bytes(workload, moved) == 4 * (4 * 256 + 4 * 256 + both)


def test_attributes_of_other_tools_are_named_and_change_nothing(tmp_path: Path) -> None:
    """As ZigZag and Stream write the bits of elements."""
    gemm = helper.make_node("Gemm", ["x", "w"], ["y"], name="one", act_size=8, transB=1)
    kinds: dict[str, Any] = {"x": (TensorProto.FLOAT, [32, 48])}
    made: dict[str, Any] = {"y": (TensorProto.FLOAT, [32, 64])}
    weights = {"w": np.zeros((64, 48), np.float32)}
    workload = load_onnx(save(tmp_path / "m.onnx", [gemm], kinds, made, weights)).workload
    assert workload.macs == 32 * 48 * 64
    left = {entry.name for entry in workload.account.entries_of("not taken")}
    assert left == {"one.act_size"}
