"""The vector operator `softsign`: one pass over its elements, and its meaning in numpy."""

import numpy as np

from simaccel.workload.vectors.kind import VectorKind, one_pass, whole

SOFTSIGN = VectorKind(name="softsign", steps=one_pass(whole(lambda x: x / (1 + np.abs(x)))))
