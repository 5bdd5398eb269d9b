"""ReLU: what is above zero; one pass."""

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole


def _relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


RELU = VectorKind(name="relu", steps=one_pass(whole(_relu)))
