"""The vector operator `tanh`: one pass over its elements, and its meaning in numpy."""

import numpy as np

from simaccel.workload.vectors.kind import VectorKind, one_pass, whole

TANH = VectorKind(name="tanh", steps=one_pass(whole(np.tanh)))
