"""Pooling: the maximum of each window; one pass over all positions of all windows.

The window's ranks are those that the output lacks, whole in a block. Neighbouring windows share
elements through the unit's registers: each element of a block is read once.
"""

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole


def _highest(x: Array) -> Array:
    return np.asarray(x.max(axis=-1, keepdims=True))


POOLING = VectorKind(name="pooling", windows=True, steps=one_pass(whole(_highest)))
