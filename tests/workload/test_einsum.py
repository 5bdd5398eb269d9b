import math
from typing import Any

import pytest

from simaccel.workload import AffineDimension, Einsum, Operand, Tensor, Vector, operand, softmax
from tests.refusals import refusal_of

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


WINDOW = Operand("I", (AffineDimension((("p", 2), ("r", 1))), AffineDimension((("c", 1),))))


@pytest.mark.parametrize(
    ("kind", "ranks", "inputs", "output", "axis", "shown"),
    [
        ("gelu", {"q": 2, "c": 4}, ("X q c",), "Y c q", None, "Y[c,q] = X[q,c] (gelu)"),
        (
            "rms_norm",
            {"q": 2, "c": 4},
            ("X q c", "G c"),
            "Y q c",
            "c",
            "Y[q,c] = X[q,c] G[c] (rms_norm over c)",
        ),
        (
            "mask",
            {"h": 2, "q": 2, "c": 4},
            ("S h q c", "M q c"),
            "T h q c",
            None,
            "T[h,q,c] = S[h,q,c] M[q,c] (mask, scale 0.5)",
        ),
        ("pooling", {"p": 4, "r": 3, "c": 5}, (), "O c p", None, "O[c,p] = I[2*p+r,c] (pooling)"),
    ],
)
def test_vector_operators_say_what_they_are(
    kind: str,
    ranks: dict[str, int],
    inputs: tuple[str, ...],
    output: str,
    axis: str | None,
    shown: str,
) -> None:
    given = tuple(map(operand, inputs)) or (WINDOW,)
    scale = 0.5 if kind == "mask" else 1.0
    assert str(Vector("v", kind, ranks, given, operand(output), axis, scale)) == f"v: {shown}"


RANKS = {"q": 2, "c": 5}


@pytest.mark.parametrize(
    ("vector", "faults"),
    [
        (
            ("gelo", RANKS, (operand("X q c"),), operand("Y q c")),
            ["kind: got 'gelo'; did you mean 'gelu'?"],
        ),
        (
            ("gelu", RANKS, (operand("X q c"),) * 2, operand("Y q"), "c", 2.0),
            [
                "inputs: got '2 inputs'; allowed: one input",
                "output: got 'Y[q]'; allowed: each rank once: q, c",
                "axis: got 'c'; allowed: nothing, as gelu has none",
                "scale: got 2.0; allowed: nothing, as gelu has none",
            ],
        ),
        (
            ("layer_norm", RANKS, (operand("X q c"), operand("G c c")), operand("Y q c")),
            [
                "inputs.1: got 'G[c,c]'; allowed: some of the ranks, each once: q, c",
                "axis: got nothing; allowed: one of q, c",
            ],
        ),
        (
            ("residual", RANKS, (operand("B c"), operand("X q c")), operand("Y q c")),
            ["inputs.0: got 'B[c]'; allowed: each rank once: q, c"],
        ),
        (
            ("product", RANKS, (operand("X q c"),), operand("Y q c")),
            ["inputs: got '1 inputs'; allowed: 2 inputs"],
        ),
        (
            ("rms_norm", RANKS, (), operand("Y q c"), "c"),
            ["inputs: got '0 inputs'; allowed: 1 to 2 inputs"],
        ),
        (
            (
                "rotary",
                RANKS,
                tuple(map(operand, ("X q c", "C q c", "S q c"))),
                operand("Y q c"),
                "c",
            ),
            ["ranks.c: got 5; allowed: a multiple of 2, as rotary goes along it"],
        ),
        (
            ("pooling", {"p": 2, "r": 3, "c": 5}, (operand("I p c"),), operand("O p r")),
            ["inputs.0: got 'I[p,c]'; allowed: all ranks: p, r, c"],
        ),
        (
            ("pooling", {"p": 2, "r": 3, "c": 5}, (WINDOW,), operand("O p p")),
            ["output: got 'O[p,p]'; allowed: some of the ranks, each once: p, r, c"],
        ),
    ],
)
def test_a_vector_operator_reports_all_faults(vector: tuple[Any, ...], faults: list[str]) -> None:
    message = _message(Vector, "v", *vector)
    assert message.splitlines() == [f"workload: operators.v.{fault}" for fault in faults]
