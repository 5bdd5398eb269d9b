"""Forms that exporters write and few try: elements are read once, and what isn't read is named."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper

from simaccel import load_accelerator, simulate
from simaccel.analytic.floor.compulsory import distinct_bytes
from simaccel.analytic.memories import reformed_dram_bytes
from simaccel.diagnosis.check import check
from simaccel.errors import InputError
from simaccel.importers.onnx_files import load_onnx
from simaccel.schedulers import make_mapping
from simaccel.workload import Workload, parse_workload
from tests.importers.onnx_files.models import constants_of, onnx_nodes, write

F32, I8, I32 = (getattr(TensorProto, one) for one in ("FLOAT", "INT8", "INT32"))
EDGE = load_accelerator("edge_tpu")
node = helper.make_node


Array = npt.NDArray[Any]


def _numbers(*values: int) -> Array:
    return np.array(values, np.int64)


def _floats(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def _made(
    folder: Path,
    nodes: str | list[Any],
    inputs: str,
    constants: str | Mapping[str, Any],
    opset: int = 17,
) -> Workload:
    """Return a model whose outputs say no shape; its values are right as it runs.

    Outputs are `y` and all that no node reads.
    """
    nodes = onnx_nodes(nodes) if isinstance(nodes, str) else nodes
    read = {name for one in nodes for name in one.input}
    made = [name for one in nodes for name in one.output if name and name not in {*read, "y"}]
    path = write(folder, f"{inputs} -> {' '.join(['y', *made])}", nodes, constants, opset=opset)
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
    constants = f"two=[2] wide=[1,2,{heads // 2},10,{size}] flat=[1,{heads},10,{size}]"
    inputs = f"q[1,{heads},10,{size}] k[1,2,10,{size}] v[1,2,10,{size}]"
    workload = _made(tmp_path, nodes, inputs, constants)
    assert workload.macs == 2 * heads * 10 * 10 * size
    assert distinct_bytes(workload) == 4 * 10 * size * (heads + 2 + 2 + heads)  # q, k, v, y


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(
    ("repeat", "constants", "rows", "inner"),
    [
        ("t0 = Tile(at, t)", "t=[3,1]", 12, 8),
        ("t0 = Tile(at, t)", "t=[1,2]", 4, 16),
        ("u = Unsqueeze(at, z); t0 = Expand(u, t)", "z=[0] t=[5,4,8]", 20, 8),
        (
            "u = Unsqueeze(at, one); e = Expand(u, t); t0 = Reshape(e, f)",
            "one=[1] t=[4,3,8] f=[12,8]",
            12,
            8,
        ),
    ],
)
def test_rows_that_are_repeated_are_read_so_and_named(
    tmp_path: Path, repeat: str, constants: str, rows: int, inner: int, *, behind: bool
) -> None:
    nodes = f"{repeat}; y = MatMul(t0, w)"
    nodes = f"at = Relu(x); {nodes}" if behind else nodes.replace("(at,", "(x,")
    workload = _made(tmp_path, nodes, "x[4,8]", f"{constants} w[{inner},6]")
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
    workload = _made(tmp_path, nodes, "x[1,4,9,9]", constants, opset=opset)
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
    workload = _made(tmp_path, nodes, "x[1,4,9,9]", constants)
    assert workload.macs == 6 * 81 * 36 + twice * 4 * 11 * 11 * 2
    assert workload.shapes[workload.operators[0].inputs[0].tensor][-1] == 11


DIFFER: dict[str, tuple[str | list[Any], str, str | dict[str, Any], int]] = {
    "enlarged": (
        'r = Resize(x, "", s); y = Conv(r, w)',
        "x[1,4,5,5]",
        "w[3,4,1,1] s:float=[1,1,2,2]",
        100 + 12 + 300,
    ),
    "rows of a product": (
        "e = Tile(x, t); y = MatMul(e, w)",
        "x[2,8]",
        "t=[3,1] w[8,4]",
        16 + 32 + 24,
    ),
    "rows that two products read": (
        "e = Expand(x, t); y = MatMul(e, w); z = MatMul(e, v)",
        "x[1,8]",
        "t=[16,8] w[8,4] v[8,3]",
        8 + 32 + 24 + 64 + 48,
    ),
    "rows of a softmax": (
        "e = Expand(x, t); y = Softmax <axis = -1> (e)",
        "x[1,8]",
        "t=[16,8]",
        8 + 128,
    ),
    "a column and a row": ("y = Add(a, b)", "a[5,1] b[1,7]", "", 5 + 7 + 35),
    "a constant that is repeated": (
        "s = Shape(a); e = Expand(w, s); y = Add(a, e)",
        "a[4,6,8]",
        "w[1,1,8]",
        192 + 8 + 192,
    ),
    "rows of a table that repeat": (
        "b = Gather(t, at); y = Add(x, b)",
        "x[49,3]",
        constants_of("t[13,3]") | {"at": _numbers(*(number * 5 % 13 for number in range(49)))},
        147 + 13 * 3 + 147,
    ),
    "heads that a gather repeats": (
        "w = Gather <axis = 1> (v, at); y = MatMul(p, w)",
        "p[1,4,5,9] v[1,2,9,16]",
        "at=[-2,-2,-1,-1]",
        4 * 5 * 9 + 2 * 9 * 16 + 4 * 5 * 16,
    ),
    "heads put behind themselves": (
        "w = Concat <axis = 1> (v, v); y = MatMul(p, w)",
        "p[1,4,5,9] v[1,2,9,16]",
        "",
        4 * 5 * 9 + 2 * 9 * 16 + 4 * 5 * 16,
    ),
    "the last row and the first": (
        "w = Gather(v, at); y = MatMul(w, m)",
        "v[4,8]",
        "at=[3,0] m[8,3]",
        16 + 24 + 6,
    ),
    "weights that are cast": (
        [node("Cast", ["w"], ["c"], to=F32), node("MatMul", ["x", "c"], ["y"])],
        "x[4,8]",
        "w:float16[8,6]",
        32 + 24 + 24,
    ),
    "a vector times a vector": ("y = MatMul(a, b)", "a[8] b[8]", "", 17),
    "a number squared, and slopes of channels": (
        "m = Mul(x, x); y = PRelu(m, s)",
        "x[1,4,5,5]",
        "s[4,1,1]",
        100 + 4 + 100,
    ),
}


@pytest.mark.parametrize("case", DIFFER)
def test_elements_that_repeat_others_need_not_come(tmp_path: Path, case: str) -> None:
    nodes, inputs, constants, elements = DIFFER[case]
    workload = _made(tmp_path, nodes, inputs, constants)
    assert distinct_bytes(workload) == 4 * elements
    assert distinct_bytes(parse_workload(dict(workload.parameters))) == 4 * elements


def test_a_resize_to_a_part_reads_all(tmp_path: Path) -> None:
    nodes = 'b = Resize <mode = "linear"> (x, "", s); y = Conv(b, w)'
    constants = "s:float=[1,1,0.5,0.25] w[5,4,3,3]"
    workload = _made(tmp_path, nodes, "x[1,4,16,16]", constants)
    assert workload.macs == 5 * 6 * 2 * 36
    assert distinct_bytes(workload) == 4 * (4 * 16 * 16 + 180 + 5 * 6 * 2)


def test_a_resize_that_is_read_as_what_it_makes_says_so(tmp_path: Path) -> None:
    nodes, constants = 'b = Resize(x, "", s); y = Conv(b, w)', "s:float=[1,1,2,2] w[5,4,3,3]"
    workload = _made(tmp_path, nodes, "x[1,4,8,8]", constants)
    assert _left(workload) == ["256 elements, read as the 1024 that are made"]


SCORES = onnx_nodes("p = Softmax <axis = -1> (m); y = MatMul(p, v)")
QKV = "q[2,10,8] k[2,8,12] v[2,12,8]"
CASES: dict[str, tuple[str | list[Any], str, str | dict[str, Any], list[str]]] = {
    "a bias of the scores, a constant": (
        [node("MatMul", ["q", "k"], ["l"]), node("Add", ["l", "b"], ["m"]), *SCORES],
        QKV,
        "b[1,10,12]",
        ["Add_1: b"],
    ),
    "a number is no mask": (
        [node("MatMul", ["q", "k"], ["l"]), node("Mul", ["l", "b"], ["m"]), *SCORES],
        QKV,
        "b:float=0.5",
        [],
    ),
    "a bias": ("y = Gemm(x, w, c)", "x[4,8]", "w[8,6] c[6]", []),
    "states before": (
        '"", y = RNN <hidden_size = 6> (x, w, r, "", "", h)',
        "x[3,2,5] h[1,2,6]",
        "w[1,6,5] r[1,6,6]",
        ["RNN_0: h"],
    ),
    "gains of channels": (
        "y = InstanceNormalization(x, g, b)",
        "x[1,4,5,5]",
        "g[4] b[4]",
        ["InstanceNormalization_0: g", "InstanceNormalization_0: b"],
    ),
    "scores that go out, too": (
        'y, "", "", s = Attention(q, k, v)',
        "q[1,4,6,8] k[1,4,6,8] v[1,4,6,8]",
        "",
        ["s"],
    ),
    "an output whose rows repeat": ("e = Tile(x, t); y = Relu(e)", "x[2,8]", "t=[3,1]", ["y"]),
    "an output that is a copy": (
        "y = Concat <axis = 0> (k, x); z = MatMul(y, w)",
        "k[7,8] x[1,8]",
        "w[8,6]",
        ["y"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_inputs_that_are_not_read_are_named(tmp_path: Path, case: str) -> None:
    nodes, inputs, constants, left = CASES[case]
    opset = 23 if "Attention" in str(nodes) else 17
    workload = _made(tmp_path, nodes, inputs, constants, opset)
    assert [one.name for one in workload.account.entries_of("not taken")] == left
    workload.account.require_modelled()


@pytest.mark.parametrize("domain", ["acme", "com.microsoft.nchwc"])
def test_a_convolution_of_others_is_not_onnxs(tmp_path: Path, domain: str) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"], domain=domain),
        node("Conv", ["a", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    path = write(tmp_path, "x[1,4,9,9] -> y[1,4,9,9] a[1,4,9,9]", nodes, "w[4,4,3,3]")
    account = load_onnx(path).workload.account
    assert [one.name for one in account.entries_of("not taken")] == ["Conv_0"]
    with pytest.raises(InputError, match=f"a node of the domain {domain}"):
        account.require_modelled()


def test_channels_that_stand_last_are_refused(tmp_path: Path) -> None:
    quantised = ["x", "s", "z", "w", "s", "z", "s", "z"]
    nodes = [node("QLinearConv", quantised, ["y"], domain="com.microsoft", channels_last=1)]
    path = tmp_path / "m.onnx"
    write(path, "x:int8[1,9,9,4] -> y:int8[1,7,7,6]", nodes, "s:float=0.1 z:int8=0 w:int8[6,4,3,3]")
    with pytest.raises(InputError, match="none is modelled of QLinearConv"):
        load_onnx(path)


def test_an_input_without_a_shape_gets_its_dimensions(tmp_path: Path) -> None:
    path = write(tmp_path, "x -> y", "y = MatMul(x, w)", "w[8,6]")
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
    constants = "w1[4,3,3,3] w2[4,4,3,3] wt[4,4,2,2] w3[2,11,3,3]"
    workload = _made(tmp_path, nodes, "x[1,3,16,16]", constants)
    weights = 4 * 3 * 9 + 4 * 4 * 9 + 4 * 4 * 4 + 2 * 11 * 9
    assert distinct_bytes(workload) == 4 * (3 * 16 * 16 + weights + 2 * 16 * 16)
    on = load_accelerator("edge")
    moved = simulate(workload, on, make_mapping(workload, on, "naive-m")).run.moved
    both = 11 * 18 * 18  # with the zeros around it
    assert reformed_dram_bytes(workload, moved) == 4 * (4 * 256 + 4 * 256 + both)


def test_attributes_of_other_tools_are_named_and_change_nothing(tmp_path: Path) -> None:
    """As ZigZag and Stream write the bits of elements."""
    gemm = helper.make_node("Gemm", ["x", "w"], ["y"], name="one", act_size=8, transB=1)
    workload = load_onnx(write(tmp_path, "x[32,48] -> y[32,64]", [gemm], "w[64,48]")).workload
    assert workload.macs == 32 * 48 * 64
    left = {entry.name for entry in workload.account.entries_of("not taken")}
    assert left == {"one.act_size"}
