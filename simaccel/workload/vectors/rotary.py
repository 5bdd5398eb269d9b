"""Rotary embedding (Su et al. 2021): pairs of elements of the axis turn by an angle.

Element i is paired with element i + half of the axis, as in Llama, so the axis is even and stays
whole. Inputs: x, cosines and sines of the angles (tables over positions and axis). The two of a
pair go through the unit together: one pass, each table read once a block.
"""

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole


def _rotary(x: Array, cosines: Array, sines: Array) -> Array:
    low, high = np.split(x, 2, axis=-1)
    return x * cosines + np.concatenate([-high, low], axis=-1) * sines


ROTARY = VectorKind(
    name="rotary",
    inputs=3,
    needs_axis=True,
    axis_multiple=2,
    steps=one_pass(whole(_rotary), inputs=3),
)
