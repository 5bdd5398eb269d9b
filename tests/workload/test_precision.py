"""Precision by class: bits of tensors, what is refused, and documents that say it again."""

import pytest

from simaccel.errors import InputError
from simaccel.hardware.precision import PrecisionSpec
from simaccel.numbers import BITS, in_bytes
from simaccel.workload import (
    Tensor,
    build,
    canonical_text,
    gemm,
    parse_precision,
    parse_workload,
    with_precision,
)
from simaccel.workload.documents import einsums_document

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


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ("weight=int4", "precision.weight", "did you mean 'weights'?"),
        ("weights=int3", "precision.weights", "did you mean 'int32'?"),
        ("weights=int4,weights=int8", "precision.weights", "each class once"),
        ("sums=fp32", "precision.sums", "nothing without an accelerator, whose array"),
        ({"cache": 8}, "precision.cache", "one of int4, fp4, int8"),
        (8, "precision", "a text such as weights=int4,activations=int8"),
    ],
)
def test_what_is_no_precision_is_refused(given: object, field: str, allowed: str) -> None:
    with pytest.raises(InputError) as error:
        parse_precision(given, "workload")
    (fault,) = error.value.faults
    assert fault.field == field
    assert allowed in fault.allowed


def test_all_faults_of_a_document_are_reported_with_its_name() -> None:
    document = {**gemm(m=3, k=5, n=7).parameters, "precision": {"wights": "int4", "cache": "x"}}
    with pytest.raises(InputError) as error:
        parse_workload(document, "mine.yaml")
    assert [(one.file, one.field) for one in error.value.faults] == [
        *(("mine.yaml", "precision.wights"), ("mine.yaml", "precision.cache"))
    ]


def test_a_packed_tensor_has_no_element_size_of_its_own() -> None:
    with pytest.raises(InputError, match="from 1 to 1"):
        Tensor("A", 2, packed=True)


def test_an_accelerator_has_no_word_of_its_own_for_a_class() -> None:
    assert {*PrecisionSpec.model_fields} == {*ALL, "sums", "source"}
