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
from tests.importers.onnx_files.models import Type, hollow, onnx_nodes, save

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
    constants = {
        "w1": np.zeros((5, 3, 3, 3), np.float32),
        "w2": np.zeros((7, 600), np.float32),
        "b2": np.zeros(7, np.float32),
        "rest": np.array([-1]),
        "zero": np.array(0),
        "ax": np.array([0]),
    }
    inputs: dict[str, Type] = {"x": (F32, ["batch", 3, 12, 10])}
    outputs: dict[str, Type] = {"y": (F32, ["batch", 7])}
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, constants, opset=opset, ir_version=ir)
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
    nodes = onnx_nodes("r = Reshape(x, t); y = MatMul(r, w)")
    constants = {"t": shape, "w": np.zeros((2, 5), np.float32)}
    outputs: dict[str, Any] = {"y": (F32, ["a", "b"])}
    path = save(folder / "m.onnx", nodes, {"x": (F32, [3, 4])}, outputs, constants)
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
    scales = {"s": np.array(1, np.float32), "z": np.array(0, np.int8)}
    nodes = onnx_nodes(
        "xd = DequantizeLinear(x, s, z); wd = DequantizeLinear(w, s, z); "
        "a = MatMul(xd, wd); q = QuantizeLinear(a, s, z); "
        "d = DequantizeLinear(q, s, z); r = Relu(d); y = QuantizeLinear(r, s, z)"
    )
    constants = {**scales, "w": np.zeros((512, 512), np.int8)}
    path = save(tmp_path / "q.onnx", nodes, {"x": (I8, [4, 512])}, {"y": (I8, [4, 512])}, constants)
    workload = load_onnx(path).workload
    assert [one.name for one in workload.operators] == ["MatMul_1", "Relu_4"]
    assert {one.bits for one in workload.tensors.values()} == {8}
    assert distinct_bytes(workload) == 512 * 512 + 2 * 4 * 512
    plain = save(
        tmp_path / "p.onnx",
        onnx_nodes("a = MatMul(x, w); y = Relu(a)"),
        {"x": (F32, [4, 512])},
        {"y": (F32, [4, 512])},
        {"w": np.zeros((512, 512), np.float32)},
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
    nodes = onnx_nodes("d = DequantizeLinear <axis = 0, block_size = 32> (w, s); y = MatMul(x, d)")
    constants = {"w": weights, "s": np.zeros((2, columns), np.float32)}
    path = tmp_path / "m.onnx"
    outputs: dict[str, Any] = {"y": (F32, [3, columns])}
    save(path, nodes, {"x": (F32, [3, 64])}, outputs, constants, opset=25, ir_version=13)
    workload = load_onnx(path).workload
    left = {one.name: (one.why, one.elements) for one in workload.account.entries_of("not taken")}
    assert left == {
        "MatMul_0.W": ("elements of 2 bits, moved as 4", 0),
        "s": ("scales and zero points of blocks are not moved", 2 * columns),
    }


def test_quantised_nodes_of_the_runtime_are_followed(tmp_path: Path) -> None:
    """Two images of 2 channels, joined, pooled to 3 x 3, in a convolution, and one mean each."""
    scales = {"s": np.array(1, np.float32), "z": np.array(0, np.uint8)}
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
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"a": (U8, [1, 2, 8, 8]), "b": (U8, [1, 2, 8, 8])},
        {"y": (U8, [1, 6, 1, 1])},
        {**scales, "w": np.zeros((6, 4, 2, 2), np.uint8)},
        domains={"com.microsoft": 1},
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
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"x": (F32, [1, 3, 4, 8, 8])},
        {"y": (F32, [1, 5, 2, 2, 2])},
        {"w": np.zeros((5, 3, 3, 3, 3), np.float32)},
    )
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
    names = [f"x{at}" for at in range(len(shapes))]
    inputs = {name: (F32, shape) for name, shape in zip(names, shapes, strict=True)}
    nodes = [node("Einsum", names, ["y"], equation=equation)]
    path = save(tmp_path / "m.onnx", nodes, inputs, {"y": (F32, made)})
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
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"q": (F32, [1, 7, 32]), "k": (F32, [1, 9, 8 * shared]), "v": (F32, [1, 9, 8 * shared])},
        {"y": (F32, [1, 7, 32])},
        opset=23,
        ir_version=11,
    )
    workload = load_onnx(path).workload
    assert workload.macs == 2 * 4 * 7 * 9 * 8
    assert distinct_bytes(workload) == 4 * (7 * 32 + 2 * 9 * 8 * shared + 7 * 32)
    _runs(path)


def test_keys_that_are_repeated_are_stored_once(tmp_path: Path) -> None:
    """repeat_kv of PyTorch: unsqueeze, expand, reshape."""
    nodes = onnx_nodes(
        "k1 = Unsqueeze(k, two); k2 = Expand(k1, wide); k3 = Reshape(k2, heads); "
        "kt = Transpose <perm = [0, 1, 3, 2]> (k3); y = MatMul(q, kt)"
    )
    constants = {
        "two": np.array([2]),
        "wide": np.array([1, 2, 3, 9, 8]),
        "heads": np.array([1, 6, 9, 8]),
    }
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"q": (F32, [1, 6, 7, 8]), "k": (F32, [1, 2, 9, 8])},
        {"y": (F32, [1, 6, 7, 9])},
        constants,
    )
    workload = load_onnx(path).workload
    assert workload.macs == 6 * 7 * 8 * 9
    assert distinct_bytes(workload) == 4 * (6 * 7 * 8 + 2 * 9 * 8 + 6 * 7 * 9)
    _runs(path)


def test_a_batch_that_is_tiled_is_stored_once(tmp_path: Path) -> None:
    """Of eight products the first, third, fifth and seventh have one matrix, the others another."""
    path = save(
        tmp_path / "m.onnx",
        onnx_nodes("ks = Tile(k, four); y = MatMul(q, ks)"),
        {"q": (F32, [8, 6, 16]), "k": (F32, [2, 16, 5])},
        {"y": (F32, [8, 6, 5])},
        {"four": np.array([4, 1, 1])},
    )
    workload = load_onnx(path).workload
    assert workload.macs == 8 * 6 * 16 * 5
    assert distinct_bytes(workload) == 4 * (8 * 6 * 16 + 2 * 16 * 5 + 8 * 6 * 5)
    _runs(path)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_of_many_steps(kind: str, gates: int, tmp_path: Path) -> None:
    nodes = [node(kind, ["x", "w", "r"], ["y"], hidden_size=5)]
    weights = {"w": np.zeros((1, gates * 5, 6)), "r": np.zeros((1, gates * 5, 5))}
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"x": (F32, [80, 2, 6])},
        {"y": (F32, [80, 1, 2, 5])},
        {name: one.astype(np.float32) for name, one in weights.items()},
    )
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
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"x": (F32, [4, 4]), "n": (I64, [])},
        {"y": (F32, [4, 4])},
        {"w": np.zeros((4, 4), np.float32)},
    )
    account = load_onnx(path).workload.account
    (left,) = account.entries_of("not taken")
    assert (left.name, left.macs) == ("again", None)
    assert left.why == "control flow, which hides 2 nodes: 1 Identity, 1 MatMul"
    assert account.share_left_out() is None


def test_attributes_that_nobody_knows_show_up(tmp_path: Path) -> None:
    nodes = onnx_nodes(
        'y = com.microsoft.MatMulNBits <K = 160, N = 40, block_size = 32, colour = "red">'
        " (x, w, s); z = own.Frob(y)"
    )
    constants = {"w": np.zeros((40, 5, 16), np.uint8), "s": np.zeros(200, np.float16)}
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"x": (F16, [96, 160])},
        {"z": (F16, [96, 40])},
        constants,
        domains={"com.microsoft": 1, "own": 1},
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
    nodes = onnx_nodes("y = Conv <group = 5> (x, w)")
    image: Type = (F32, [1, 5, 1, size])
    constants = {"w": np.zeros((5, 1, 1, 1), np.float32)}
    path = save(tmp_path / "m.onnx", nodes, {"x": image}, {"y": image}, constants)
    assert load_onnx(path).workload.macs == 5 * size
