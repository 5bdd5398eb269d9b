import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import SimaccelError
from simaccel.workload import (
    Einsum,
    NotAMatmul,
    Operand,
    Vector,
    as_matmul,
    as_rows,
    build,
    operand,
    softmax,
)
from simaccel.workload.matmul import Array

RANKS = "abcdefgh"


@st.composite
def einsums(draw: st.DrawFn) -> Einsum:
    """Any einsum of two inputs whose ranks fall into g, m, k and n, dimensions in any order."""
    ranks = draw(st.permutations(RANKS))[: draw(st.integers(1, 6))]
    groups = draw(st.lists(st.sampled_from("gmkn"), min_size=len(ranks), max_size=len(ranks)))
    group = dict(zip(ranks, groups, strict=True))
    sizes = {rank: draw(st.integers(1, 3)) for rank in ranks}

    def make(tensor: str, members: str) -> Operand:
        order = draw(st.permutations([rank for rank in ranks if group[rank] in members]))
        return operand(" ".join((tensor, *order)))

    return Einsum("e", sizes, (make("A", "gmk"), make("B", "gkn")), make("C", "gmn"))


def _random(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).integers(-9, 9, shape)


def _computed(einsum: Einsum, a: Array, b: Array) -> Array:
    inputs = ",".join("".join(x.ranks) for x in einsum.inputs)
    return np.asarray(np.einsum(f"{inputs}->{''.join(einsum.output.ranks)}", a, b))


@given(einsums())
def test_grouped_matmul_computes_the_einsum(einsum: Einsum) -> None:
    matmul = as_matmul(einsum)
    a, b = (_random(x.shape(einsum.ranks), seed) for seed, x in enumerate(einsum.inputs))
    expected = _computed(einsum, a, b)
    product = matmul.a_matrix(a) @ matmul.b_matrix(b)
    assert product.shape == (matmul.g, matmul.m, matmul.n)
    assert np.array_equal(matmul.out_tensor(product), expected)
    assert np.array_equal(matmul.out_matrix(expected), product)
    assert matmul.g * matmul.m * matmul.k * matmul.n == einsum.macs


def test_matmuls_of_an_attention_block() -> None:
    bert = build("bert", batch=2, seq_len=5)
    found = {}
    for op in bert.operators:
        if isinstance(op, Einsum):
            x = as_matmul(op)
            found[op.name] = (x.a, x.b, x.out, x.g, x.m, x.k, x.n)
    assert found == {
        "Q": ("X", "Wq", "Q", 1, 10, 768, 768),
        "K": ("X", "Wk", "K", 1, 10, 768, 768),
        "V": ("X", "Wv", "V", 1, 10, 768, 768),
        "L": ("Q", "K", "S", 24, 5, 64, 5),
        "A": ("P", "V", "Z", 24, 5, 5, 64),
        "O": ("Z", "Wo", "Y", 1, 10, 768, 768),
        "FF1": ("Y", "W1", "F", 1, 10, 768, 3072),
        "FF2": ("F", "W2", "U", 1, 10, 3072, 768),
    }


def test_groups_of_ranks() -> None:
    bert = build("bert", batch=2, seq_len=5)
    logits, output = bert.operator("L"), bert.operator("O")
    assert isinstance(logits, Einsum)
    assert isinstance(output, Einsum)
    matmul = as_matmul(logits)
    assert (matmul.g_ranks, matmul.m_ranks) == (("b", "h"), ("q",))
    assert (matmul.k_ranks, matmul.n_ranks) == (("d",), ("c",))
    assert as_matmul(output).k_ranks == ("h", "d")


@pytest.mark.parametrize(
    ("inputs", "output", "reason"),
    [
        (("A m k",), "C m k", "it has 1 inputs, not 2"),
        (("A m k", "B k k"), "C m", "B[k,k] has a dimension that is not a rank of its own"),
        (("A m k", "B m"), "C m", "rank 'k' is in one of its operands only"),
        (("A m", "B m"), "C m k", "rank 'k' is in one of its operands only"),
    ],
)
def test_what_is_not_a_matmul_says_why(inputs: tuple[str, ...], output: str, reason: str) -> None:
    einsum = Einsum("odd", {"m": 2, "k": 3}, tuple(map(operand, inputs)), operand(output))
    with pytest.raises(NotAMatmul) as caught:
        as_matmul(einsum)
    assert str(caught.value) == f"einsum 'odd' is not a matrix multiplication: {reason}"
    assert isinstance(caught.value, SimaccelError)


def test_softmax_rows_of_attention() -> None:
    found = build("bert", batch=2, seq_len=5, scope="la").operator("softmax")
    assert isinstance(found, Vector)
    rows = as_rows(found)
    assert (rows.g, rows.m, rows.rows, rows.cols) == (24, 5, 120, 5)
    assert (rows.g_ranks, rows.m_ranks) == (("b", "h"), ("q",))


@given(st.permutations("bqc"), st.permutations("bqc"), st.sampled_from("bqc"))
def test_rows_go_to_any_layout(given_ranks: list[str], wanted: list[str], axis: str) -> None:
    sizes = {"b": 2, "q": 3, "c": 4}
    read, written = operand(" ".join(["S", *given_ranks])), operand(" ".join(["P", *wanted]))
    rows = as_rows(softmax("s", sizes, read, written, axis))
    array = _random(read.shape(sizes), 0)
    matrix = rows.to_rows(array)
    assert matrix.shape == (rows.rows, rows.cols) == (24 // sizes[axis], sizes[axis])
    moved = np.einsum(f"{''.join(given_ranks)}->{''.join(wanted)}", array)
    assert np.array_equal(rows.from_rows(matrix), moved)
    summed = np.sort(array.sum(axis=given_ranks.index(axis)).ravel())
    assert np.array_equal(np.sort(matrix.sum(axis=1)), summed)


def test_softmax_of_one_rank_is_one_row() -> None:
    rows = as_rows(softmax("s", {"c": 4}, operand("S c"), operand("P c"), "c"))
    assert (rows.g, rows.m, rows.cols) == (1, 1, 4)
    assert rows.to_rows(np.arange(4)).shape == (1, 4)


def test_arrays_of_another_shape_are_refused() -> None:
    einsum = Einsum(
        "e", {"m": 2, "k": 3, "n": 4}, (operand("A m k"), operand("B k n")), operand("C m n")
    )
    matmul = as_matmul(einsum)
    with pytest.raises(ValueError, match=r"^A\[m,k\] has the shape \(2, 3\), the array \(3, 2\)$"):
        matmul.a_matrix(np.zeros((3, 2)))
    message = r"^C\[m,n\] as a matrix has the shape \(1, 2, 4\), the array \(2, 4\)$"
    with pytest.raises(ValueError, match=message):
        matmul.out_tensor(np.zeros((2, 4)))
