"""Repeat: an input that lacks ranks of the output, written once for each of their positions."""

from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole


def _copy(x: Array) -> Array:
    return x


REPEAT = VectorKind(name="repeat", repeats=True, steps=one_pass(whole(_copy)))
