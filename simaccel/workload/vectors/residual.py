"""Residual: the sum of two tensors, element by element; one pass."""

from operator import add

from simaccel.workload.vectors.kind import VectorKind, one_pass, whole

RESIDUAL = VectorKind(name="residual", inputs=2, steps=one_pass(whole(add), inputs=2))
