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


def _keep(x: Array, *_indices: Array) -> Array:
    return x


def _relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


def _soft_cap(scale: float, x: Array) -> Array:
    return np.asarray(scale * np.tanh(x / scale))


def _mask(scale: float, x: Array, mask: Array) -> Array:
    return scale * x + mask


def _rotary(x: Array, cosines: Array, sines: Array) -> Array:
    low, high = np.split(x, 2, axis=-1)
    return x * cosines + np.concatenate([-high, low], axis=-1) * sines


def _highest(x: Array) -> Array:
    return np.asarray(x.max(axis=-1, keepdims=True))


def _mean(x: Array) -> Array:
    return np.asarray(x.mean(axis=-1, keepdims=True))


def _largest(scale: float, x: Array) -> Array:
    return np.asarray(np.sort(x, axis=-1)[..., -int(scale), None])


def _exp(x: Array) -> Array:
    return np.exp(np.minimum(x, _LARGEST_EXPONENT))


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[float])(x))


def _tanh(x: Array) -> Array:
    return np.tanh(x)


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


def _root(x: Array) -> Array:
    return np.sqrt(np.abs(x))


def _reciprocal(x: Array) -> Array:
    return _divide(np.ones_like(x), x)


def _divide(x: Array, y: Array) -> Array:
    return x / np.where(np.abs(y) < _LEAST_DIVISOR, _LEAST_DIVISOR, y)


def _kind(name: str, made: Callable[..., Array], function: str = "", inputs: int = 1) -> VectorKind:
    return VectorKind(name=name, inputs=inputs, steps=one_pass(whole(made), inputs, function))


COPY = VectorKind(
    name="copy", steps={"whole": VectorStep(passes=0, reads=(0,), writes=0, meaning=whole(_keep))}
)
"""Copy of each element from one memory into another, by DMA engines, without a pass."""
LOOKUP = VectorKind(name="lookup", optional=1, steps=one_pass(whole(_keep), inputs=2))
"""Lookup of rows of a table by indices.

The first input is the rows that are read, one per index; the second is the indices, which lack the
ranks within a row. Values of indices are not modelled: any row of the table may be read.
"""
RELU = _kind("relu", _relu)
"""ReLU: what is above zero."""

SINGLE_PASS = (
    _kind("gelu", _gelu, "erf"),  # x times the normal distribution function (Hendrycks 2016)
    _kind("silu", _silu, "sigmoid"),  # swish: x / (1 + exp(-x))
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
    # Windows: all positions of the ranks that the output lacks, whole in a block. Neighbouring ones
    # share elements through the unit's registers: each element of a block is read once. The mean
    # has no padding: all positions of a window count.
    VectorKind(name="pooling", windows=True, steps=one_pass(whole(_highest))),
    VectorKind(name="average_pooling", windows=True, steps=one_pass(whole(_mean))),
    # scale * x + mask, as before the softmax of attention; the mask may lack ranks (heads share it)
    # and may hold minus infinity
    VectorKind(name="mask", inputs=2, scaled=True, steps=one_pass(whole_scaled(_mask), inputs=2)),
    # cap * tanh(x / cap), the cap being the operator's scale (Gemma 2)
    VectorKind(
        name="soft_cap", scaled=True, steps=one_pass(whole_scaled(_soft_cap), function="tanh")
    ),
    # the k-th largest of each window, k being the operator's scale: a token's gates are the largest
    # of its router's probabilities
    VectorKind(name="largest", windows=True, scaled=True, steps=one_pass(whole_scaled(_largest))),
    LOOKUP,
    # an input that lacks ranks of the output, written once for each of their positions
    VectorKind(name="repeat", repeats=True, steps=one_pass(whole(_keep))),
    COPY,
    _kind("exp", _exp, "exp"),
    _kind("erf", _erf, "erf"),
    _kind("tanh", _tanh, "tanh"),
    _kind("sigmoid", _sigmoid, "sigmoid"),
    _kind("sqrt", _root, "rsqrt"),
    _kind("reciprocal", _reciprocal, "divide"),
    _kind("divide", _divide, "divide", inputs=2),
)
