"""Soft cap (Gemma 2): cap * tanh(x / cap), the cap being the operator's scale; one pass."""

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole_scaled


def _cap(scale: float, x: Array) -> Array:
    return np.asarray(scale * np.tanh(x / scale))


SOFT_CAP = VectorKind(
    name="soft_cap", scaled=True, steps=one_pass(whole_scaled(_cap), function="tanh")
)
