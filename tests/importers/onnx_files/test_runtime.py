"""Models as ONNX Runtime and its tools write them, and weights and functions that several use."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from simaccel.analytic.floor.compulsory import distinct_bytes
from simaccel.importers.onnx_files import load_onnx
from tests.importers.onnx_files.models import write

FLOAT, UINT8, INT64 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT64
node = helper.make_node


def _floats(*shape: int, kind: Any = np.float32) -> Any:  # noqa: ANN401 - an array
    return np.ones(shape, kind)


def _own(kind: str, inputs: list[str], outputs: list[str], **how: Any) -> Any:  # noqa: ANN401
    return node(kind, inputs, outputs, domain="com.microsoft", **how)


CASES: dict[str, tuple[str | list[Any], str, str, int, int | None]] = {
    # nodes, inputs and output, constants, MACs, and bytes unless a form that is no view is stored
    # blocks of a language model: the sum before the norm goes on to the next block
    "sums behind norms": (
        (
            'n, "", "", sum = com.microsoft.SkipSimplifiedLayerNormalization(x, s, g); '
            'h = MatMul(n, w); m, "", "", sum2 = com.microsoft.SkipLayerNormalization(sum, h, g); '
            "h2 = MatMul(m, w); y = Add(sum2, h2)"
        ),
        "x[2,4,8] s[2,4,8] -> y[2,4,8]",
        "g[8] w[8,8]",
        2 * 8 * 64,
        4 * (64 + 64 + 8 + 64 + 64),
    ),
    # a norm among ONNX's kinds that ONNX doesn't know
    "norm of ONNX's domain": (
        "n = SimplifiedLayerNormalization(x, g); y = MatMul(n, w)",
        "x[4,8] -> y[4,5]",
        "g[8] w[8,5]",
        160,
        4 * (32 + 8 + 40 + 20),
    ),
    "embedding": (
        (
            'e, mask = com.microsoft.EmbedLayerNormalization(i, "", words, places, "", g, b); '
            "y = MatMul(e, w)"
        ),
        "i:int64[2,4] -> y[2,4,5]",
        "words[100,8] places[16,8] g[8] b[8] w[8,5]",
        8 * 40,
        8 * 8 + 4 * (64 + 32 + 8 + 40 + 40),
    ),
    # 3 heads of 8: Q, K and V of 8 tokens, then scores of 4 x 4 for each of 2 samples
    "quantised attention": (
        "y = com.microsoft.QAttention <num_heads = 3> (x, w, b, s, s)",
        "x:uint8[2,4,24] -> y[2,4,24]",
        "w:int8[24,72] b[72] s:float=1",
        8 * 24 * 72 + 6 * 16 * 16,
        None,
    ),
    "rows before the batch": (
        "y = com.microsoft.FusedMatMul <transBatchA = 1> (a, b)",
        "a[4,2,3,8] b[2,3,8,5] -> y[2,3,4,5]",
        "",
        6 * 160,
        4 * (192 + 240 + 120),
    ),
    # 100 rows of 32 numbers of 4 bits, two in a byte; 4 are looked up
    "table of 4 bits": (
        (
            "e = com.microsoft.GatherBlockQuantized <bits = 4, block_size = 16, gather_axis = 0, "
            "quantize_axis = 1> (t, i, s); y = MatMul(e, w)"
        ),
        "i:int64[4] -> y[4,6]",
        "t:uint8[100,16] s[100,2] w[32,6]",
        4 * 192,
        8 * 4 + 4 * 16 + 4 * (192 + 24),
    ),
    "table of 4 bits, which nobody says": (
        [
            _own("GatherBlockQuantized", ["t", "i", "s"], ["e"], quantize_axis=1, block_size=16),
            node("MatMul", ["e", "w"], ["y"]),
        ],
        "i:int64[4] -> y[4,6]",
        "t:uint8[100,16] s[100,2] w[32,6]",
        4 * 192,
        8 * 4 + 4 * 16 + 4 * (192 + 24),
    ),
    "weights of 4 bits in a row": (
        [_own("MatMulBnb4", ["x", "w", "s"], ["y"], K=64, N=16, block_size=32, quant_type=1)],
        "x[5,64] -> y[5,16]",
        "w:uint8[512] s[32]",
        5 * 1024,
        4 * 320 + 512 + 4 * 80,
    ),
    "a product plus a matrix": (
        "y = Gemm <beta = 0.5> (x, w, c)",
        "x[4,6] c[4,5] -> y[4,5]",
        "w[6,5]",
        120,
        4 * (24 + 30 + 20 + 20),
    ),
    "weights read as they are and turned": (
        "t = Transpose <perm = [1, 0]> (w); h = MatMul(x, t); y = MatMul(h, w)",
        "x[4,6] -> y[4,6]",
        "w[8,6]",
        2 * 4 * 48,
        4 * (24 + 48 + 24),
    ),
    "weights of two names": (
        (
            "h = Conv <pads = [1, 1, 1, 1]> (x, w); v = Identity(w); r = Relu(h); "
            "y = Conv <pads = [1, 1, 1, 1]> (r, v)"
        ),
        "x[1,8,6,6] -> y[1,8,6,6]",
        "w[8,8,3,3]",
        2 * 36 * 576,
        4 * (288 + 576 + 288),
    ),
    "groups of channels": (
        "n = GroupNormalization <num_groups = 2> (x, g, g); y = Conv(n, w)",
        "x[1,4,6,6] -> y[1,3,6,6]",
        "g[2] w[3,4,1,1]",
        36 * 12,
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_others_write_has_its_macs_and_bytes(tmp_path: Path, case: str) -> None:
    nodes, tensors, constants, macs, size = CASES[case]
    path = write(tmp_path, tensors, nodes, constants, opset=18)
    workload = load_onnx(path).workload
    workload.account.require_modelled()
    assert workload.macs == macs
    assert size is None or distinct_bytes(workload) == size


def test_an_attribute_that_a_call_leaves_out_is_the_functions(tmp_path: Path) -> None:
    inner = node("Conv", ["a", "b"], ["c"])
    inner.attribute.add(name="strides", ref_attr_name="step", type=onnx.AttributeProto.INTS)
    made = onnx.FunctionProto(domain="own", name="Stepped", input=["a", "b"], output=["c"])
    made.node.append(inner)
    made.attribute_proto.append(helper.make_attribute("step", [2, 2]))
    made.opset_import.append(helper.make_opsetid("", 17))
    infos = [
        helper.make_tensor_value_info(name, FLOAT, shape)
        for name, shape in (("x", [1, 3, 9, 9]), ("y", None))
    ]
    weights = numpy_helper.from_array(_floats(4, 3, 3, 3), "w")
    call = node("Stepped", ["x", "w"], ["y"], domain="own")
    graph = helper.make_graph([call], "g", infos[:1], infos[1:], [weights])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[made])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert load_onnx(path).workload.macs == 4 * 4 * 4 * 27


def test_sizes_that_are_sums_of_others_follow_from_these(tmp_path: Path) -> None:
    """A decoder with past keys: scores of 2 heads of 8, of 1 token against 11 + 1."""
    nodes = (
        "keys = Concat <axis = 2> (past, k); turned = Transpose <perm = [0, 1, 3, 2]> (keys); "
        "s = MatMul(q, turned); y = Add(s, mask)"
    )
    inputs = "past[1,2,past_length,8] q[1,2,tokens,8] k[1,2,tokens,8]"
    every = "tokens,past_length + tokens"
    path = write(tmp_path, f"{inputs} mask[1,1,{every}] -> y[1,2,{every}]", nodes)
    workload = load_onnx(path, {"past_length": 11, "tokens": 1}).workload
    assert workload.macs == 2 * 12 * 8
    assert distinct_bytes(workload) == 4 * (2 * 12 * 8 + 2 * 8 + 12 + 2 * 12)


def _fused(tmp_path: Path, how: str) -> Path:
    """Return a model of a fused convolution whose output has no shape in the file."""
    nodes = f"c = com.microsoft.FusedConv <{how}> (x, w); r = Relu(c); s = Relu(x)"
    return write(tmp_path, "x[1,4,6,6] -> r s[1,4,6,6]", nodes, "w[8,4,3,3]")


def test_a_fused_convolution_has_the_shape_of_a_convolution(tmp_path: Path) -> None:
    workload = load_onnx(_fused(tmp_path, "strides = [2, 2], pads = [1, 1, 1, 1]")).workload
    assert workload.macs == 3 * 3 * 8 * 4 * 3 * 3  # (6 + 2 - 3) // 2 + 1 = 3 rows and columns
    assert workload.tensors["FusedConv_0.O"].kind == "intermediate"


@pytest.mark.parametrize("how", ["channels_last = 1", "strides = [1, 1, 1]"])
def test_a_fused_convolution_of_unknown_shape_cannot_be_counted(tmp_path: Path, how: str) -> None:
    account = load_onnx(_fused(tmp_path, how)).workload.account
    assert account.share_left_out() is None
    (conv,) = (one for one in account.entries if one.kind == "FusedConv")
    assert (conv.how, conv.macs) == ("not taken", None)
