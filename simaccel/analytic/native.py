"""MACs as an array counts them, and what all of its memories move together."""

from __future__ import annotations

from fractions import Fraction

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


def bytes_per_cycle(accelerator: Accelerator) -> Fraction | None:
    """Return what DRAM and the memories beside it move in a cycle at most; None: no limit."""
    found = Fraction(0)
    for one in accelerator.every_backing.values():
        rate = one.channel_rate
        if rate.unlimited:
            return None
        found += Fraction(rate.n_bytes * one.dram.channels, rate.n_cycles)
    return found
