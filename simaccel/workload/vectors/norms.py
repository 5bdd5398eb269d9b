"""Norms along an axis, with a gain and perhaps a bias, whole and as a compiler's kernels.

A layer norm (Ba et al. 2016) makes three passes: mean; variance; normalisation, the only one that
writes. Merged, mean and variance take one pass (Welford 1962). An RMS norm (Zhang and Sennrich
2019), y = x / sqrt(mean(x^2) + EPSILON) x gain, makes two: one sums the squares, one normalises and
writes. Gain and bias are read once per block. Pieces of long rows combine their counts, means and
squared deviations (Chan et al. 1979).
"""

from collections.abc import Callable, Sequence

from simaccel.lazy import np
from simaccel.workload.vectors.kind import (
    Array,
    Meaning,
    Passes,
    Statistics,
    VectorKind,
    VectorStep,
    one_pass,
    whole,
)

EPSILON = 1e-5
"""Added to the variance, or to the mean of the squares."""


def _compose(
    statistics: Callable[..., tuple[None, Statistics]],
    normalise: Callable[..., tuple[Array, Statistics]],
) -> Meaning:
    return lambda inputs, scale, _: normalise(inputs, scale, statistics(inputs, scale, ())[1])


def _apply_gain(rows: Array, inputs: Sequence[Array]) -> tuple[Array, Statistics]:
    """Return rows with the gain and the bias of the inputs, if they are given."""
    for gain in inputs[1:2]:
        rows = rows * gain
    for bias in inputs[2:3]:
        rows = rows + bias
    return rows, ()


def _deviations(inputs: Sequence[Array], _: float, known: Statistics) -> tuple[None, Statistics]:
    """Return (count, mean, sum of squared deviations from the mean)."""
    x = inputs[0]
    mean = x.mean(axis=-1, keepdims=True)
    count = np.full_like(mean, x.shape[-1])
    squares = ((x - mean) ** 2).sum(axis=-1, keepdims=True)
    if not known:
        return None, (count, mean, squares)
    before, old, deviations = known
    total, apart = before + count, mean - old
    squares = deviations + squares + apart**2 * before * count / total
    return None, (total, old + apart * count / total, squares)


def _layer_norm(inputs: Sequence[Array], _: float, known: Statistics) -> tuple[Array, Statistics]:
    count, mean, squares = known
    return _apply_gain((inputs[0] - mean) / np.sqrt(squares / count + EPSILON), inputs)


def _squares(inputs: Sequence[Array], _: float, known: Statistics) -> tuple[None, Statistics]:
    """Return (count, sum of squares)."""
    squares = (inputs[0] ** 2).sum(axis=-1, keepdims=True)
    count = np.full_like(squares, inputs[0].shape[-1])
    if known:
        count, squares = known[0] + count, known[1] + squares
    return None, (count, squares)


def _rms_norm(inputs: Sequence[Array], _: float, known: Statistics) -> tuple[Array, Statistics]:
    count, squares = known
    return _apply_gain(inputs[0] / np.sqrt(squares / count + EPSILON), inputs)


def _normalise(x: Array, mean: Array, root: Array, gain: Array = 1.0, bias: Array = 0.0) -> Array:  # type: ignore[assignment]
    return (x - mean) * root * gain + bias


_ROW = ("reduce", "reduce", "rsqrt")
"""Functions per row: mean, variance, inverse root."""
_EACH = ("deviation", "affine")
"""Functions per element: squared deviation from the mean; product with root and gain, plus bias."""

NORMS = (
    VectorKind(
        name="layer_norm",
        optional=2,
        needs_axis=True,
        steps={
            "whole": VectorStep(
                passes=3,
                reads=(3, 1, 1),
                writes=1,
                functions=_EACH,
                row_functions=_ROW,
                merged=Passes(
                    passes=2, reads=(2, 1, 1), writes=1, functions=_EACH, row_functions=_ROW
                ),
                meaning=_compose(_deviations, _layer_norm),
            ),
            "statistics": VectorStep(
                passes=1,
                reads=(1,),
                writes=0,
                functions=("deviation",),
                row_functions=("reduce", "reduce"),
                meaning=_deviations,
            ),
            "normalise": VectorStep(
                passes=1,
                reads=(1, 1, 1),
                writes=1,
                functions=("affine",),
                row_functions=("rsqrt",),
                meaning=_layer_norm,
            ),
        },
    ),
    VectorKind(
        name="rms_norm",
        optional=1,
        needs_axis=True,
        steps={
            "whole": VectorStep(
                passes=2,
                reads=(2, 1),
                writes=1,
                functions=("affine",),
                row_functions=("reduce", "rsqrt"),
                meaning=_compose(_squares, _rms_norm),
            ),
            "statistics": VectorStep(
                passes=1, reads=(1,), writes=0, row_functions=("reduce",), meaning=_squares
            ),
            "normalise": VectorStep(
                passes=1,
                reads=(1, 1),
                writes=1,
                functions=("affine",),
                row_functions=("rsqrt",),
                meaning=_rms_norm,
            ),
        },
    ),
    # A layer norm as several kernels: the mean of each row (average_pooling) and of its squares,
    # the inverse root of the variance that follows (two passes), and the rows.
    VectorKind(
        name="mean_square",
        windows=True,
        steps=one_pass(whole(lambda x: np.asarray((x**2).mean(axis=-1, keepdims=True)))),
    ),
    VectorKind(
        name="inverse_deviation",
        inputs=2,
        steps={
            "whole": VectorStep(
                passes=2,
                reads=(1, 1),
                writes=1,
                functions=("rsqrt",),
                meaning=whole(
                    lambda square, mean: 1 / np.sqrt(np.maximum(square - mean**2, 0.0) + EPSILON)
                ),
            )
        },
    ),
    VectorKind(
        name="normalised",
        inputs=3,
        optional=2,
        steps={
            "whole": VectorStep(
                passes=1,
                reads=(1,) * 5,
                writes=1,
                functions=("affine",),
                meaning=whole(_normalise),
            )
        },
    ),
)
