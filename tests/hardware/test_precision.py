"""The precision of an accelerator: its sums, what is refused, and its document."""

from typing import Any

import pytest

from simaccel import simulate
from simaccel.errors import InputError
from simaccel.experiment.documents import accelerator_document
from simaccel.experiment.precision import place_on
from simaccel.hardware import Accelerator
from simaccel.hardware.load import list_accelerators
from simaccel.importers.accelerators import load_accelerator
from simaccel.workload import gemm, parse_workload, with_precision


@pytest.mark.parametrize(("number", "n_bytes"), [("fp16", 2), ("fp32", 4), ("int8", 1)])
def test_sums_set_the_width_of_the_accumulator(number: str, n_bytes: int) -> None:
    found = load_accelerator("tpu_v1", [f"precision.sums={number}"])
    assert found.systolic.accumulator is not None
    assert found.systolic.accumulator.bytes_per_element == n_bytes
    assert Accelerator.model_validate(found.model_dump()) == found
    assert accelerator_document(found)["precision"]["sums"] == number


def test_without_a_section_there_is_none_in_the_document() -> None:
    document = load_accelerator("toy").model_dump()
    del document["precision"]
    assert "precision" not in accelerator_document(Accelerator.model_validate(document))


@pytest.mark.parametrize(
    ("hw", "field", "allowed"),
    [
        ("edge", "sums=fp32", "nothing without array.accumulator"),
        ("eyeriss_like", "sums=fp32", "nothing without array.accumulator"),
        ("tpu_v1", "sums=int4", "a number of whole bytes"),
        ("tpu_v1", "weights=int3", "did you mean 'int32'?"),
    ],
)
def test_what_is_no_precision_is_refused(hw: str, field: str, allowed: str) -> None:
    with pytest.raises(InputError) as error:
        load_accelerator(hw, [f"precision.{field}"])
    (fault,) = error.value.faults
    assert fault.field == f"precision.{field.partition('=')[0]}"
    assert allowed in fault.allowed


def test_a_workload_takes_what_it_does_not_say_itself() -> None:
    on = load_accelerator("toy", ["precision.weights=int4", "precision.activations=int8"])
    found = place_on(with_precision(gemm(m=3, k=5, n=7), {"activations": "fp32"}), on)
    assert {name: one.bits for name, one in found.tensors.items()} == {"A": 32, "B": 4, "C": 32}
    assert place_on(found, on) is found
    assert place_on(found, load_accelerator("toy")) is found


@pytest.mark.parametrize(
    ("said", "bits"),
    [
        ({}, (8, 8, 8)),
        ({"bytes_per_element": 2}, (16, 16, 16)),
        ({"bytes_by_tensor": {"C": 4}}, (8, 8, 32)),
        ({"bytes_per_element": 1, "bytes_by_tensor": {"B": 2}}, (8, 16, 8)),
    ],
)
def test_what_somebody_says_goes_before_an_accelerator(
    said: dict[str, Any], bits: tuple[int, ...]
) -> None:
    found = place_on(gemm(m=3, k=5, n=7, **said), load_accelerator("edge_tpu"))
    assert tuple(found.tensors[name].bits for name in "ABC") == bits
    again = parse_workload(dict(found.parameters))
    assert tuple(again.tensors[name].bits for name in "ABC") == bits


def test_every_accelerator_that_is_shipped_has_numbers() -> None:
    for name in list_accelerators():
        assert set(load_accelerator(name).precision.by_class) == {"weights", "activations", "cache"}


def test_chips_of_int8_run_int8() -> None:
    """TPU v1: 92 TOPS at 700 MHz; bf16 operands would take each MAC twice and more."""
    done = simulate("tpu_v1_mlp0", "tpu_v1", "strips")
    assert done.run.native_macs == done.run.macs
    assert {one.bits for one in done.workload.tensors.values()} == {8}
