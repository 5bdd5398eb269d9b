"""Kinds of models that people bring: right MACs and bytes, counted by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from simaccel import load_accelerator, simulate
from simaccel.analytic.floor.compulsory import distinct_bytes
from simaccel.diagnosis.check import check
from simaccel.importers.onnx_files import load_onnx
from simaccel.workload import parse_workload
from tests.importers.onnx_files.models import constants_of, hollow, onnx_nodes, save, write

F32, F16, U8, I8, I32, I64 = (
    getattr(TensorProto, one) for one in ("FLOAT", "FLOAT16", "UINT8", "INT8", "INT32", "INT64")
)
EDGE = load_accelerator("edge_tpu")
node = helper.make_node


def _runs(path: Path) -> None:
    """Naive mappings run on the machine, with the right values; the document reads back."""
    workload = load_onnx(path).workload
    result = simulate(workload, EDGE, "naive-m")
    assert check(workload, result.mapping, result.program)
    assert result.floor.least_bytes >= result.floor.distinct_bytes == distinct_bytes(workload)
    assert parse_workload(dict(workload.parameters)) == workload


# -- versions: x.view(x.size(0), -1)


@pytest.mark.parametrize(
    ("opset", "ir"), [(7, 3), (9, 4), (11, 6), (12, 7), (13, 3), (17, 8), (21, 10)]
)
def test_a_view_by_the_size_of_the_batch(tmp_path: Path, opset: int, ir: int) -> None:
    unsqueeze = (
        node("Unsqueeze", ["n", "ax"], ["n1"])
        if opset >= 13
        else node("Unsqueeze", ["n"], ["n1"], axes=[0])
    )
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        node("Shape", ["a"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        unsqueeze,
        node("Concat", ["n1", "rest"], ["t"], axis=0),
        node("Reshape", ["a", "t"], ["f"]),
        node("Gemm", ["f", "w2", "b2"], ["y"], transB=1),
    ]
    path = write(
        tmp_path,
        "x[batch,3,12,10] -> y[batch,7]",
        nodes,
        "w1[5,3,3,3] w2[7,600] b2[7] rest=[-1] zero=0 ax=[0]",
        opset=opset,
        ir_version=ir,
    )
    for batch in (1, 2):  # 5 x 12 x 10 outputs of 27 taps, and 600 x 7
        workload = load_onnx(path, {"batch": batch}).workload
        assert workload.macs == batch * (600 * 27 + 600 * 7)
        assert not workload.account.entries_of("not taken")


# -- weights that are elsewhere


def test_weights_without_values_or_in_a_file_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = onnx_nodes("y = MatMul(x, w)")
    shapes = {"x": (F32, [96, 160])}, {"y": (F32, [96, 40])}
    empty = save(tmp_path / "empty.onnx", nodes, *shapes, {"w": hollow("w", 160, 40)})
    outside = hollow("w", 160, 40)
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="weights.bin")
    beside = save(tmp_path / "beside.onnx", nodes, *shapes, {"w": outside})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "weights.bin").write_bytes(b"no weights")
    monkeypatch.chdir(elsewhere)
    for exists in (False, True):
        if exists:
            (tmp_path / "weights.bin").write_bytes(bytes(25600))
        for path in (empty, beside):
            workload = load_onnx(path, {}).workload
            assert workload.macs == 96 * 160 * 40
            assert distinct_bytes(workload) == 4 * (96 * 160 + 160 * 40 + 96 * 40)
    monkeypatch.chdir(tmp_path)
    assert load_onnx("beside.onnx").workload.macs == 96 * 160 * 40


@pytest.mark.parametrize(
    "place", ["shape.bin", "link.bin", "hard_link.bin", "../shape.bin", "/etc/hostname"]
)
def test_a_shape_in_a_file_is_read_from_the_models_folder_only(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for one in (folder, tmp_path):
        (one / "shape.bin").write_bytes(np.array([6, 2]).tobytes())
    (folder / "link.bin").symlink_to("shape.bin")
    (folder / "hard_link.bin").hardlink_to(folder / "shape.bin")  # as installers of packages make
    shape = hollow("t", 2, kind=I64)
    shape.data_location = TensorProto.EXTERNAL
    shape.external_data.add(key="location", value=place)
    path = write(
        folder / "m.onnx",
        "x[3,4] -> y[a,b]",
        "r = Reshape(x, t); y = MatMul(r, w)",
        constants_of("w[2,5]") | {"t": shape},
    )
    if (folder / place).parent == folder:
        assert load_onnx(path).workload.macs == 6 * 2 * 5
    else:  # not read, so that the product's size isn't known
        with pytest.raises(Exception, match=rf"of MatMul \(r has no shape without {place}, which"):
            load_onnx(path)


# -- quantised


def _quantised(kind: str, tmp_path: Path) -> Path:
    number = {"xs": np.float32(1), "ws": np.float32(1), "ys": np.float32(1)}
    zero = {"xz": np.uint8(0), "wz": np.int8(0), "yz": np.uint8(0)}
    scales = {name: np.array(value) for name, value in {**number, **zero}.items()}
    q = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    image, rows = (U8, [1, 12, 20, 20]), (U8, [96, 160])
    filters, columns = np.zeros((24, 12, 3, 3), np.int8), np.zeros((160, 40), np.int8)
    pads = [1, 1, 1, 1]
    made: dict[str, tuple[Any, Any, Any, Any, Any]] = {
        "QLinearConv": (node(kind, q, ["y"], pads=pads), image, (U8, [1, 24, 20, 20]), filters, {}),
        "ConvInteger": (
            node(kind, ["x", "w"], ["y"], pads=pads),
            image,
            (I32, [1, 24, 20, 20]),
            filters,
            {},
        ),
        "QLinearMatMul": (node(kind, q, ["y"]), rows, (U8, [96, 40]), columns, {}),
        "MatMulInteger": (node(kind, ["x", "w"], ["y"]), rows, (I32, [96, 40]), columns, {}),
        "QGemm": (
            node(kind, [*q[:6], "", "ys", "yz"], ["y"], domain="com.microsoft", transB=0),
            rows,
            (U8, [96, 40]),
            columns,
            {"com.microsoft": 1},
        ),
        "MatMulNBits": (
            node(
                kind,
                ["x", "w", "s"],
                ["y"],
                domain="com.microsoft",
                K=160,
                N=40,
                bits=4,
                block_size=32,
            ),
            (F16, [96, 160]),
            (F16, [96, 40]),
            np.zeros((40, 5, 16), np.uint8),
            {"com.microsoft": 1},
        ),
    }
    what, given, output, weights, domains = made[kind]
    constants = {**scales, "w": weights, "s": np.zeros(200, np.float16)}
    outputs = {"y": output}
    path = tmp_path / f"{kind}.onnx"
    return save(path, [what], {"x": given}, outputs, constants, domains=domains)


CONV = 24 * 20 * 20 * 12 * 9
GEMM = 96 * 160 * 40


@pytest.mark.parametrize(
    ("kind", "macs", "n_bytes"),
    [
        ("QLinearConv", CONV, 12 * 400 + 24 * 12 * 9 + 24 * 400),
        ("ConvInteger", CONV, 12 * 400 + 24 * 12 * 9 + 4 * 24 * 400),
        ("QLinearMatMul", GEMM, 96 * 160 + 160 * 40 + 96 * 40),
        ("MatMulInteger", GEMM, 96 * 160 + 160 * 40 + 4 * 96 * 40),
        ("QGemm", GEMM, 96 * 160 + 160 * 40 + 96 * 40),
        ("MatMulNBits", GEMM, 2 * 96 * 160 + 160 * 40 // 2 + 2 * 96 * 40),
    ],
)
def test_quantised_nodes_have_the_macs_of_their_kind(
    kind: str, macs: int, n_bytes: int, tmp_path: Path
) -> None:
    path = _quantised(kind, tmp_path)
    workload = load_onnx(path).workload
    assert workload.macs == macs
    assert distinct_bytes(workload) == n_bytes
    left = workload.account.entries_of("not taken")
    assert [one.name for one in left] == (["s"] if kind == "MatMulNBits" else [])
    _runs(path)


def test_quantised_by_pairs_takes_the_numbers_that_are_stored(tmp_path: Path) -> None:
    constants = "s:float=1 z:int8=0 w:int8[512,512]"
    path = write(
        tmp_path / "q.onnx",
        "x:int8[4,512] -> y:int8[4,512]",
        (
            "xd = DequantizeLinear(x, s, z); wd = DequantizeLinear(w, s, z); a = MatMul(xd, wd); "
            "q = QuantizeLinear(a, s, z); d = DequantizeLinear(q, s, z); r = Relu(d); "
            "y = QuantizeLinear(r, s, z)"
        ),
        constants,
    )
    workload = load_onnx(path).workload
    assert [one.name for one in workload.operators] == ["MatMul_1", "Relu_4"]
    assert {one.bits for one in workload.tensors.values()} == {8}
    assert distinct_bytes(workload) == 512 * 512 + 2 * 4 * 512
    plain = write(
        tmp_path / "p.onnx", "x[4,512] -> y[4,512]", "a = MatMul(x, w); y = Relu(a)", "w[512,512]"
    )
    runs = [simulate(load_onnx(one, {}, 1).workload, EDGE, "naive-m") for one in (path, plain)]
    assert runs[0].run.cycles == runs[1].run.cycles
    _runs(path)


@pytest.mark.parametrize(
    ("kind", "size"), [(F32, 4), (F16, 2), (TensorProto.BFLOAT16, 2), (TensorProto.DOUBLE, 8)]
)
def test_element_types_are_those_of_the_file(kind: int, size: int, tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx",
        onnx_nodes("y = MatMul(x, w)"),
        {"x": (kind, [6, 8])},
        {"y": (kind, [6, 10])},
        {"w": hollow("w", 8, 10, kind=kind)},
    )
    workload = load_onnx(path).workload
    assert {one.bytes_per_element for one in workload.tensors.values()} == {size}
    tpu = load_accelerator("edge_tpu", ["precision.weights=int8", "precision.activations=int8"])
    assert simulate(workload, tpu, "naive-m").workload == workload  # the file sets it
    assert {one.bits for one in load_onnx(path, {}, 1).workload.tensors.values()} == {8}


@pytest.mark.parametrize("columns", [1, 40])
def test_bits_and_blocks_that_are_not_moved_are_named(tmp_path: Path, columns: int) -> None:
    weights = helper.make_tensor("w", TensorProto.INT2, [64, columns], [0] * (64 * columns))
    path = write(
        tmp_path,
        f"x[3,64] -> y[3,{columns}]",
        "d = DequantizeLinear <axis = 0, block_size = 32> (w, s); y = MatMul(x, d)",
        constants_of(f"s[2,{columns}]") | {"w": weights},
        opset=25,
        ir_version=13,
    )
    workload = load_onnx(path).workload
    left = {one.name: (one.why, one.elements) for one in workload.account.entries_of("not taken")}
    assert left == {
        "MatMul_0.W": ("elements of 2 bits, moved as 4", 0),
        "s": ("scales and zero points of blocks are not moved", 2 * columns),
    }


def test_quantised_nodes_of_the_runtime_are_followed(tmp_path: Path) -> None:
    """Two images of 2 channels, joined, pooled to 3 x 3, in a convolution, and one mean each."""
    both = ["s", "z"]
    own = {"domain": "com.microsoft"}
    nodes = [
        node("QLinearConcat", [*both, "a", *both, "b", *both], ["c"], axis=1, **own),
        node(
            "QLinearAveragePool",
            ["c", *both, *both],
            ["p"],
            kernel_shape=[3, 3],
            strides=[2, 2],
            **own,
        ),
        node("QLinearConv", ["p", *both, "w", *both, *both], ["d"]),
        node("QLinearGlobalAveragePool", ["d", *both, *both], ["y"], channels_last=0, **own),
    ]
    path = write(
        tmp_path,
        "a:uint8[1,2,8,8] b:uint8[1,2,8,8] -> y:uint8[1,6,1,1]",
        nodes,
        "s:float=1 z:uint8=0 w:uint8[6,4,2,2]",
    )
    workload = load_onnx(path).workload
    assert workload.macs == 6 * 2 * 2 * 4 * 4
    assert not workload.account.entries_of("not taken")
    _runs(path)


# -- kinds of nodes


def test_windows_of_three_dimensions(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1] * 6, strides=[1, 2, 2]),
        node("AveragePool", ["c"], ["y"], kernel_shape=[2, 2, 2], strides=[2, 2, 2]),
    ]
    path = write(tmp_path, "x[1,3,4,8,8] -> y[1,5,2,2,2]", nodes, "w[5,3,3,3,3]")
    workload = load_onnx(path).workload
    assert workload.macs == 5 * 4 * 4 * 4 * 3 * 27
    assert distinct_bytes(workload) == 4 * (3 * 4 * 8 * 8 + 5 * 3 * 27 + 5 * 8)
    _runs(path)


@pytest.mark.parametrize(
    ("equation", "shapes", "made", "macs"),
    [
        ("mk,kn->mn", ([6, 8], [8, 10]), [6, 10], 480),
        ("bhqd,bhkd->bhqk", ([2, 3, 4, 5], [2, 3, 6, 5]), [2, 3, 4, 6], 6 * 4 * 5 * 6),
        ("...ij,...jk", ([2, 3, 4, 5], [5, 6]), [2, 3, 4, 6], 6 * 4 * 5 * 6),
        ("ij,ij->", ([6, 8], [6, 8]), [], 48),
        ("bi,io,bo->b", ([2, 3], [3, 4], [2, 4]), [2], 2 * 3 * 4 + 2 * 4),
    ],
)
def test_einsums(
    equation: str, shapes: tuple[list[int], ...], made: list[int], macs: int, tmp_path: Path
) -> None:
    inputs = " ".join(f"x{at}{shape}" for at, shape in enumerate(shapes))
    nodes = [node("Einsum", [f"x{at}" for at in range(len(shapes))], ["y"], equation=equation)]
    path = write(tmp_path, f"{inputs} -> y{made}", nodes)
    workload = load_onnx(path).workload
    assert workload.macs == macs
    count = sum(map(np.prod, shapes)) + np.prod(made)
    assert distinct_bytes(workload) == 4 * count
    _runs(path)


@pytest.mark.parametrize("shared", [4, 2, 1])
def test_attention_reads_keys_once_for_the_heads_that_share_them(
    shared: int, tmp_path: Path
) -> None:
    nodes = [node("Attention", ["q", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=shared)]
    path = write(
        tmp_path,
        f"q[1,7,32] k[1,9,{8 * shared}] v[1,9,{8 * shared}] -> y[1,7,32]",
        nodes,
        opset=23,
        ir_version=11,
    )
    workload = load_onnx(path).workload
    assert workload.macs == 2 * 4 * 7 * 9 * 8
    assert distinct_bytes(workload) == 4 * (7 * 32 + 2 * 9 * 8 * shared + 7 * 32)
    _runs(path)


def test_keys_that_are_repeated_are_stored_once(tmp_path: Path) -> None:
    """repeat_kv of PyTorch: unsqueeze, expand, reshape."""
    path = write(
        tmp_path,
        "q[1,6,7,8] k[1,2,9,8] -> y[1,6,7,9]",
        (
            "k1 = Unsqueeze(k, two); k2 = Expand(k1, wide); k3 = Reshape(k2, heads); "
            "kt = Transpose <perm = [0, 1, 3, 2]> (k3); y = MatMul(q, kt)"
        ),
        "two=[2] wide=[1,2,3,9,8] heads=[1,6,9,8]",
    )
    workload = load_onnx(path).workload
    assert workload.macs == 6 * 7 * 8 * 9
    assert distinct_bytes(workload) == 4 * (6 * 7 * 8 + 2 * 9 * 8 + 6 * 7 * 9)
    _runs(path)


def test_a_batch_that_is_tiled_is_stored_once(tmp_path: Path) -> None:
    """Of eight products the first, third, fifth and seventh have one matrix, the others another."""
    path = write(
        tmp_path,
        "q[8,6,16] k[2,16,5] -> y[8,6,5]",
        "ks = Tile(k, four); y = MatMul(q, ks)",
        "four=[4,1,1]",
    )
    workload = load_onnx(path).workload
    assert workload.macs == 8 * 6 * 16 * 5
    assert distinct_bytes(workload) == 4 * (8 * 6 * 16 + 2 * 16 * 5 + 8 * 6 * 5)
    _runs(path)


REPEATED_INPUTS = {
    "samples of a convolution": ("x[1,3,6]", "[4,3,6]", "w[5,3,2]", "y = Conv(e, w)", 4 * 25 * 6),
    "samples and channels": ("x[1,1,6]", "[2,2,6]", "w[5,2,2]", "y = Conv(e, w)", 2 * 25 * 4),
    "samples of a pooling": ("x[1,3,6]", "[4,3,6]", "", "y = MaxPool <kernel_shape = [2]> (e)", 0),
    "columns": ("x[4,1]", "[4,5]", "q[3,4]", "y = MatMul(q, e)", 60),
    "rows of an einsum": (
        *("x[1,3,4]", "[2,3,4]", "w[4,5]"),
        *('y = Einsum <equation = "abc,cd->abd"> (e, w)', 2 * 3 * 4 * 5),
    ),
    "both of an elementwise product": ("x[3,1,1]", "[3,2,1]", "", "y = Mul(e, e)", 0),
}


@pytest.mark.parametrize("case", REPEATED_INPUTS)
def test_repeated_inputs_are_read_as_often_as_they_are_needed(case: str, tmp_path: Path) -> None:
    """A dimension that Expand has made, and that the other operand lacks, is stored."""
    given, wide, others, last, macs = REPEATED_INPUTS[case]
    nodes = f"r = Relu(x); e = Expand(r, t); {last}"
    path = write(tmp_path, f"{given} -> y", nodes, f"t={wide} {others}")
    assert load_onnx(path).workload.macs == macs
    _runs(path)


def test_a_product_of_single_rows_and_columns_is_one_of_elements(tmp_path: Path) -> None:
    path = write(tmp_path, "x[3,1,1] -> y[3,1,1]", "r = Relu(x); y = MatMul(r, r)")
    workload = load_onnx(path).workload
    assert str(workload.operators[-1]).endswith("(product)")
    assert workload.account.entries_of("taken")[-1].why == "product"
    _runs(path)


def test_an_attention_without_tokens_has_no_elements(tmp_path: Path) -> None:
    nodes = (
        "a = MatMul(x, w); q = Slice(a, z, z, one); k = Transpose <perm = [0, 2, 1]> (q); "
        "s = MatMul(q, k); p = Softmax <axis = -1> (s); y = MatMul(p, q)"
    )
    path = write(tmp_path, "x[2,3,4] -> y[2,0,5] a[2,3,5]", nodes, "w[4,5] z=[0] one=[1]")
    account = load_onnx(path).workload.account
    assert account.totals()["taken"][1] == 2 * 3 * 4 * 5
    left = {entry.why for entry in account.entries_of("harmless")}
    assert "no elements" in left


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_of_one_unit(kind: str, gates: int, tmp_path: Path) -> None:
    text = f"y = {kind} <hidden_size = 1> (x, w, r)"
    for batch in (2, 3) if kind == "RNN" else (1, 2):
        weights = f"w[1,{gates},6] r[1,{gates},1]"
        path = write(tmp_path, f"x[3,{batch},6] -> y[3,1,{batch},1]", text, weights)
        assert load_onnx(path).workload.macs == 3 * batch * gates * (6 + 1)
        _runs(path)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_of_many_steps(kind: str, gates: int, tmp_path: Path) -> None:
    nodes = [node(kind, ["x", "w", "r"], ["y"], hidden_size=5)]
    weights = f"w[1,{gates * 5},6] r[1,{gates * 5},5]"
    path = write(tmp_path, "x[80,2,6] -> y[80,1,2,5]", nodes, weights)
    assert load_onnx(path).workload.macs == 80 * 2 * gates * 5 * (6 + 5)


# -- what is left out


def test_control_flow_is_named_with_what_it_hides(tmp_path: Path) -> None:
    body = helper.make_graph(
        onnx_nodes("on = Identity(go); u = MatMul(v, w)"),
        "body",
        [
            helper.make_tensor_value_info("i", I64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", F32, [4, 4]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("u", F32, [4, 4]),
        ],
    )
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Loop", ["n", "", "r"], ["y"], name="again", body=body),
    ]
    path = write(tmp_path, "x[4,4] n:int64[] -> y[4,4]", nodes, "w[4,4]")
    account = load_onnx(path).workload.account
    (left,) = account.entries_of("not taken")
    assert (left.name, left.macs) == ("again", None)
    assert left.why == "control flow, which hides 2 nodes: 1 Identity, 1 MatMul"
    assert account.share_left_out() is None


def test_attributes_that_nobody_knows_show_up(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "x:float16[96,160] -> z:float16[96,40]",
        (
            'y = com.microsoft.MatMulNBits <K = 160, N = 40, block_size = 32, colour = "red"> '
            "(x, w, s); z = own.Frob(y)"
        ),
        "w:uint8[40,5,16] s:float16[200]",
    )
    left = load_onnx(path).workload.account.entries_of("not taken")
    assert {(one.name, one.kind, one.macs) for one in left} == {
        ("Frob_1", "Frob", None),
        ("MatMulNBits_0.colour", "attribute", 0),
        ("s", "tensor", 0),
    }


@pytest.mark.parametrize("size", [2, 3])
def test_a_factor_for_each_channel_has_a_mac_for_each_element(tmp_path: Path, size: int) -> None:
    """A depthwise filter of one tap over a row of 2 or 3: 5 channels, as many MACs each."""
    image = f"[1,5,1,{size}]"
    path = write(tmp_path, f"x{image} -> y{image}", "y = Conv <group = 5> (x, w)", "w[5,1,1,1]")
    assert load_onnx(path).workload.macs == 5 * size
