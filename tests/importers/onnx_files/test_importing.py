"""ONNX models made here: what becomes of their nodes, and the MACs that numpy's shapes say."""

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from simaccel import load_accelerator, simulate
from simaccel.diagnosis.check import check
from simaccel.errors import InputError
from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files import ImportedWorkload, load_onnx
from simaccel.workload import parse_workload
from tests.importers.onnx_files.models import onnx_nodes, write
from tests.refusals import faults_of
from validation.searches import QUICK

EDGE = load_accelerator("edge")
node, F32 = helper.make_node, TensorProto.FLOAT


def _became(imported: ImportedWorkload) -> list[tuple[str, str, str, int]]:
    return [
        (one.kind, one.how, one.why, one.macs or 0) for one in imported.workload.account.entries
    ]


def _runs(imported: ImportedWorkload) -> None:
    """The machine runs it, its values are right, and it comes back from its document."""
    workload = imported.workload
    result = simulate(workload, EDGE, options=QUICK)
    assert check(workload, result.mapping, result.program)
    assert parse_workload(dict(workload.parameters)) == workload


def test_a_small_cnn(tmp_path: Path) -> None:
    nodes = onnx_nodes(
        "c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w, b); r = Relu(c); "
        "d = Conv <dilations = [2, 2], group = 8, pads = [2, 2, 2, 2]> (r, dw); "
        "n = BatchNormalization(d, s, s, s, s); a = Add(n, r); "
        "m = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (a); "
        "p = GlobalAveragePool(m); f = Flatten(p); y = Gemm <transB = 1> (f, fc, fb)"
    )
    weights = "w[8,3,3,3] b[8] dw[8,1,3,3] s[8] fc[10,8] fb[10]"
    path = write(tmp_path, "x[batch,3,11,14] -> y[batch,10]", nodes, weights)
    imported = load_onnx(path, {"batch": 2})
    rows, columns = (11 + 2 - 3) // 2 + 1, (14 + 2 - 3) // 2 + 1
    assert _became(imported) == [
        ("Conv", "taken", "conv", 2 * 8 * 3 * 9 * rows * columns),
        ("Relu", "taken", "relu", 0),
        ("Conv", "taken", "conv", 2 * 8 * 9 * rows * columns),
        ("BatchNormalization", "harmless", "in the filters and sums before it", 0),
        ("Add", "taken", "residual", 0),
        ("MaxPool", "taken", "pooling", 0),
        ("GlobalAveragePool", "taken", "average_pooling", 0),
        ("Flatten", "harmless", "addresses", 0),
        ("Gemm", "taken", "gemm", 2 * 8 * 10),
    ]
    shapes = imported.workload.shapes
    assert shapes["Relu_1.O"] == (2, 8, rows + 4, columns + 4)  # padding is stored
    assert shapes["Add_4.O"][2:] == (2 * 2 + 3, 2 * 3 + 3)
    kinds = {name: one.kind for name, one in imported.workload.tensors.items()}
    assert [name for name, kind in kinds.items() if kind == "output"] == ["Gemm_8.O"]
    assert [name for name, kind in kinds.items() if kind == "input"] == ["Conv_0.I"]
    _runs(imported)


def test_an_attention_with_a_mask_is_one(tmp_path: Path) -> None:
    nodes = onnx_nodes(
        "l = MatMul(q, k); s = Div(l, eight); t = Add(s, mask); p = Softmax <axis = -1> (t); "
        "z = MatMul(p, v); y = MatMul(z, w)"
    )
    tensors = "q[2,3,7,4] k[2,3,4,9] v[2,3,9,5] mask[1,1,7,9] -> y[2,3,7,6]"
    path = write(tmp_path, tensors, nodes, "w[5,6] eight:float=8")
    imported = load_onnx(path)
    assert _became(imported) == [
        ("MatMul", "taken", "L of an attention", 6 * 7 * 4 * 9),
        ("Div", "taken", "a part of softmax", 0),
        ("Add", "taken", "a part of softmax", 0),
        ("Softmax", "taken", "softmax", 0),
        ("MatMul", "taken", "A of an attention", 6 * 7 * 9 * 5),
        ("MatMul", "taken", "gemm", 42 * 5 * 6),
        ("tensor", "not taken", "a mask or bias of the scores: not read", 0),
    ]
    result = simulate(imported.workload, EDGE, "flat-h")
    assert result.run.operators[0].name == "MatMul_0+Softmax_3+MatMul_4"
    _runs(imported)


@pytest.mark.parametrize("output", ["l", "p"])
def test_scores_or_weights_that_leave_an_attention_are_written(tmp_path: Path, output: str) -> None:
    nodes = onnx_nodes("l = MatMul(q, k); p = Softmax <axis = -1> (l); z = MatMul(p, v)")
    tensors = f"q[2,7,4] k[2,4,9] v[2,9,5] -> z[2,7,5] {output}[2,7,9]"
    imported = load_onnx(write(tmp_path, tensors, nodes))
    name = {"l": "MatMul_0.O", "p": "Softmax_1.O"}[output]
    assert imported.workload.tensors[name].kind == "output"
    result = simulate(imported.workload, EDGE, options=QUICK)
    assert result.run.moved["dram_write", name] == 2 * 7 * 9 * 4  # of 32-bit floats


def test_shapes_that_are_computed_are_folded(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "x[n,4,6] -> y[n,5]",
        (
            "shape = Shape(x); n = Gather <axis = 0> (shape, zero); "
            "target = Concat <axis = 0> (n, minus); flat = Reshape(x, target); "
            "m = MatMul(flat, w); e = Erf(m); y = LayerNormalization(e, gain, gain)"
        ),
        "w[24,5] gain[5] zero=[0] minus=[-1]",
    )
    imported = load_onnx(path, {"x.0": 3})
    assert imported.constants == 3
    kinds = [one.kind for one in imported.workload.account.entries]
    assert kinds == ["Reshape", "MatMul", "Erf", "LayerNormalization"]
    assert imported.workload.macs == 3 * 24 * 5
    _runs(imported)


def test_branches_whose_condition_is_known_are_taken(tmp_path: Path) -> None:
    info = [helper.make_tensor_value_info("o", F32, [4, 4])]
    then = helper.make_graph(onnx_nodes("o = MatMul(x, x)"), "then", [], info)
    info2 = [helper.make_tensor_value_info("o2", F32, [4, 4])]
    other = helper.make_graph(onnx_nodes("o2 = Relu(x)"), "else", [], info2)
    nodes = [
        node("Equal", ["one", "rate"], ["same"]),
        node("If", ["same"], ["y"], then_branch=then, else_branch=other),
    ]
    path = write(tmp_path, "x[4,4] -> y[4,4]", nodes, "one=1 rate=1")
    imported = load_onnx(path)
    assert _became(imported) == [
        ("MatMul", "taken", "gemm", 64),
        ("Identity", "harmless", "addresses", 0),
    ]


def test_recurrent_layers_go_step_by_step(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "x[3,2,5] -> y[3,1,2,6]",
        "y = LSTM <hidden_size = 6> (x, w, r)",
        "w[1,24,5] r[1,24,6]",
    )
    imported = load_onnx(path)
    assert imported.workload.macs == 3 * 2 * (5 + 6) * 24
    _runs(imported)


def test_what_is_not_modelled_is_listed_with_its_share(tmp_path: Path) -> None:
    path = write(tmp_path, "x[30] -> top[10]", "r = Relu(x); top, which = TopK(r, k)", "k=[10]")
    imported = load_onnx(path)
    account = imported.workload.account
    (left,) = account.entries_of("not taken")
    assert left == AccountEntry("TopK_1", "not taken", "no such kind of node", "TopK", 0, 20)
    assert account.totals() == {"taken": (1, 0, 30), "harmless": (0, 0, 0), "not taken": (1, 0, 20)}


def _faults(path: Path, dims: dict[str, int] | None = None) -> list[str]:
    return [f"{one.field}: {one.allowed}" for one in faults_of(load_onnx, path, dims)]


def test_wrong_files_and_dimensions_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "x[n,?] -> top[10]", "top, which = TopK(x, k)", "k=[1]")
    assert _faults(path, {"m": 3}) == [
        "--dim n: dim=n=SIZE, the size of dimension 0 of input x",
        "--dim x.1: dim=x.1=SIZE, the size of dimension 1 of input x",
        "--dim m: a dynamic dimension of an input",
    ]
    assert _faults(path, {"n": -1, "x.1": 4}) == ["--dim n: a whole number from 0 to 1073741824"]
    assert _faults(path, {"n": 2, "x.1": 4}) == ["nodes: at least one that is an operator"]
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"# no model\n")
    assert _faults(bad) == ["file: an ONNX model"]
    assert _faults(tmp_path / "none.onnx") == ["file: an existing ONNX file"]
    zero = tmp_path / "zero.onnx"
    zero.symlink_to("/dev/zero")
    assert _faults(zero) == ["file: a readable ONNX file"]
    with bad.open("r+b") as stream:
        stream.truncate(2**30 + 1)  # takes no room on the disk
    assert _faults(bad) == ["file: at most 1073741824 bytes"]


UNEQUAL = [
    ("y = MatMul(x, w)", "w[8,3]", "sizes 8 and 9 in one dimension"),
    ("y = MatMul(x, w)", "w[3,9,5]", "sizes 2 and 3 in one dimension"),
    ("y = MatMul(x, w)", "w[1,5]", "sizes 1 and 9 in one dimension"),  # not repeated
    ("y = Gemm<transB=1>(row, w)", "w[3,1]", "sizes 1 and 9 in one dimension"),
    ('y = Einsum<equation="bij,jk->bik">(x, w)', "w[1,3]", ""),  # repeated, as by numpy
    ("y = MatMul(x, w)", "w[9]", ""),
    ("y = MatMul(x, w)", "w[7,1,9,5]", ""),
    ("y = Gemm(row, w)", "w[8,3]", "sizes 8 and 9 in one dimension"),
    ("y = Gemm<transA=1, transB=1>(row, w)", "w[3,4]", ""),
    ('y = Einsum<equation="bij,jk->bik">(x, w)', "w[8,3]", "sizes 8 and 9 in one dimension"),
    ("y = LSTM<hidden_size=2>(x, w, r)", "w[1,8,7] r[1,8,2]", "sizes 7 and 9 in"),
    ("y = Conv(image, w)", "w[6,3,3,3]", "4 channels, filters of 3"),
    ("y = Conv<group=2>(image, w)", "w[6,4,3,3]", "4 channels, filters of 8"),
    ("y = Conv<group=2>(image, w)", "w[6,2,3,3]", ""),
    ("y = Conv<kernel_shape=[5, 5]>(image, w)", "w[6,4,3,3]", "filters of 3x3, a kernel_"),
    ("y = Conv<strides=[0, 1]>(image, w)", "w[6,4,3,3]", "a window, stride or dilation of 0"),
    ("y = ConvTranspose(image, w)", "w[3,6,3,3]", "4 channels, filters of 3"),
]


@pytest.mark.parametrize(("text", "weights", "why"), UNEQUAL)
def test_sizes_that_do_not_fit_each_other_are_named(
    tmp_path: Path, text: str, weights: str, why: str
) -> None:
    """ONNX Runtime refuses such models; the file says shapes of what is made all the same."""
    made = "4,1,2,2" if "LSTM" in text else "1,6,7,7" if "image" in text else "2,4,3"
    tensors = f"x[2,4,9] image[1,4,9,9] row[4,9] -> y[{made}] z[2,4,9]"
    path = write(tmp_path, tensors, f"{text}; z = Relu(x)", weights)
    left = [one.why for one in load_onnx(path).workload.account.entries_of("not taken")]
    assert [one[: len(why)] for one in left] == ([why] if why else [])


def test_a_length_that_a_file_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Written for 4 tokens: at 8, half of them would leave the products without a word."""
    path = write(
        tmp_path,
        "x[n,5] -> y[n,2,7]",
        "a = MatMul(x, w); b = Reshape(a, to); y = MatMul(b, v)",
        "w[5,6] v[3,7] to=[4,2,3]",
    )
    load_onnx(path, {"n": 4}).workload.account.require_modelled()
    account = load_onnx(path, {"n": 8}).workload.account
    with pytest.raises(InputError, match="48 elements become 24: the file fits other sizes"):
        account.require_modelled()


def test_a_file_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    for rows in (3, 4):
        path = write(tmp_path, f"x[{rows},5] -> y[{rows},2]", "y = MatMul(x, w)", "w[5,2]")
        assert load_onnx(path).workload.macs == rows * 10
