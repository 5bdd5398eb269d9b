"""Scale: each element times the operator's scale; one pass."""

from operator import mul

from simaccel.workload.vectors.kind import VectorKind, one_pass, whole_scaled

SCALE = VectorKind(name="scale", scaled=True, steps=one_pass(whole_scaled(mul)))
