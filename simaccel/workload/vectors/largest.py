"""The k-th largest of each window, k being the operator's scale; one pass.

Windows are as in `pooling`. A token's gates are the largest of its router's probabilities.
"""

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole_scaled


def _largest(scale: float, x: Array) -> Array:
    return np.asarray(np.sort(x, axis=-1)[..., -int(scale), None])


LARGEST = VectorKind(
    name="largest", windows=True, scaled=True, steps=one_pass(whole_scaled(_largest))
)
