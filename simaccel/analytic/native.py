"""MACs as an array counts them."""

from __future__ import annotations

from simaccel.hardware import Accelerator
from simaccel.workload import Einsum, Workload


def native_macs(workload: Workload, accelerator: Accelerator) -> int:
    """Return the MACs of operands as wide as the array's multipliers that a workload takes.

    Where the array says no ``native_bits``, as many as it has MACs.
    """
    found = 0
    for one in workload.operators:
        if isinstance(one, Einsum):
            bits = (workload.tensors[given.tensor].bits for given in one.inputs)
            pace = accelerator.array.cycles_per_mac(bits)
            found += workload.times(one.name) * one.macs * pace
    return found
