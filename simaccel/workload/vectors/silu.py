"""SiLU (swish): x / (1 + exp(-x)); one pass."""

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole


def _silu(x: Array) -> Array:
    return x * np.exp(-np.logaddexp(0.0, -x))


SILU = VectorKind(name="silu", steps=one_pass(whole(_silu), function="sigmoid"))
