"""Lookups, and attentions of ONNX Runtime's domain: what is read and multiplied, by hand."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from simaccel import load_accelerator, simulate
from simaccel.analytic.floor.compulsory import distinct_bytes
from simaccel.diagnosis.check import check
from simaccel.importers.onnx_files import load_onnx
from simaccel.workload import Workload
from simaccel.workload.precision import with_precision
from tests.importers.onnx_files.models import Type, onnx_nodes, save, write

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
node = helper.make_node


def _floats(*shape: int) -> Any:  # noqa: ANN401 - an array
    return np.ones(shape, np.float32)


Case = tuple[str | list[Any], str, str, int]
CASES: dict[str, Case] = {
    # nodes, inputs, output, constants, bytes: each element once, of indices 8 or 4 bytes
    "rows of an embedding": (
        "e = Gather(t, i); y = MatMul(e, w)",
        "i:int64[2,4] -> y[2,4,5]",
        "t[100,8] w[8,5]",
        4 * 8 * 8 + 8 * 8 + 4 * (40 + 40),
    ),
    "more rows than the table has": (
        "y = Gather(t, i)",
        "i:int64[2,40] -> y[2,40,8]",
        "t[3,8]",
        4 * 3 * 8 + 8 * 80 + 4 * 640,
    ),
    "one index for two tables": (
        "e = Gather(t, i); g = Gather(u, i); y = Add(e, g)",
        "i:int32[4] -> y[4,8]",
        "t[100,8] u[20,8]",
        4 * (32 + 32) + 4 * 4 + 4 * 32,
    ),
    "a table that a product reads, too": (
        "e = Gather(t, i); u = Transpose <perm = [1, 0]> (t); y = MatMul(e, u)",
        "i:int64[4] -> y[4,100]",
        "t[100,8]",
        4 * 800 + 8 * 4 + 4 * 400,
    ),
    "columns of an activation": (
        "h = Relu(x); y = Gather <axis = 1> (h, i)",
        "x[3,10,8] i:int64[4] -> y[3,4,8]",
        "",
        4 * 240 + 8 * 4 + 4 * 96,
    ),
    "indices that an operator makes": (
        "k = Add(i, j); y = Gather(t, k)",
        "i:int64[7] j:int64[7] -> y[7,8]",
        "t[100,8]",
        8 * 14 + 4 * (56 + 56),
    ),
    "indices in another form and type": (
        [
            node("Transpose", ["i"], ["j"], perm=[1, 0]),
            node("Cast", ["j"], ["k"], to=INT64),
            node("Gather", ["t", "k"], ["y"]),
        ],
        "i:int32[2,4] -> y[4,2,8]",
        "t[100,8]",
        4 * 8 + 4 * (64 + 64),
    ),
    "indices that are repeated": (
        "j = Expand(i, s); y = Gather(t, j)",
        "i:int64[1,4] -> y[3,4,8]",
        "t[100,8] s=[3,4]",
        8 * 4 + 4 * (32 + 96),
    ),
    "elements": (
        "y = GatherElements <axis = 1> (x, i)",
        "x[4,30] i:int64[4,6] -> y[4,6]",
        "",
        8 * 24 + 4 * (24 + 24),
    ),
    "blocks, by two numbers each": (
        "y = GatherND(x, i)",
        "x[4,30,8] i:int64[6,2] -> y[6,8]",
        "",
        8 * 12 + 4 * (48 + 48),
    ),
    "blocks of each sample": (
        "y = GatherND <batch_dims = 1> (x, i)",
        "x[4,30,8] i:int64[4,1] -> y[4,8]",
        "",
        8 * 4 + 4 * (32 + 32),
    ),
    # constant places are addresses: whoever reads the four rows reads them
    "rows at places that are known": (
        "h = Gather(x, i); y = Relu(h)",
        "x[10,8] -> y[4,8]",
        "i=[7,1,4,9]",
        4 * (32 + 32),
    ),
    # one word is at one place, which is a number, like an address: its rows and the gain are read
    "one word with its position and segment": (
        (
            'e, mask = com.microsoft.EmbedLayerNormalization(i, s, t, u, v, g, "", "", p); '
            "y = MatMul(e, w)"
        ),
        "i:int32[1,1] s:int32[1,1] p:int32[1,1] -> y[1,1,5]",
        "t[100,8] w[8,5] u[3,8] v[2,8] g[8]",
        4 * (8 + 8 + 8 + 8) + 4 * (40 + 5),
    ),
    # words, positions and segments: 100, 3 and 2 rows of 8; a norm's gain
    "words, positions and segments": (
        (
            'e, mask = com.microsoft.EmbedLayerNormalization(i, s, t, u, v, g, "", "", p); '
            "y = MatMul(e, w)"
        ),
        "i:int32[2,4] s:int32[2,4] p:int32[2,4] -> y[2,4,5]",
        "t[100,8] w[8,5] u[3,8] v[2,8] g[8]",
        3 * 4 * 8 + 4 * (64 + 24 + 16 + 8) + 4 * (40 + 40),
    ),
}


def _load(tmp_path: Path, case: str, bytes_per_element: int | None = None) -> Any:  # noqa: ANN401
    nodes, tensors, constants, _ = CASES[case]
    path = write(tmp_path, tensors, nodes, constants, opset=18)
    return load_onnx(path, None, bytes_per_element).workload


@pytest.mark.parametrize("case", CASES)
def test_a_lookup_reads_rows_and_indices(tmp_path: Path, case: str) -> None:
    workload = _load(tmp_path, case)
    assert not workload.account.entries_of("not taken")
    assert distinct_bytes(workload) == CASES[case][-1]


def test_indices_keep_their_type_where_other_elements_get_a_size(tmp_path: Path) -> None:
    case = "indices in another form and type"
    expected = 4 * 8 + 64 + 64
    assert distinct_bytes(_load(tmp_path, case, bytes_per_element=1)) == expected
    eight = {"weights": "int8", "activations": "int8"}
    assert distinct_bytes(with_precision(_load(tmp_path, case), eight)) == expected


def test_indices_of_many_numbers_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "x[4,30,8] i:int64[6,3] -> y[6]", "y = GatherND(x, i)")
    (left,) = load_onnx(path).workload.account.entries_of("not taken")
    assert (left.why, left.elements) == ("indices of 3 numbers each: not moved", 18)


F32, I32 = TensorProto.FLOAT, TensorProto.INT32
EDGE = load_accelerator("edge_tpu")


def _runtime(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:  # noqa: ANN401
    return helper.make_node(kind, inputs, outputs, None, None, "com.microsoft", **attributes)


def _read(
    path: Path,
    nodes: list[Any],
    inputs: dict[str, list[int]],
    constants: dict[str, Any],
    dims: dict[str, int] | None = None,
    **kept: list[int] | None,
) -> Workload:
    """Read a model of outputs `y` and ``kept``; its naive mapping runs with the right values."""
    kinds: dict[str, Type] = {
        name: (I32 if name.startswith("length") else F32, shape) for name, shape in inputs.items()
    }
    outputs: dict[str, Any] = {"y": (F32, None)} | {name: (F32, kept[name]) for name in kept}
    save(path, nodes, kinds, outputs, constants, opset=23, domains={"com.microsoft": 1})
    workload = load_onnx(path, dims).workload
    workload.account.require_modelled()
    result = simulate(workload, EDGE, "naive")
    assert check(workload, result.mapping, result.program)
    return workload


def test_queries_keys_and_values_in_all_their_forms(tmp_path: Path) -> None:
    """Four heads of 8 (values of 6 in the first), 6 tokens that see 10, or each other."""
    cases: list[tuple[dict[str, list[int]], int, int]] = [
        ({"q": [1, 6, 32], "k": [1, 10, 32], "v": [1, 10, 24]}, 10, 6),
        ({"q": [1, 6, 32], "k": [1, 10, 4, 2, 8]}, 10, 8),
        ({"q": [1, 6, 4, 3, 8]}, 6, 8),
        ({"q": [1, 6, 32], "k": [1, 4, 10, 8], "v": [1, 4, 10, 8]}, 10, 8),
    ]
    for number, (inputs, keys, size) in enumerate(cases):
        node = _runtime("MultiHeadAttention", [*inputs], ["y"], num_heads=4)
        workload = _read(tmp_path / f"{number}.onnx", [node], inputs, {})
        assert workload.macs == 4 * 6 * keys * (8 + size)
        every = sum(map(np.prod, inputs.values())) + 6 * 4 * size
        assert distinct_bytes(workload) == 4 * every


@pytest.mark.parametrize(("room", "window", "seen"), [(9, -1, 10), (64, -1, 64), (9, 4, 4)])
def test_a_token_sees_those_before(tmp_path: Path, room: int, window: int, seen: int) -> None:
    """Two of four heads share keys; a cache with room for more is as long as it is."""
    total = room if room == 64 else room + 1
    inputs = {"q": [1, 1, 32], "k": [1, 1, 16], "v": [1, 1, 16]}
    inputs |= {"pk": [1, 2, room, 8], "pv": [1, 2, room, 8], "length": [1], "length2": []}
    node = _runtime(
        "GroupQueryAttention",
        [*inputs],
        ["y", "nk", "nv"],
        num_heads=4,
        kv_num_heads=2,
        local_window_size=window,
    )
    kept = [1, 2, total, 8]
    workload = _read(tmp_path / "m.onnx", [node], inputs, {}, nk=kept, nv=kept)
    assert workload.macs == 4 * seen * (8 + 8)
    assert distinct_bytes(workload) == 4 * (32 + 2 * 2 * seen * 8 + 32)


def test_products_around_an_attention_that_turns(tmp_path: Path) -> None:
    """Keys that are made go out turned, as the values do: they are outputs of the graph."""
    weights = {"wq": (32, 32), "wk": (32, 16), "wv": (32, 16), "wo": (32, 32)}
    constants: dict[str, Any] = {name: np.zeros(one, np.float32) for name, one in weights.items()}
    constants |= {name: np.zeros((100, 4), np.float32) for name in ("cos", "sin")}
    nodes = [helper.make_node("MatMul", ["x", f"w{one}"], [one]) for one in "qkv"]
    nodes += onnx_nodes(
        "a, nk, nv = com.microsoft.GroupQueryAttention <do_rotary = 1, kv_num_heads = 2, "
        'num_heads = 4> (q, k, v, "", "", length, length2, cos, sin); y = MatMul(a, wo)'
    )
    inputs = {"x": [1, 6, 32], "length": [1], "length2": []}
    workload = _read(tmp_path / "m.onnx", nodes, inputs, constants, nk=None, nv=None)
    assert workload.macs == 6 * 32 * (32 + 16 + 16 + 32) + 4 * 6 * 6 * (8 + 8)
    turned = [dict(one.ranks) for one in workload.operators if ".rotary." in one.name]
    assert [math.prod(ranks.values()) for ranks in turned] == [6 * 32, 6 * 16]
    unread = [
        one.elements for one in workload.account.entries_of("not taken") if "angles" in one.why
    ]
    assert unread == [400, 400]


def test_an_attention_with_its_own_weights(tmp_path: Path) -> None:
    constants = {"w": np.zeros((32, 96), np.float32), "b": np.zeros(96, np.float32)}
    node = _runtime("Attention", ["x", "w", "b"], ["y"], num_heads=4)
    workload = _read(tmp_path / "m.onnx", [node], {"x": [1, 6, 32]}, constants)
    assert workload.macs == 6 * 32 * 96 + 4 * 6 * 6 * (8 + 8)


def test_what_no_output_depends_on_is_no_work(tmp_path: Path) -> None:
    """An auxiliary head that an exporter left in."""
    constants = {name: np.zeros((8, 5), np.float32) for name in ("w", "v")}
    nodes = onnx_nodes("unread = MatMul(x, w); unread2 = Relu(unread); y = MatMul(x, v)")
    workload = _read(tmp_path / "m.onnx", nodes, {"x": [4, 8]}, constants)
    assert workload.macs == 4 * 8 * 5
    assert distinct_bytes(workload) == 4 * (32 + 40 + 20)
    harmless = [one.name for one in workload.account.entries_of("harmless")]
    assert harmless == ["unread", "unread2"]


@pytest.mark.parametrize(
    ("kind", "rows", "past", "window", "pairs"),
    [
        # 2 x 65 rows see 65 and 130 keys; 100 are one block; 20 tokens are in a cache
        ("Attention", 130, 0, None, 65 * 65 + 65 * 130),
        ("Attention", 200, 0, None, 67 * 67 + 67 * 134 + 66 * 200),
        ("Attention", 100, 0, None, 100 * 100),
        ("MultiHeadAttention", 128, 20, None, 64 * 84 + 64 * 148),
        ("GroupQueryAttention", 128, 20, None, 64 * 84 + 64 * 148),
        # a window of 30: the second block's first row, 84, sees 55 to 84, its last row 147
        ("GroupQueryAttention", 128, 20, 30, 64 * 84 + 64 * 93),
        # one row sees all; without the attribute each row does
        ("Attention", 1, 20, None, 21),
        ("MultiHeadAttention", 128, 20, 0, 128 * 148),
    ],
)
def test_what_a_causal_mask_hides_is_not_computed(
    kind: str, rows: int, past: int, window: int | None, pairs: int, tmp_path: Path
) -> None:
    """Blocks of at least 64 rows see the keys up to their last row; two heads of 8."""
    inputs = {name: [1, rows, 16] for name in "qkv"}
    names = ["q", "k", "v"]
    if past:
        inputs |= {"pk": [1, 2, past, 8], "pv": [1, 2, past, 8]}
    if kind == "Attention":
        names += ["", "pk", "pv"] if past else []
        node = helper.make_node(
            kind, names, ["y", "nk", "nv"], is_causal=1, q_num_heads=2, kv_num_heads=2
        )
    elif kind == "MultiHeadAttention":
        names += ["", "", "", "pk", "pv"]
        causal = int(window is None)
        node = _runtime(kind, names, ["y", "nk", "nv"], num_heads=2, unidirectional=causal)
    else:
        inputs |= {"length": [1], "length2": []}
        names += ["pk", "pv", "length", "length2"]
        how = {"local_window_size": window} if window else {}
        node = _runtime(kind, names, ["y", "nk", "nv"], num_heads=2, kv_num_heads=2, **how)
    kept = [1, 2, past + rows, 8]
    workload = _read(tmp_path / "m.onnx", [node], inputs, {}, nk=kept, nv=kept)
    assert workload.macs == 2 * pairs * (8 + 8)
    seen = past + rows if not window else min(past + rows, rows + window - 1)
    assert distinct_bytes(workload) == 4 * 16 * (2 * rows + 2 * seen)
    (entry,) = [one for one in workload.account.entries_of("taken") if one.macs]
    assert entry.macs == workload.macs


def test_an_empty_cache_is_none(tmp_path: Path) -> None:
    """Six tokens of two heads of 8 see each other, whatever joins the cache to them."""
    halves = {"w": np.zeros((16, 48), np.float32)}
    cached, packed = [1, 2, "past", 8], [2, 1, 2, "past", 8]
    both: dict[str, Any] = {"pk": cached, "pv": cached}
    three: dict[str, Any] = {name: [1, 6, 16] for name in "qkv"}
    ends = ["y", "nk", "nv"]
    node, heads = helper.make_node, {"num_heads": 2, "kv_num_heads": 2}
    joined = onnx_nodes(
        "tk = Transpose <perm = [0, 1, 3, 2]> (pk); kt = Transpose <perm = [0, 1, 3, 2]> (k); "
        "every = Concat <axis = 3> (tk, kt); y = MatMul(q, every)"
    )
    cases: list[tuple[list[Any], dict[str, Any], dict[str, Any], int]] = [
        (joined, {"pk": cached, **{name: [1, 2, 6, 8] for name in "qk"}}, {}, 8),
        (
            [node("Attention", [*three, "", *both], ends, q_num_heads=2, kv_num_heads=2)],
            three | both,
            {},
            16,
        ),
        (
            [_runtime("MultiHeadAttention", [*three, "", "", "", *both], ends, num_heads=2)],
            three | both,
            {},
            16,
        ),
        (
            [_runtime("GroupQueryAttention", [*three, *both, "length", "length2"], ends, **heads)],
            three | both | {"length": [1], "length2": []},
            {},
            16,
        ),
        (
            onnx_nodes('y = com.microsoft.Attention <num_heads = 2> (x, w, "", "", p)'),
            {"x": [1, 6, 16], "p": packed},
            halves,
            16,
        ),
    ]
    for number, (nodes, inputs, constants, size) in enumerate(cases):
        kept: dict[str, Any] = {"nk": None, "nv": None} if "nk" in nodes[0].output else {}
        path = tmp_path / f"{number}.onnx"
        workload = _read(path, nodes, inputs, constants, dims={"past": 0}, **kept)
        assert workload.macs == 2 * 6 * 6 * size + (6 * 16 * 48 if constants else 0)
        assert not any(tensor.kind == "cache" for tensor in workload.tensors.values())


def test_what_is_made_of_no_elements_is_no_work(tmp_path: Path) -> None:
    """A product over an empty cache is zeros, which are added to another product of 6 x 8 x 8."""
    nodes = [
        helper.make_node("MatMul", [*pair], [made]) for pair, made in (("pv", "a"), ("qw", "b"))
    ]
    nodes += onnx_nodes("y = Add(a, b)")
    path = write(tmp_path, "p[6,past] v[past,8] q[6,8] w[8,8] -> y[6,8]", nodes)
    workload = load_onnx(path, {"past": 0}).workload
    assert workload.macs == 6 * 8 * 8
    (zeros,) = [one for one in workload.account.entries_of("not taken") if one.kind == "MatMul"]
    assert zeros.why == "what is made of no elements"
