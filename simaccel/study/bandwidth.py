"""The bandwidth that a workload needs: the smallest with which it reaches a utilisation.

FLAT (Kao et al., ASPLOS 2023), figure 17. The workload is mapped and run again for each bandwidth
that is tried, as an architect would choose the mapping for the memory.
"""

from __future__ import annotations

from typing import Final

from simaccel.hardware import Accelerator
from simaccel.hardware.load import with_values
from simaccel.hardware.quantity import LARGEST
from simaccel.numbers import BYTE
from simaccel.schedulers import Options
from simaccel.study.experiment import simulate
from simaccel.workload import Workload

FIELD: Final = "dram.bandwidth_bytes_per_second"
_STEP: Final = 1.05
"""Precision of the bandwidth, as a ratio."""
_STRIDE: Final = 4
"""Ratio of consecutive bandwidths that are tried first."""
_WIDEST: Final = 64
"""The widest bandwidth that is tried, in multiples of what the array can use per cycle."""
_LEAST: Final = 256
"""The narrowest bandwidth that is tried is one byte in this many cycles."""


def needed_bandwidth(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    target: float,
    options: Options | None = None,
) -> tuple[int | None, float]:
    """Return the smallest DRAM bandwidth, to 5%, with which a dataflow reaches a utilisation.

    In bytes per second, with the utilisation; None if no bandwidth is enough, with that of the
    widest. It is found by bisection, from the accelerator's own bandwidth or, if that is unlimited,
    from 1 B per cycle; more bandwidth is assumed to be no worse.

    Raises:
        SimaccelError: the dataflow doesn't take the workload, or nothing fits.
    """
    found: dict[int, float] = {}

    def suffices(bandwidth: int) -> bool:
        on = with_values(accelerator, {FIELD: bandwidth}, f"bandwidth {bandwidth} B/s")
        found[bandwidth] = simulate(workload, on, dataflow, options=options).utilisation
        return found[bandwidth] >= target

    width = max(2, *(-(-tensor.bits // BYTE) for tensor in workload.tensors.values()))
    clock = accelerator.clock_hz
    least, widest = max(1, clock // _LEAST), min(LARGEST, _WIDEST * width * accelerator.pes * clock)
    if not suffices(widest):
        return None, found[widest]
    low = min(accelerator.dram.bandwidth_bytes_per_second or clock, widest // _STRIDE)
    if suffices(low):
        high = low
        while high > least and suffices(low := max(least, high // _STRIDE)):
            high = low
        low = low if high > least else 0
    else:
        while low * _STRIDE < widest and not suffices(low * _STRIDE):
            low *= _STRIDE
        high = min(low * _STRIDE, widest)
    while low and high > low * _STEP:
        middle = round((low * high) ** 0.5)
        if suffices(middle):
            high = middle
        else:
            low = middle
    return high, found[high]
