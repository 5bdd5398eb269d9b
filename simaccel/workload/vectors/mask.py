"""Additive mask: ``scale * x + mask``, as before the softmax of attention; one pass.

The mask may lack ranks (heads share it) and may hold minus infinity.
"""

from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole_scaled


def _mask(scale: float, x: Array, mask: Array) -> Array:
    return scale * x + mask


MASK = VectorKind(name="mask", inputs=2, scaled=True, steps=one_pass(whole_scaled(_mask), inputs=2))
