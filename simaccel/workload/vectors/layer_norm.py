"""Layer norm along the axis (Ba et al. 2016), with a gain and a bias if they are given.

The whole step makes three passes: mean; variance; normalisation, the only one that writes. Merged,
mean and variance take one pass (Welford 1962). Gain and bias are read once per block. Pieces of
long rows combine their counts, means and squared deviations (Chan et al. 1979).
"""

from collections.abc import Sequence

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, Passes, Statistics, VectorKind, VectorStep

EPSILON = 1e-5
"""Added to the variance."""


def _whole(inputs: Sequence[Array], scale: float, _: Statistics) -> tuple[Array, Statistics]:
    return _normalise(inputs, scale, _statistics(inputs, scale, ())[1])


def _statistics(inputs: Sequence[Array], _: float, known: Statistics) -> tuple[None, Statistics]:
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


def _normalise(inputs: Sequence[Array], _: float, known: Statistics) -> tuple[Array, Statistics]:
    count, mean, squares = known
    made = (inputs[0] - mean) / np.sqrt(squares / count + EPSILON)
    for gain in inputs[1:2]:
        made = made * gain
    for bias in inputs[2:3]:
        made = made + bias
    return made, ()


_ROW = ("reduce", "reduce", "rsqrt")
"""Functions per row: mean, variance, inverse root."""
_EACH = ("deviation", "affine")
"""Functions per element: squared deviation from the mean; product with root and gain, plus bias."""

LAYER_NORM = VectorKind(
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
            merged=Passes(passes=2, reads=(2, 1, 1), writes=1, functions=_EACH, row_functions=_ROW),
            meaning=_whole,
        ),
        "statistics": VectorStep(
            passes=1,
            reads=(1,),
            writes=0,
            functions=("deviation",),
            row_functions=("reduce", "reduce"),
            meaning=_statistics,
        ),
        "normalise": VectorStep(
            passes=1,
            reads=(1, 1, 1),
            writes=1,
            functions=("affine",),
            row_functions=("rsqrt",),
            meaning=_normalise,
        ),
    },
)
