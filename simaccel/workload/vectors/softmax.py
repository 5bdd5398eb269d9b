"""Softmax of ``scale * x`` along the axis: plain, in pieces of long rows, and online.

The plain form has three passes: maximum; exponential (written) and sum; division. With merged
statistics, maximum and sum take one pass together (Milakov and Gimelshein 2018), so that two are
left. The scale (1/sqrt(d) in attention) is applied to the input at no cost.
"""

from collections.abc import Sequence

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, Passes, Statistics, VectorKind, VectorStep

Made = tuple[Array, Statistics]


def _update(x: Array, scale: float, known: Statistics) -> Made:
    """Return the exponentials, and (maximum, sum, correction factor of earlier sums)."""
    scaled = x * scale
    highest = scaled.max(axis=-1, keepdims=True)
    old, total, _ = known or (np.full_like(highest, -np.inf), np.zeros_like(highest), None)
    new = np.maximum(old, highest)
    # a row that is masked so far has the maximum -inf
    base = np.where(np.isneginf(new), 0.0, new)
    powers, correction = np.exp(scaled - base), np.exp(old - base)
    total = total * correction + powers.sum(axis=-1, keepdims=True)
    return powers, (new, total, correction)


def _whole(inputs: Sequence[Array], scale: float, _: Statistics) -> Made:
    powers, known = _update(inputs[0], scale, ())
    return powers / known[1], ()


def _statistics(
    inputs: Sequence[Array], scale: float, known: Statistics
) -> tuple[None, Statistics]:
    return None, _update(inputs[0], scale, known)[1]


def _normalise(inputs: Sequence[Array], scale: float, known: Statistics) -> Made:
    maximum, total, _ = known
    return np.exp(inputs[0] * scale - maximum) / total, ()


def _online(inputs: Sequence[Array], scale: float, known: Statistics) -> Made:
    return _update(inputs[0], scale, known)


def _rescale(inputs: Sequence[Array], _: float, known: Statistics) -> Made:
    return inputs[0] * known[2], ()


def _divide(inputs: Sequence[Array], _: float, known: Statistics) -> Made:
    return inputs[0] / known[1], ()


_EACH = ("exp", "divide")
_ROW = ("reduce", "reduce")
"""Maximum and sum."""

SOFTMAX = VectorKind(
    name="softmax",
    needs_axis=True,
    scaled=True,
    masked=True,
    steps={
        "whole": VectorStep(
            passes=3,
            reads=(3,),
            writes=2,
            functions=_EACH,
            row_functions=_ROW,
            merged=Passes(passes=2, reads=(2,), writes=1, functions=_EACH, row_functions=_ROW),
            meaning=_whole,
        ),
        "statistics": VectorStep(
            passes=1,
            reads=(1,),
            writes=0,
            functions=("exp",),
            row_functions=_ROW,
            meaning=_statistics,
        ),
        "normalise": VectorStep(
            passes=1, reads=(1,), writes=1, functions=_EACH, meaning=_normalise
        ),
        "online": VectorStep(
            passes=2,
            reads=(2,),
            writes=1,
            functions=("exp",),
            row_functions=_ROW,
            meaning=_online,
        ),
        "rescale": VectorStep(passes=1, reads=(1,), writes=1, meaning=_rescale),
        "divide": VectorStep(
            passes=1, reads=(1,), writes=1, functions=("divide",), meaning=_divide
        ),
    },
)
