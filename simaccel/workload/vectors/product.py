"""Product of two tensors, element by element, as in gated feed-forward layers; one pass."""

from operator import mul

from simaccel.workload.vectors.kind import VectorKind, one_pass, whole

PRODUCT = VectorKind(name="product", inputs=2, steps=one_pass(whole(mul), inputs=2))
