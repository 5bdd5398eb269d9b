"""Average pooling: the mean of each window; one pass over all positions of all windows.

Windows are as in `pooling`. No padding: all positions of a window count.
"""

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole


def _mean(x: Array) -> Array:
    return np.asarray(x.mean(axis=-1, keepdims=True))


AVERAGE_POOLING = VectorKind(name="average_pooling", windows=True, steps=one_pass(whole(_mean)))
