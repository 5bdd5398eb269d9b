import math
from typing import Any

import pytest

from simaccel.workload import AffineDimension, Einsum, Operand, Tensor, Vector, operand, softmax
from tests.data_files import data_beside
from tests.refusals import refusal_of
from tests.trees import reads

DATA = data_beside(__file__)

CONVOLUTION = Operand("I", (AffineDimension((("p", 2), ("r", 1))), AffineDimension((("c", 1),))))


def _message(make: Any, *args: Any, **kwargs: Any) -> str:  # noqa: ANN401 - any constructor
    return refusal_of(make, *args, **kwargs)


def test_affine_dimension_spans_the_positions_of_a_strided_window() -> None:
    # Stride 2, window 3, 4 outputs: the last window starts at 6 and ends at 8.
    assert CONVOLUTION.shape({"p": 4, "r": 3, "c": 5}) == (9, 5)
    assert CONVOLUTION.ranks == ("p", "r", "c")
    assert str(CONVOLUTION) == "I[2*p+r,c]"
    assert not CONVOLUTION.is_unit


def test_a_diagonal_is_not_unit() -> None:
    assert operand("A i j").is_unit
    assert not operand("A i i").is_unit


@pytest.mark.parametrize("terms", [(), (("m", 0),), (("m", -1),), (("m", 1), ("m", 2))])
def test_affine_refuses_terms(terms: tuple[tuple[str, int], ...]) -> None:
    assert _message(AffineDimension, terms) == (
        f"workload: projection: got {terms!r}; "
        "allowed: at least one term, distinct ranks, whole coefficients from 1"
    )


@pytest.mark.parametrize("size", [0, 17, True, 2.0])
def test_tensor_refuses_element_sizes(size: int) -> None:
    assert _message(Tensor, "A", size) == (
        f"workload: tensors.A.bytes_per_element: got {size!r}; allowed: a whole number from 1 to 16"
    )


def test_macs_of_an_einsum_are_the_product_of_its_ranks() -> None:
    ranks = {"p": 4, "r": 3, "c": 5, "k": 7}
    einsum = Einsum("conv", ranks, (CONVOLUTION, operand("W r c k")), operand("O p k"))
    assert einsum.macs == 4 * 3 * 5 * 7
    assert list(einsum.ranks) == ["p", "r", "c", "k"]
    assert str(einsum) == "conv: O[p,k] = I[2*p+r,c] W[r,c,k]"


@pytest.mark.parametrize(
    ("ranks", "second", "elementwise"),
    [
        ({"n": 4, "f": 8}, "n f", True),
        ({"n": 4, "f": 1}, "n f", True),
        ({"n": 4, "f": 8}, "f", False),
        ({"n": 4, "f": 1}, "n", True),
        ({"n": 1, "f": 1}, "n f", False),
    ],
)
def test_a_product_without_reuse_is_elementwise(
    ranks: dict[str, int], second: str, *, elementwise: bool
) -> None:
    inputs = (operand("G n f"), operand(f"U {second}"))
    assert Einsum("gate", ranks, inputs, operand("H n f")).elementwise is elementwise


def test_operators_are_hashable_and_keep_their_own_ranks() -> None:
    ranks = {"m": 4}
    one = Einsum("copy", ranks, (operand("A m"),), operand("B m"))
    ranks["m"] = 5
    assert one.macs == 4
    assert {one: 1}[Einsum("copy", {"m": 4}, (operand("A m"),), operand("B m"))] == 1


def test_einsum_reports_all_faults() -> None:
    ranks = {"m": 0, "keys": 2**40 + 1, "z": 3}
    message = _message(Einsum, "mm", ranks, (operand("A m key"),), operand("B m q keys"))
    assert message.splitlines() == [
        "workload: operators.mm.ranks.m: got 0; allowed: a whole number from 1 to 1099511627776",
        (
            "workload: operators.mm.ranks.keys: got 1099511627777; "
            "allowed: a whole number from 1 to 1099511627776"
        ),
        (
            "workload: operators.mm.inputs.0.projection: got 'key'; did you mean 'keys'? "
            "(allowed: m, keys, z)"
        ),
        "workload: operators.mm.output.projection: got 'q'; allowed: one of m, keys, z",
        "workload: operators.mm.ranks.z: got 3; allowed: only ranks that an operand uses",
    ]


def test_einsum_needs_an_input() -> None:
    assert _message(Einsum, "none", {"m": 2}, (), operand("B m")) == (
        "workload: operators.none.inputs: got (); allowed: at least one operand"
    )


def test_softmax_does_no_macs_and_has_one_input() -> None:
    found = softmax("s", {"q": 3, "c": 4}, operand("S q c"), operand("P q c"), "c", 0.5)
    assert (found.macs, found.inputs, found.elements) == (0, (operand("S q c"),), 12)
    assert str(found) == "s: P[q,c] = S[q,c] (softmax over c, scale 0.5)"


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_softmax_reports_all_faults(scale: float) -> None:
    ranks = {"q": 3, "c": 4}
    message = _message(softmax, "s", ranks, operand("S q c"), operand("P q q"), "k", scale)
    assert message.splitlines() == [
        "workload: operators.s.output: got 'P[q,q]'; allowed: each rank once: q, c",
        "workload: operators.s.axis: got 'k'; allowed: one of q, c",
        f"workload: operators.s.scale: got {scale!r}; allowed: a finite number above 0",
    ]


def _vector(kind: str, inputs: list[str], output: str, **more: Any) -> Vector:  # noqa: ANN401
    return Vector("v", kind, inputs=tuple(map(reads, inputs)), output=reads(output), **more)


@pytest.mark.parametrize("case", DATA["shown"])
def test_vector_operators_say_what_they_are(case: dict[str, Any]) -> None:
    assert str(_vector(**case["operator"])) == f"v: {case['shown']}"


@pytest.mark.parametrize("case", DATA["faults"])
def test_a_vector_operator_reports_all_faults(case: dict[str, Any]) -> None:
    found = _message(_vector, **case["operator"]).splitlines()
    assert found == [f"workload: operators.v.{fault}" for fault in case["faults"]]
