"""RMS norm along the axis (Zhang and Sennrich 2019), with a gain if it is given.

y = x / sqrt(mean(x^2) + EPSILON) x gain. The whole operator makes two passes: one sums the
squares, one normalises and writes. The gain is read once per block.
"""

from collections.abc import Sequence

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, Statistics, VectorKind, VectorStep

EPSILON = 1e-5
"""Added to the mean of the squares."""


def _whole(inputs: Sequence[Array], scale: float, _: Statistics) -> tuple[Array, Statistics]:
    return _normalise(inputs, scale, _statistics(inputs, scale, ())[1])


def _statistics(inputs: Sequence[Array], _: float, known: Statistics) -> tuple[None, Statistics]:
    """Return (count, sum of squares)."""
    squares = (inputs[0] ** 2).sum(axis=-1, keepdims=True)
    count = np.full_like(squares, inputs[0].shape[-1])
    if known:
        count, squares = known[0] + count, known[1] + squares
    return None, (count, squares)


def _normalise(inputs: Sequence[Array], _: float, known: Statistics) -> tuple[Array, Statistics]:
    count, squares = known
    made = inputs[0] / np.sqrt(squares / count + EPSILON)
    for gain in inputs[1:2]:
        made = made * gain
    return made, ()


RMS_NORM = VectorKind(
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
            meaning=_whole,
        ),
        "statistics": VectorStep(
            passes=1, reads=(1,), writes=0, row_functions=("reduce",), meaning=_statistics
        ),
        "normalise": VectorStep(
            passes=1,
            reads=(1, 1),
            writes=1,
            functions=("affine",),
            row_functions=("rsqrt",),
            meaning=_normalise,
        ),
    },
)
