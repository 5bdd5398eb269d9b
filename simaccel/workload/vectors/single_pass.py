"""Kinds of vector operators that take a single pass over their elements, and the copy by DMA.

Exported graphs have some of the functions as operators of their own; their operations per element
are ``sfu.operations``. Values are finite for any input, so that those of programs can be compared:
exponents are limited, roots are of absolute values, divisors are at least a millionth.
"""

import math
from collections.abc import Callable
from operator import add, mul

from simaccel.lazy import np
from simaccel.workload.vectors.kind import (
    Array,
    VectorKind,
    VectorStep,
    one_pass,
    whole,
    whole_scaled,
)

_LARGEST_EXPONENT = 50.0
_LEAST_DIVISOR = 1e-6


def _rotary(x: Array, cosines: Array, sines: Array) -> Array:
    low, high = np.split(x, 2, axis=-1)
    return x * cosines + np.concatenate([-high, low], axis=-1) * sines


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[float])(x))


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


def _divide(x: Array, y: Array) -> Array:
    return x / np.where(np.abs(y) < _LEAST_DIVISOR, _LEAST_DIVISOR, y)


def _kind(name: str, made: Callable[..., Array], function: str = "", inputs: int = 1) -> VectorKind:
    return VectorKind(name=name, inputs=inputs, steps=one_pass(whole(made), inputs, function))


def _window(name: str, made: Callable[[Array], Array]) -> VectorKind:
    """Return a kind over all positions of the ranks that the output lacks, whole in a block.

    Neighbouring windows share elements through the unit's registers: each element of a block is
    read once.
    """
    return VectorKind(name=name, windows=True, steps=one_pass(whole(made)))


COPY = VectorKind(
    name="copy",
    steps={"whole": VectorStep(passes=0, reads=(0,), writes=0, meaning=whole(lambda x: x))},
)
"""Copy of each element from one memory into another, by DMA engines, without a pass."""
LOOKUP = VectorKind(
    name="lookup", optional=1, steps=one_pass(whole(lambda rows, *_: rows), inputs=2)
)
"""Lookup of rows of a table by indices.

The first input is the rows that are read, one per index; the second is the indices, which lack the
ranks within a row. Values of indices are not modelled: any row of the table may be read.
"""
RELU = _kind("relu", lambda x: np.maximum(x, 0.0))
"""ReLU: what is above zero."""

SINGLE_PASS = (
    # x times the normal distribution function (Hendrycks and Gimpel 2016)
    _kind("gelu", lambda x: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))), "erf"),
    _kind("silu", lambda x: x * _sigmoid(x), "sigmoid"),  # swish: x / (1 + exp(-x))
    RELU,
    _kind("product", mul, inputs=2),  # element by element, as in gated feed-forward layers
    _kind("residual", add, inputs=2),  # the sum of two tensors
    VectorKind(name="scale", scaled=True, steps=one_pass(whole_scaled(mul))),
    # Rotary embedding (Su et al. 2021) of x by cosines and sines, tables over positions and axis:
    # element i is paired with element i + half of the axis, as in Llama, so the axis is even and
    # stays whole. The two of a pair go through the unit together; each table is read once a block.
    VectorKind(
        name="rotary",
        inputs=3,
        needs_axis=True,
        axis_multiple=2,
        steps=one_pass(whole(_rotary), inputs=3),
    ),
    _window("pooling", lambda x: np.asarray(x.max(axis=-1, keepdims=True))),
    # without padding: all positions of a window count
    _window("average_pooling", lambda x: np.asarray(x.mean(axis=-1, keepdims=True))),
    # scale * x + mask, as before the softmax of attention; the mask may lack ranks (heads share it)
    # and may hold minus infinity
    VectorKind(
        name="mask",
        inputs=2,
        scaled=True,
        steps=one_pass(whole_scaled(lambda scale, x, mask: scale * x + mask), inputs=2),
    ),
    # cap * tanh(x / cap), the cap being the operator's scale (Gemma 2)
    VectorKind(
        name="soft_cap",
        scaled=True,
        steps=one_pass(whole_scaled(lambda cap, x: cap * np.tanh(x / cap)), function="tanh"),
    ),
    # the k-th largest of each window, k being the operator's scale: a token's gates are the largest
    # of its router's probabilities
    VectorKind(
        name="largest",
        windows=True,
        scaled=True,
        steps=one_pass(whole_scaled(lambda k, x: np.sort(x, axis=-1)[..., -int(k), None])),
    ),
    LOOKUP,
    # an input that lacks ranks of the output, written once for each of their positions
    VectorKind(name="repeat", repeats=True, steps=one_pass(whole(lambda x: x))),
    COPY,
    _kind("exp", lambda x: np.exp(np.minimum(x, _LARGEST_EXPONENT)), "exp"),
    _kind("erf", _erf, "erf"),
    _kind("tanh", lambda x: np.tanh(x), "tanh"),  # noqa: PLW0108 - numpy is loaded when used
    _kind("sigmoid", _sigmoid, "sigmoid"),
    _kind("sqrt", lambda x: np.sqrt(np.abs(x)), "rsqrt"),
    _kind("reciprocal", lambda x: _divide(np.ones_like(x), x), "divide"),
    _kind("divide", _divide, "divide", inputs=2),
)
