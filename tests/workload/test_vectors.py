"""Vector operators: their figures, and their meanings against plain numpy."""

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.workload.vectors import VECTORS, Passes, RankOrder, Statistics

Array = npt.NDArray[np.float64]

STEPS = [
    ("softmax", "whole", 3, (3,), 2),
    ("softmax", "statistics", 1, (1,), 0),
    ("softmax", "normalise", 1, (1,), 1),
    ("softmax", "online", 2, (2,), 1),
    ("softmax", "rescale", 1, (1,), 1),
    ("softmax", "divide", 1, (1,), 1),
    ("layer_norm", "whole", 3, (3, 1, 1), 1),
    ("layer_norm", "statistics", 1, (1,), 0),
    ("layer_norm", "normalise", 1, (1, 1, 1), 1),
    ("rms_norm", "whole", 2, (2, 1), 1),
    ("rms_norm", "statistics", 1, (1,), 0),
    ("rms_norm", "normalise", 1, (1, 1), 1),
    ("mean_square", "whole", 1, (1,), 1),
    ("inverse_deviation", "whole", 2, (1, 1), 1),
    ("normalised", "whole", 1, (1, 1, 1, 1, 1), 1),
    ("gelu", "whole", 1, (1,), 1),
    ("silu", "whole", 1, (1,), 1),
    ("relu", "whole", 1, (1,), 1),
    ("product", "whole", 1, (1, 1), 1),
    ("residual", "whole", 1, (1, 1), 1),
    ("scale", "whole", 1, (1,), 1),
    ("rotary", "whole", 1, (1, 1, 1), 1),
    ("pooling", "whole", 1, (1,), 1),
    ("average_pooling", "whole", 1, (1,), 1),
    ("mask", "whole", 1, (1, 1), 1),
    ("soft_cap", "whole", 1, (1,), 1),
    ("largest", "whole", 1, (1,), 1),
    ("lookup", "whole", 1, (1, 1), 1),
    ("repeat", "whole", 1, (1,), 1),
    ("copy", "whole", 0, (0,), 0),
    ("exp", "whole", 1, (1,), 1),
    ("erf", "whole", 1, (1,), 1),
    ("tanh", "whole", 1, (1,), 1),
    ("sigmoid", "whole", 1, (1,), 1),
    ("sqrt", "whole", 1, (1,), 1),
    ("reciprocal", "whole", 1, (1,), 1),
    ("divide", "whole", 1, (1, 1), 1),
]
MERGED = {
    ("softmax", "whole"): Passes(
        passes=2,
        reads=(2,),
        writes=1,
        functions=("exp", "divide"),
        row_functions=("reduce", "reduce"),
    ),
    ("layer_norm", "whole"): Passes(
        passes=2,
        reads=(2, 1, 1),
        writes=1,
        functions=("deviation", "affine"),
        row_functions=("reduce", "reduce", "rsqrt"),
    ),
}


def test_passes_reads_and_writes() -> None:
    found = [
        (name, step, work.passes, work.reads, work.writes)
        for name, kind in VECTORS.items()
        for step, work in kind.steps.items()
    ]
    assert found == STEPS
    merged = {
        (name, step): work.merged
        for name, kind in VECTORS.items()
        for step, work in kind.steps.items()
        if work.merged
    }
    assert merged == MERGED


@pytest.mark.parametrize("name", VECTORS)
def test_whole_work_reads_all_inputs(name: str) -> None:
    kind = VECTORS[name]
    assert kind.name == name
    assert len(kind.steps["whole"].reads) == kind.inputs + kind.optional


def _whole(kind: str, *inputs: Array, scale: float = 1.0) -> Array:
    made, _ = VECTORS[kind].steps["whole"].meaning(inputs, scale, ())
    assert made is not None
    return made


def _random(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape)).normal(size=shape)


def _softmax(x: Array) -> Array:
    return np.asarray(np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True))


def _layer_norm(x: Array) -> Array:
    return np.asarray(
        (x - np.mean(x, -1, keepdims=True)) / np.sqrt(np.var(x, -1, keepdims=True) + 1e-5)
    )


def _rms_norm(x: Array) -> Array:
    return np.asarray(x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5))


X, GAIN, BIAS = _random(3, 4, 6), _random(1, 1, 6), _random(1, 1, 6) + 2
MEAN = _random(3, 4, 1) + 5
NORMAL = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (_whole("softmax", X, scale=0.3), _softmax(0.3 * X)),
        (_whole("softmax", X + 10_000), _softmax(X)),
        (_whole("layer_norm", X), _layer_norm(X)),
        (_whole("layer_norm", X, GAIN), _layer_norm(X) * GAIN),
        (_whole("layer_norm", X, GAIN, BIAS), _layer_norm(X) * GAIN + BIAS),
        (_whole("rms_norm", X), _rms_norm(X)),
        (_whole("rms_norm", X, GAIN), _rms_norm(X) * GAIN),
        (_whole("gelu", 3 * X), 3 * X * NORMAL(3 * X)),
        (_whole("silu", X), X / (1 + np.exp(-X))),
        (_whole("silu", np.array([-1e6, 1e6])), np.array([0, 1e6])),
        (_whole("relu", X), np.where(X > 0, X, 0)),
        (_whole("product", X, GAIN), X * GAIN),
        (_whole("lookup", X, GAIN), X),
        (_whole("residual", X, 2 * X), 3 * X),
        (_whole("scale", X, scale=0.3), 0.3 * X),
        (_whole("mask", X, GAIN, scale=0.3), 0.3 * X + GAIN),
        (_whole("pooling", X), X.max(axis=2, keepdims=True)),
        (_whole("average_pooling", X), X.sum(axis=2, keepdims=True) / 6),
        (_whole("copy", X), X),
        (_whole("mean_square", X), (X * X).sum(axis=2, keepdims=True) / 6),
        (_whole("inverse_deviation", X**2 + 3, X), np.full(X.shape, (3 + 1e-5) ** -0.5)),
        (_whole("normalised", X, MEAN, 1 / MEAN), X / MEAN - 1),
        (_whole("normalised", X, MEAN, 1 / MEAN, GAIN, BIAS), (X / MEAN - 1) * GAIN + BIAS),
        (_whole("exp", X), math.e**X),
        (_whole("exp", np.array([1e6])), np.array([math.exp(50)])),
        (_whole("erf", 3 * X), 2 * NORMAL(3 * math.sqrt(2) * X) - 1),
        (_whole("tanh", X), (np.exp(2 * X) - 1) / (np.exp(2 * X) + 1)),
        (_whole("sigmoid", X), 1 / (1 + np.exp(-X))),
        (_whole("sqrt", X), abs(X) ** 0.5),
        (_whole("reciprocal", X), X**-1),
        (_whole("divide", X, GAIN), X / GAIN),
        (_whole("divide", np.ones(2), np.array([0, 1])), np.array([1e6, 1])),
    ],
)
def test_whole_work_is_what_plain_numpy_gives(made: Array, expected: Array) -> None:
    assert made.shape == expected.shape
    np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-15)


def test_rotary_embedding_turns_pairs() -> None:
    """As complex numbers: element i with element i + half, times exp(i angle)."""
    angles = _random(4, 3)
    tables = np.concatenate([angles, angles], axis=-1)[None]
    turned = (X[..., :3] + 1j * X[..., 3:]) * np.exp(1j * angles)
    expected = np.concatenate([turned.real, turned.imag], axis=-1)
    np.testing.assert_allclose(_whole("rotary", X, np.cos(tables), np.sin(tables)), expected)


CUTS = st.lists(st.integers(1, 10), max_size=4).map(lambda at: sorted({0, *at, 11}))


def _in_pieces(kind: str, x: Array, cuts: list[int], *more: Array, scale: float) -> Array:
    steps, known = VECTORS[kind].steps, tuple[Array, ...]()
    pieces = [slice(start, end) for start, end in pairwise(cuts)]
    for piece in pieces:
        made, known = steps["statistics"].meaning([x[..., piece]], scale, known)
        assert made is None
    found = []
    for piece in pieces:
        inputs = [x[..., piece], *(one[..., piece] for one in more)]
        made, _ = steps["normalise"].meaning(inputs, scale, known)
        assert made is not None
        found.append(made)
    return np.concatenate(found, axis=-1)


@given(CUTS, st.integers(0, 99), st.sampled_from([1.0, 100.0]))
def test_an_axis_cut_in_unequal_pieces(cuts: list[int], seed: int, far: float) -> None:
    numbers = np.random.default_rng(seed)
    x, gain, bias = (
        numbers.normal(size=size) + far for size in ((2, 3, 11), (1, 1, 11), (1, 1, 11))
    )
    for kind, inputs, expected in (
        ("softmax", (), _softmax(0.5 * x)),
        ("layer_norm", (), _layer_norm(x)),
        ("layer_norm", (gain, bias), _layer_norm(x) * gain + bias),
        ("rms_norm", (gain,), _rms_norm(x) * gain),
    ):
        made = _in_pieces(kind, x, cuts, *inputs, scale=0.5)
        np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-12)


@given(CUTS, st.integers(0, 11))
def test_an_online_softmax_rescales_what_its_weights_are_summed_to(
    cuts: list[int], masked: int
) -> None:
    """Rows may begin masked: their first pieces then weigh nothing."""
    x, values = 3 * _random(2, 5, 11), _random(11, 4)
    x[:, 0, :masked] = -np.inf
    x[:, :, 10] = 0.0
    steps, known, total = VECTORS["softmax"].steps, tuple[Array, ...](), np.zeros((2, 5, 4))
    for start, end in pairwise(cuts):
        powers, known = steps["online"].meaning([x[..., start:end]], 0.5, known)
        scaled, _ = steps["rescale"].meaning([total], 1.0, known)
        assert scaled is not None
        assert powers is not None
        total = scaled + powers @ values[start:end]
    made, _ = steps["divide"].meaning([total], 1.0, known)
    assert made is not None
    np.testing.assert_allclose(made, _softmax(0.5 * x) @ values, rtol=1e-9)


def test_statistics_of_a_masked_piece_are_no_numbers_out_of_nothing() -> None:
    known: Statistics = ()
    x = np.full((1, 3), -np.inf)
    powers, known = VECTORS["softmax"].steps["online"].meaning([x], 1.0, known)
    assert powers is not None
    assert powers.tolist() == [[0, 0, 0]]
    assert known[1].tolist() == [[0]]


@given(st.permutations("abcd"), st.permutations("abc"), st.sampled_from("abc"))
def test_blocks_are_lined_up_by_rank(given_: list[str], made: list[str], axis: str) -> None:
    sizes = dict(zip("abcd", (2, 3, 4, 5), strict=True))
    x = _random(*(sizes[rank] for rank in given_))
    windows = RankOrder.from_ranks(sizes, made, None)
    found = windows.give(windows.take(x, given_).sum(axis=-1), made)
    np.testing.assert_allclose(found, np.einsum(f"{''.join(given_)}->{''.join(made)}", x))
    del sizes["d"]
    rows = RankOrder.from_ranks(sizes, made, axis)
    line = rows.take(_random(sizes[axis]), [axis])
    assert line.shape == (1, 1, sizes[axis])
    whole = _random(*(sizes[rank] for rank in made))
    taken = rows.take(whole, made)
    assert np.array_equal(rows.give(taken, made), whole)
    expected = np.moveaxis(whole, made.index(axis), -1).sum(axis=(0, 1))
    np.testing.assert_allclose(taken.sum(axis=(0, 1)), expected)
