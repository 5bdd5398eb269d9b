import pickle
from dataclasses import replace
from itertools import permutations

import pytest

from simaccel.errors import InputError
from simaccel.workload import (
    Einsum,
    Kind,
    Operator,
    Tensor,
    Workload,
    build,
    canonical_text,
    operand,
    softmax,
)
from tests.refusals import refusal_of
from tests.trees import vector
from tests.trees import workload as small

FIRST = Einsum(
    "first", {"m": 4, "k": 8, "n": 2}, (operand("A m k"), operand("B k n")), operand("S m n")
)
SECOND = softmax("second", {"q": 4, "c": 2}, operand("S q c"), operand("P q c"), "c")
TENSORS = {
    "A": Tensor("A", 1),
    "B": Tensor("B", 2, "weight"),
    "S": Tensor("S", 4, "intermediate"),
    "P": Tensor("P", 2, "output"),
}
CHAIN = Workload("chain", (FIRST, SECOND), TENSORS)


def _refused(
    operators: tuple[Operator, ...], tensors: dict[str, Tensor], repeat: int = 1
) -> list[str]:
    return refusal_of(Workload, "refused", operators, tensors, repeat).splitlines()


def _copy(name: str, source: str, target: str) -> Einsum:
    return Einsum(name, {"m": 4}, (operand(f"{source} m"),), operand(f"{target} m"))


def _tensors(**kinds: Kind) -> dict[str, Tensor]:
    return {name: Tensor(name, 2, kind) for name, kind in kinds.items()}


def test_shapes_and_bytes_follow_the_operands() -> None:
    assert dict(CHAIN.shapes) == {"A": (4, 8), "B": (8, 2), "S": (4, 2), "P": (4, 2)}
    assert [CHAIN.tensor_bytes(name) for name in "ABSP"] == [32, 32, 32, 16]
    assert CHAIN.operator("second") is SECOND


def test_repetitions_multiply_the_macs() -> None:
    assert CHAIN.macs == 4 * 8 * 2
    assert replace(CHAIN, repeat=12).macs == 12 * 4 * 8 * 2


def test_operators_are_sorted_and_keep_the_given_order_where_they_can() -> None:
    tensors = _tensors(A="input", B="output", C="intermediate", D="output")
    early, middle, late = _copy("b", "A", "B"), _copy("c", "A", "C"), _copy("a", "C", "D")
    for given in permutations((early, middle, late)):
        order = Workload("w", given, tensors).operators
        assert order.index(middle) < order.index(late)
        if given.index(middle) < given.index(late):
            assert order == given


def test_workloads_are_hashable_and_survive_pickling() -> None:
    bert = build("bert", batch=1, seq_len=8)
    again = pickle.loads(pickle.dumps(bert))  # noqa: S301 - its own data
    assert (again, hash(again), again.fingerprint) == (bert, hash(bert), bert.fingerprint)


def test_canonical_text() -> None:
    assert canonical_text(CHAIN).splitlines() == [
        "repeat 1",
        "first: S[m,n] = A[m,k] B[k,n] with m=4 k=8 n=2",
        "second: P[q,c] = S[q,c] (softmax over c, scale 1.0) with q=4 c=2",
        "input A, 1 bytes per element",
        "weight B, 2 bytes per element",
        "output P, 2 bytes per element",
        "intermediate S, 4 bytes per element",
    ]


def test_fingerprint_tells_apart_what_is_computed_and_nothing_else() -> None:
    assert CHAIN.fingerprint == "27f6fdd8fa76dc4c"
    assert replace(CHAIN, name="other", parameters={"x": 1}).fingerprint == CHAIN.fingerprint
    assert replace(CHAIN, operators=(SECOND, FIRST)).fingerprint == CHAIN.fingerprint
    different = [
        replace(CHAIN, repeat=2),
        replace(CHAIN, tensors={**TENSORS, "A": Tensor("A", 2)}),
        replace(CHAIN, operators=(FIRST, replace(SECOND, scale=0.5))),
    ]
    assert len({workload.fingerprint for workload in (CHAIN, *different)}) == 4


def test_refuses_no_operators_and_no_repetitions() -> None:
    assert _refused((), {}, 0) == [
        "workload: repeat: got 0; allowed: a whole number from 1 to 1099511627776",
        "workload: operators: got (); allowed: at least one operator",
    ]


def test_refuses_unknown_tensors_wrong_keys_and_equal_names() -> None:
    tensors = {"Query": Tensor("Query"), "Key": Tensor("Keys", 2, "output")}
    operators = (_copy("x", "Qery", "Key"), _copy("x", "Query", "Key"))
    assert _refused(operators, tensors) == [
        "workload: operators.x: got '2 operators'; allowed: one operator of a name",
        "workload: tensors.Key: got 'Keys'; allowed: its key, 'Key'",
        (
            "workload: operators.x.inputs.0.tensor: got 'Qery'; did you mean 'Query'? "
            "(allowed: Query, Key)"
        ),
    ]


def test_refuses_operators_that_disagree_on_a_shape() -> None:
    shorter = replace(SECOND, ranks={"q": 4, "c": 3})
    assert _refused((FIRST, shorter), TENSORS) == [
        (
            "workload: operators.second.inputs.0: got (4, 3); "
            "allowed: shape (4, 2) of S, as at operators.first.output"
        )
    ]


def test_refuses_a_tensor_written_twice() -> None:
    operators = (_copy("x", "A", "B"), _copy("y", "A", "B"))
    assert _refused(operators, _tensors(A="input", B="output")) == [
        "workload: tensors.B: got ['x', 'y']; allowed: one operator that writes it"
    ]


def test_refuses_a_cycle() -> None:
    operators = (_copy("x", "A", "B"), _copy("y", "B", "A"))
    (fault,) = _refused(operators, _tensors(A="intermediate", B="intermediate"))
    assert fault == (
        "workload: operators: got 'A -> x -> B -> y'; "
        "allowed: operators and tensors without a cycle"
    )


def test_refuses_tensors_whose_kind_is_not_their_role() -> None:
    tensors = _tensors(A="intermediate", B="weight", C="output", D="weight")
    assert _refused((_copy("x", "A", "B"),), tensors) == [
        (
            "workload: tensors.A: got nothing; "
            "allowed: an operator that writes it, as its kind is 'intermediate'"
        ),
        (
            "workload: tensors.B.kind: got 'weight'; "
            "allowed: 'intermediate' or 'output', as an operator writes it"
        ),
        (
            "workload: tensors.B: got nothing; "
            "allowed: an operator that reads it, as its kind is 'weight'"
        ),
        (
            "workload: tensors.C: got nothing; "
            "allowed: an operator that writes it, as its kind is 'output'"
        ),
        (
            "workload: tensors.D: got nothing; "
            "allowed: an operator that reads it, as its kind is 'weight'"
        ),
    ]


def test_refuses_an_operator_that_reads_two_boxes_of_a_tensor() -> None:
    """They would be one tile; an operator may read one box twice."""
    add = vector("add", "residual", "C m", "A m", "A m", m=4)
    low, high = (replace(given, start=(at,)) for given, at in zip(add.inputs, (0, 4), strict=True))
    message = r"operators.add.inputs.1: got 'A\[m\+4\]'; allowed: the box of A that inputs.0 is"
    with pytest.raises(InputError, match=message):
        small(replace(add, inputs=(low, high)))
    assert small(replace(add, inputs=(high, high))).shapes["A"] == (8,)
