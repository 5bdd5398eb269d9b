"""Elementwise functions as operators, as exported graphs have them: one pass each.

Their operations per element are ``sfu.operations``. Values are finite for any input, so that those
of programs can be compared: exponents are limited, roots are of absolute values, divisors are at
least a millionth.
"""

import math
from collections.abc import Callable

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole

_LARGEST_EXPONENT = 50.0
_LEAST_DIVISOR = 1e-6


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


def _kind(name: str, made: Callable[..., Array], function: str, inputs: int = 1) -> VectorKind:
    return VectorKind(name=name, inputs=inputs, steps=one_pass(whole(made), inputs, function))


FUNCTIONS = (
    _kind("exp", _exp, "exp"),
    _kind("erf", _erf, "erf"),
    _kind("tanh", _tanh, "tanh"),
    _kind("sigmoid", _sigmoid, "sigmoid"),
    _kind("sqrt", _root, "rsqrt"),
    _kind("reciprocal", _reciprocal, "divide"),
    _kind("divide", _divide, "divide", inputs=2),
)
