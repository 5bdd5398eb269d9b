"""The closed form of nests: accesses, cycles and energy of 100,000s of mappings in one call.

docs/decisions/0007-nests.md has the rules of counting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simaccel.hardware.levels import Hierarchy
from simaccel.mapping.nest import Bools, Ints, Nests
from simaccel.workload import Einsum, Tensor


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What each candidate costs; the first index of each array is the candidate.

    - ``valid``: it fits memories and fan-outs, and adds only where the hardware can;
    - ``macs``: multiply-accumulates, ``ineffectual`` ones (of padding) among them;
    - ``steps``: compute cycles; ``cycles``: the most of steps and of the bytes at each bandwidth;
    - ``reads``, ``writes`` (temporal level, role): bytes, of all instances of the level;
    - ``tile_bytes`` (temporal level, role): bytes that one instance keeps, 0 where it keeps none;
    - ``instances`` (spatial level): how many work at the same time at most;
    - ``energy_pj``.
    """

    valid: Bools
    macs: Ints
    ineffectual: Ints
    steps: Ints
    cycles: Ints
    reads: Ints
    writes: Ints
    tile_bytes: Ints
    instances: Ints
    energy_pj: npt.NDArray[np.float64]

    @property
    def edp(self) -> npt.NDArray[np.float64]:
        """Energy times delay in pJ cycles."""
        return self.energy_pj * self.cycles


def evaluate(
    einsum: Einsum, tensors: Mapping[str, Tensor], hierarchy: Hierarchy, nests: Nests
) -> Costs:
    """Evaluate all candidates; ``tensors`` give the bytes per element (``workload.tensors``).

    Raises:
        NotNestableError: the einsum has not two inputs, a rank twice in an operand, or an output
            with a sum of ranks as index; or it is too large to count.

    """
    raise NotImplementedError
