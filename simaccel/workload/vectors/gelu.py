"""GELU (Hendrycks and Gimpel 2016): x times the normal distribution function; one pass."""

import math

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole


def _gelu(x: Array) -> Array:
    erf = np.vectorize(math.erf, otypes=[float])
    return np.asarray(0.5 * x * (1.0 + erf(x / math.sqrt(2.0))))


GELU = VectorKind(name="gelu", steps=one_pass(whole(_gelu), function="erf"))
