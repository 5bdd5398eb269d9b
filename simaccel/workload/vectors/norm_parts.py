"""A layer norm as several kernels, as a compiler may emit it: statistics of rows, then the rows.

``mean_square`` of each row, besides its mean (`average_pooling`); ``inverse_deviation`` from these
two, in two passes (variance, inverse root); ``normalised`` rows, with a gain and a bias.
"""

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, VectorKind, VectorStep, one_pass, whole
from simaccel.workload.vectors.layer_norm import EPSILON


def _mean_square(x: Array) -> Array:
    return np.asarray((x**2).mean(axis=-1, keepdims=True))


def _inverse_deviation(square: Array, mean: Array) -> Array:
    return 1 / np.sqrt(np.maximum(square - mean**2, 0.0) + EPSILON)


def _normalise(x: Array, mean: Array, root: Array, gain: Array = 1.0, bias: Array = 0.0) -> Array:  # type: ignore[assignment]
    return (x - mean) * root * gain + bias


NORM_PARTS = (
    VectorKind(name="mean_square", windows=True, steps=one_pass(whole(_mean_square))),
    VectorKind(
        name="inverse_deviation",
        inputs=2,
        steps={
            "whole": VectorStep(
                passes=2,
                reads=(1, 1),
                writes=1,
                functions=("rsqrt",),
                meaning=whole(_inverse_deviation),
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
                reads=(1, 1, 1, 1, 1),
                writes=1,
                functions=("affine",),
                meaning=whole(_normalise),
            )
        },
    ),
)
