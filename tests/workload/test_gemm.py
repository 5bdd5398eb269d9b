import pickle
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.diagnosis.plain_values import einsum_values
from simaccel.errors import InputError
from simaccel.workload import (
    Conv,
    Einsum,
    OperatorRow,
    Product,
    Tensor,
    Workload,
    build,
    describe,
    gemm,
    layers_workload,
    operand,
    parse_workload,
)
from simaccel.workload.frozen import FrozenDict
from simaccel.workload.layers import Layers, distinct_names, one_layer, with_batch
from tests.refusals import refusal_of

SIZE = "a whole number from 1 to 1099511627776"


def test_gemm_is_one_einsum() -> None:
    workload = gemm(m=3, k=5, n=7, batch=2, bytes_by_tensor={"B": 1})
    (einsum,) = workload.operators
    assert str(einsum) == "gemm: C[b,m,n] = A[b,m,k] B[b,k,n]"
    assert dict(einsum.ranks) == {"b": 2, "m": 3, "k": 5, "n": 7}
    assert workload.macs == 2 * 3 * 5 * 7
    assert [workload.tensor_bytes(name) for name in "ABC"] == [2 * 15 * 2, 2 * 35 * 1, 2 * 21 * 2]
    kinds = [workload.tensors[name].kind for name in "ABC"]
    assert kinds == ["input", "weight", "output"]


def test_gemm_comes_back_from_its_parameters() -> None:
    workload = gemm(m=3, k=5, n=7, batch=2, bytes_per_element=4, bytes_by_tensor={"B": 1})
    again = parse_workload(dict(workload.parameters))
    assert (again, again.parameters) == (workload, workload.parameters)


def test_gemm_reports_all_faults() -> None:
    said = refusal_of(
        gemm, m=0, k=2**40, n=2**40 + 1, bytes_per_element=32, bytes_by_tensor={"D": 2, "A": 0}
    )
    assert said.splitlines() == [
        f"gemm: M: got 0; allowed: {SIZE}",
        f"gemm: N: got 1099511627777; allowed: {SIZE}",
        "gemm: bytes_by_tensor.A: got 0; allowed: a whole number from 1 to 16",
        "gemm: bytes_per_element: got 32; allowed: a whole number from 1 to 16",
        "gemm: bytes_by_tensor.D: got 2; allowed: one of A, B, C",
    ]


@given(*[st.integers(1, 2**40)] * 4)
def test_shape_is_read_in_any_order(m: int, k: int, n: int, batch: int) -> None:
    (einsum,) = build("gemm", shape=f"N={n}, B={batch},M={m},K={k}").operators
    assert dict(einsum.ranks) == {"b": batch, "m": m, "k": k, "n": n}


def test_a_shape_without_a_batch_has_one() -> None:
    assert build("gemm", shape="M=512,K=64,N=512").operators[0].ranks["b"] == 1


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", [f"{key}: got nothing; allowed: {SIZE}" for key in "MKN"]),
        ("M=1,K=2", [f"N: got nothing; allowed: {SIZE}"]),
        ("M=0,K=-2,N=3", [f"M: got 0; allowed: {SIZE}", f"K: got -2; allowed: {SIZE}"]),
        (
            "M=x,K=1.5,N=",
            [
                f"{k}: got {v!r}; allowed: {SIZE}"
                for k, v in zip("MKN", ("x", "1.5", ""), strict=True)
            ],
        ),
        ("M=1_0,K=٣,N=1", [f"M: got '1_0'; allowed: {SIZE}", f"K: got '٣'; allowed: {SIZE}"]),
        ("M=1,K=2,N=3,M=4", ["M: got '4'; allowed: each key once"]),
        ("M=1,K=2,N=3,k=4", ["k: got '4'; did you mean 'K'? (allowed: M, K, N, B)"]),
        ("M=1,K=2,N=3,Z=4", ["Z: got '4'; allowed: one of M, K, N, B"]),
        ("M=1,K=2,N=3,5", ["shape: got '5'; allowed: KEY=SIZE, as in M=512,K=64,N=512"]),
        ("M=1,K=2,N=1099511627777", [f"N: got 1099511627777; allowed: {SIZE}"]),
        (f"M=1,K=2,N={'9' * 5000}", [f"N: got '{'9' * 76}...; allowed: {SIZE}"]),
    ],
)
def test_wrong_shapes_say_what_is_wrong(text: str, faults: list[str]) -> None:
    said = refusal_of(build, "gemm", shape=text).splitlines()
    assert said == [f"shape: {fault}" for fault in faults]


def test_a_shape_is_text_or_sizes_by_name() -> None:
    assert build("gemm", shape={"M": 3, "K": 4, "N": 5}).macs == 3 * 4 * 5
    with pytest.raises(InputError, match=r"workload: shape: got 5; allowed: M=512,K=64,N=512"):
        build("gemm", shape=5)  # type: ignore[arg-type]


LAYERS: Layers = {
    "last_by_name_first_in_order": Conv(m=2, c=3, p=4, q=4, r=3, s=3),
    "fc": Product(m=1, k=32, n=10),
    "b": Product(m=3, k=4, n=5, b=2, transposed=(True, False)),
}


def test_layers_keep_their_order_and_own_their_tensors() -> None:
    workload = layers_workload("net", LAYERS, bytes_by_tensor={"O": 4})
    assert [operator.name for operator in workload.operators] == list(LAYERS)
    assert len(workload.tensors) == 9
    assert workload.shapes["fc.I"] == (1, 1, 32)
    assert workload.shapes["b.I"] == (2, 4, 3)
    kinds = [(t.kind, t.bytes_per_element) for t in workload.tensors.values()][:3]
    assert kinds == [("input", 2), ("weight", 2), ("output", 4)]
    assert workload.macs == 2 * 3 * 16 * 9 + 320 + 120


def test_layers_come_back_from_their_parameters() -> None:
    workload = layers_workload("net", LAYERS, bytes_per_element=1)
    again = parse_workload(dict(workload.parameters))
    assert (again, again.parameters) == (workload, workload.parameters)
    assert again.fingerprint == workload.fingerprint


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_factors_may_be_stored_transposed(transposed: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4, 5))
    einsum = Product(m=3, k=4, n=5, b=2, transposed=transposed).einsum("x")
    tensors = {
        "I": first.transpose(0, 2, 1).copy() if transposed[0] else first,
        "W": second.transpose(0, 2, 1).copy() if transposed[1] else second,
    }
    assert isinstance(einsum, Einsum)
    assert np.allclose(einsum_values(einsum, tensors), first @ second)


def test_a_batch_multiplies_samples_and_leaves_weights() -> None:
    batched = with_batch(LAYERS, 3)
    assert [shape.weights for shape in batched.values()] == [54, 320, 40]
    one, three = layers_workload("net", LAYERS), layers_workload("net", batched)
    assert three.macs == 3 * one.macs
    assert three.tensor_bytes("fc.W") == one.tensor_bytes("fc.W")
    assert three.tensor_bytes("fc.I") == 3 * one.tensor_bytes("fc.I")


def test_all_faults_are_reported() -> None:
    wrong: Any = {"a": Conv(m=0, c=1, p=1, q=1, r=1, s=1), "b": Product(m=1, k=2.5, n=1)}  # type: ignore[arg-type]
    size = "a whole number from 1 to 1073741824"
    said = refusal_of(layers_workload, "net", wrong, bytes_per_element=0)
    assert said.splitlines() == [
        "net: bytes_per_element: got 0; allowed: a whole number from 1 to 16",
        f"net: layers.a.M: got 0; allowed: {size}",
        f"net: layers.b.K: got 2.5; allowed: {size}",
    ]
    with pytest.raises(InputError, match="net: layers: got 'no layers'; allowed: at least one"):
        layers_workload("net", {})


def test_one_layer_is_chosen() -> None:
    assert one_layer(LAYERS, None) == LAYERS
    assert list(one_layer(LAYERS, "fc")) == ["fc"]
    with pytest.raises(InputError, match="workload: layer: got 'fcc'; did you mean 'fc'"):
        one_layer(LAYERS, "fcc")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["a_2", "a", "a"], ["a_2", "a", "a_3"]),
    ],
)
def test_names_become_distinct(given: list[str], found: list[str]) -> None:
    assert distinct_names(given) == found


def test_frozen_dict_keeps_order_and_compares_without_it() -> None:
    one, other = FrozenDict({"b": 1, "a": 2}), FrozenDict({"a": 2, "b": 1})
    assert list(one) == ["b", "a"]
    assert one == other == {"a": 2, "b": 1}
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - its own data


def test_frozen_dict_cannot_change() -> None:
    with pytest.raises(TypeError):
        cast("Any", FrozenDict({"a": 1}))["a"] = 2


def test_rows_of_a_block() -> None:
    rows = describe(build("bert", batch=1, seq_len=4, scope="la"))
    assert rows[0] == OperatorRow(
        operator="L",
        kind="einsum",
        ranks="b=1 h=12 q=4 c=4 d=64",
        macs=12 * 4 * 4 * 64,
        tensors="Q[b,h,q,d] K[b,h,c,d] S[b,h,q,c]",
        bytes=2 * 12 * (4 * 64 + 4 * 64 + 4 * 4),
    )
    assert [(row.operator, row.kind, row.macs) for row in rows[1:]] == [
        ("softmax", "softmax", 0),
        ("A", "einsum", 12 * 4 * 4 * 64),
    ]


def test_a_tensor_read_twice_counts_once() -> None:
    ranks = {"m": 2, "k": 3, "n": 2}
    gram = Einsum("gram", ranks, (operand("X m k"), operand("X n k")), operand("G m n"))
    tensors = {"X": Tensor("X", 1), "G": Tensor("G", 1, "output")}
    (row,) = describe(Workload("gram", (gram,), tensors))
    assert row.bytes == 6 + 4
