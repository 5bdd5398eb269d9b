"""Precision by class, operands as they are printed, and attention."""

import math
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simaccel import simulate
from simaccel.errors import InputError
from simaccel.hardware.precision import PrecisionSpec
from simaccel.numbers import BITS, in_bytes
from simaccel.workload import (
    ModelDimensions,
    Tensor,
    Vector,
    attention,
    build,
    canonical_text,
    gemm,
    parse_workload,
    with_precision,
)
from simaccel.workload.documents import einsums_document
from simaccel.workload.einsum import AffineDimension, Operand
from simaccel.workload.forms import OperandForm
from simaccel.workload.precision import parse_precision
from tests.data_files import data_beside
from tests.refusals import faults_of, refusal_of

DATA = data_beside(__file__)

ALL = {"weights": "int4", "activations": "int8", "cache": "fp8"}


def test_a_number_has_the_bits_that_its_name_says() -> None:
    others = {"tf32": 32}  # 19 that count, in a word
    for name, bits in BITS.items():
        assert bits == others.get(name, int(name.lstrip("intfpb")))


def test_four_bits_lie_two_in_a_byte() -> None:
    assert [in_bytes(n, 4) for n in (1, 2, 3, 13)] == [1, 1, 2, 7]
    assert [in_bytes(13, bits) for bits in (8, 16, 32)] == [13, 26, 52]


@pytest.mark.parametrize("given", [ALL, "weights=int4, activations=int8,cache=fp8"])
def test_classes_take_their_numbers(given: object) -> None:
    found = build("llama-2-7b", phase="decode", prompt=8, precision=given)  # type: ignore[arg-type]
    by_kind = {tensor.kind: tensor.bits for tensor in found.tensors.values()}
    assert by_kind == {"weight": 4, "cache": 8, "input": 8, "intermediate": 8, "output": 8}
    assert found.tensor_bytes("Wq") == 4096 * 4096 // 2


def test_precision_goes_before_element_sizes_and_leaves_other_classes() -> None:
    found = build("gemm", shape="M=3,K=5,N=7", bytes_per_element=4, precision="weights=fp8")
    assert {name: one.bits for name, one in found.tensors.items()} == {"A": 32, "B": 8, "C": 32}


def test_a_workload_is_made_again_from_its_parameters() -> None:
    for name, sizes in (
        ("gemm", {"shape": "M=3,K=5,N=7"}),
        ("bert", {"seq_len": 4}),
        ("resnet50", {"layer": "conv1"}),
        ("llama-2-7b", {"phase": "decode", "prompt": 8}),
    ):
        found = build(name, **sizes, precision=ALL)
        again = parse_workload(found.parameters)
        assert again == found
        assert again.parameters == found.parameters
        assert again.fingerprint == found.fingerprint != build(name, **sizes).fingerprint


def test_einsums_say_which_tensors_are_packed() -> None:
    one = with_precision(gemm(m=3, k=5, n=7), {"weights": "int4"})
    document = einsums_document("one", one.operators, one.tensors.values())
    again = parse_workload(document)
    assert dict(again.tensors) == dict(one.tensors)
    assert parse_workload(again.parameters) == again
    assert "weight B, 4 bits per element" in canonical_text(again)


@pytest.mark.parametrize(("given", "field", "allowed"), DATA["refused"])
def test_what_is_no_precision_is_refused(given: object, field: str, allowed: str) -> None:
    (fault,) = faults_of(parse_precision, given, "workload")
    assert fault.field == field
    assert allowed in fault.allowed


def test_all_faults_of_a_document_are_reported_with_its_name() -> None:
    document = {**gemm(m=3, k=5, n=7).parameters, "precision": {"wights": "int4", "cache": "x"}}
    found = faults_of(parse_workload, document, "mine.yaml")
    assert [(one.file, one.field) for one in found] == [
        *(("mine.yaml", "precision.wights"), ("mine.yaml", "precision.cache"))
    ]


def test_a_packed_tensor_has_no_element_size_of_its_own() -> None:
    with pytest.raises(InputError, match="from 1 to 1"):
        Tensor("A", 2, packed=True)


def test_an_accelerator_has_no_word_of_its_own_for_a_class() -> None:
    assert {*PrecisionSpec.model_fields} == {*ALL, "sums", "source"}


ODD = ModelDimensions(hidden=6, heads=2, head_size=5, ff_size=11, layers=3)
SIZES = st.integers(1, 10_000)


@given(*[SIZES] * 7)
def test_macs_of_a_block(b: int, n: int, hidden: int, h: int, d: int, ff: int, layers: int) -> None:
    sizes = ModelDimensions(hidden=hidden, heads=h, head_size=d, ff_size=ff, layers=layers)
    la = 2 * b * h * n * n * d
    block = b * n * (4 * hidden * h * d + 2 * hidden * ff) + la
    found = [
        attention(sizes, batch=b, seq_len=n, scope=scope).macs for scope in ("la", "block", "model")
    ]
    assert found == [la, block, layers * block]


def test_operators_are_in_the_order_of_the_paper() -> None:
    block = attention(ODD, batch=2, seq_len=7)
    names = [operator.name for operator in block.operators]
    assert names == ["Q", "K", "V", "L", "softmax", "A", "O", "FF1", "FF2"]
    la = attention(ODD, batch=2, seq_len=7, scope="la")
    assert [operator.name for operator in la.operators] == ["L", "softmax", "A"]


def test_shapes_of_a_block_whose_heads_do_not_divide_its_hidden_size() -> None:
    block = attention(ODD, batch=2, seq_len=7)
    assert dict(block.shapes) == {
        "X": (2, 7, 6),
        **dict.fromkeys(("Wq", "Wk", "Wv"), (6, 2, 5)),
        **dict.fromkeys(("Q", "K", "V", "Z"), (2, 2, 7, 5)),
        **dict.fromkeys(("S", "P"), (2, 2, 7, 7)),
        "Wo": (2, 5, 6),
        **dict.fromkeys(("Y", "U"), (2, 7, 6)),
        "W1": (6, 11),
        "F": (2, 7, 11),
        "W2": (11, 6),
    }


def test_kinds_of_tensors() -> None:
    block = attention(ODD, batch=2, seq_len=7)
    ends = {x.name: x.kind for x in block.tensors.values() if x.kind != "intermediate"}
    assert ends == {
        "X": "input",
        **dict.fromkeys(("Wq", "Wk", "Wv", "Wo", "W1", "W2"), "weight"),
        "U": "output",
    }
    la = attention(ODD, batch=2, seq_len=7, scope="la")
    assert {x.name: x.kind for x in la.tensors.values()} == {
        **dict.fromkeys(("Q", "K", "V"), "input"),
        **dict.fromkeys(("S", "P"), "intermediate"),
        "Z": "output",
    }


def test_softmax_scales_by_the_root_of_the_head_size() -> None:
    softmax = attention(ODD, batch=2, seq_len=7).operator("softmax")
    assert isinstance(softmax, Vector)
    assert (softmax.kind, softmax.axis, softmax.scale) == ("softmax", "c", 1 / math.sqrt(5))


def test_model_is_the_block_repeated() -> None:
    block, model = (attention(ODD, batch=2, seq_len=7, scope=scope) for scope in ("block", "model"))
    assert replace(block, repeat=3) == model


def test_element_sizes_can_differ() -> None:
    block = attention(ODD, batch=2, seq_len=7, bytes_per_element=1, bytes_by_tensor={"S": 4})
    assert block.tensor_bytes("S") == 4 * 2 * 2 * 7 * 7
    assert block.tensor_bytes("P") == 1 * 2 * 2 * 7 * 7


@pytest.mark.parametrize("scope", ["la", "block", "model"])
def test_attention_comes_back_from_its_parameters(scope: str) -> None:
    workload = attention(ODD, batch=2, seq_len=7, scope=scope, bytes_by_tensor={"S": 4})
    again = parse_workload(dict(workload.parameters))
    assert (again, again.parameters) == (workload, workload.parameters)


def test_attention_reports_all_faults() -> None:
    sizes = replace(ODD, heads=-1, ff_size=0)
    said = refusal_of(attention, sizes, batch=0, seq_len=7, scope="blok", bytes_by_tensor={"Wx": 2})
    assert said.splitlines() == [
        "attention: batch: got 0; allowed: a whole number from 1 to 1099511627776",
        "attention: heads: got -1; allowed: a whole number from 1 to 1099511627776",
        "attention: ff_size: got 0; allowed: a whole number from 1 to 1099511627776",
        "attention: scope: got 'blok'; did you mean 'block'? (allowed: la, block, model)",
        (
            "attention: bytes_by_tensor.Wx: got 2; "
            "allowed: one of X, Wq, Wk, Wv, Wo, W1, W2, Q, K, V, S, P, Z, Y, F, U"
        ),
    ]


_TERMS = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 9), min_size=1, max_size=3)


@st.composite
def _operands(draw: st.DrawFn) -> Operand:
    dims = draw(st.lists(_TERMS, min_size=1, max_size=4))
    start = draw(st.none() | st.just(len(dims)))
    starts = [draw(st.integers(0, 99)) for _ in range(start or 0)]
    projection = tuple(AffineDimension(tuple(dim.items())) for dim in dims)
    return Operand("T_0", projection, tuple(starts))


@given(_operands())
def test_what_is_printed_is_read_back(one: Operand) -> None:
    read = OperandForm.model_validate(str(one))
    assert [dict(dim.terms) for dim in one.projection] == read.projection
    assert (read.tensor, tuple(read.start)) == (one.tensor, one.start)


_DOCUMENT = """
kind: einsums
name: slices
tensors: {Q: {kind: input}, K: {kind: input}, S: {kind: output}}
operators:
  low:
    ranks: {m: 8, n: 4, k: 16}
    inputs: ["Q[m+8,k+0]", {tensor: K, projection: [k, n]}]
    output: {tensor: S, projection: [m+8, n+0]}
"""


def test_a_file_may_have_slices_as_they_are_printed() -> None:
    plain = yaml.safe_load(_DOCUMENT)
    workload = parse_workload(plain, "slices.yaml")
    (low,) = workload.operators
    assert [str(one) for one in (*low.inputs, low.output)] == ["Q[m+8,k+0]", "K[k,n]", "S[m+8,n+0]"]
    assert low.output.start == (8, 0)
    plain["operators"]["low"]["inputs"][0] = "Q[m+8+1,k]"
    with pytest.raises(
        InputError, match=r"operators.low.inputs.0.projection: got .m.8.1.; allowed: one of m, n, k"
    ):
        parse_workload(plain, "slices.yaml")


def test_a_run_says_which_caches_are_held_twice() -> None:
    """Eight key-value heads on 16 chips that share a layer: each is on two of them."""
    workload = build("llama3-8b", batch=1, phase="decode", kv_len=64)
    said = simulate(workload, "tpu_v5e_4x4", "naive").summary()
    assert "caches K, V: 8 pieces on 16 chips, so that 2 chips hold each" in said
