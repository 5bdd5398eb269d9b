"""The bandwidth that a workload needs: the smallest with which it reaches a utilisation.

FLAT (Kao et al., ASPLOS 2023), figure 17. The workload is mapped and run again for each bandwidth
that is tried, as an architect would choose the mapping for the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.hardware.load import with_values
from simaccel.hardware.quantity import LARGEST
from simaccel.numbers import BYTE
from simaccel.schedulers import Options
from simaccel.study.experiment import ExperimentResult, simulate
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


@dataclass(frozen=True)
class NeededBandwidth:
    """The smallest bandwidth found, in bytes per second, and the utilisation with it.

    ``bytes_per_second`` is None if no bandwidth is enough; the utilisation is then that of the
    widest.
    """

    bytes_per_second: int | None
    utilisation: float
    result: ExperimentResult


def needed_bandwidth(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    target: float,
    options: Options | None = None,
) -> NeededBandwidth:
    """Return the smallest DRAM bandwidth, to 5%, with which a dataflow reaches a utilisation.

    It is found by bisection, from the accelerator's own bandwidth or, if that is unlimited, from 1
    B per cycle; more bandwidth is assumed to be no worse.

    Raises:
        SimaccelError: the dataflow doesn't take the workload, or nothing fits.
    """
    width = max(2, *(-(-tensor.bits // BYTE) for tensor in workload.tensors.values()))
    widest = min(LARGEST, _WIDEST * width * accelerator.pes * accelerator.clock_hz)
    own_rate = accelerator.dram.bandwidth_bytes_per_second
    rate = own_rate or accelerator.clock_hz

    def try_bandwidth(bandwidth: int) -> NeededBandwidth:
        on = with_values(accelerator, {FIELD: bandwidth}, f"bandwidth {bandwidth} B/s")
        result = simulate(workload, on, dataflow, options=options)
        return NeededBandwidth(bandwidth, result.utilisation, result)

    wide = try_bandwidth(widest)
    if wide.utilisation < target:
        return NeededBandwidth(None, wide.utilisation, wide.result)
    least = max(1, accelerator.clock_hz // _LEAST)
    low, enough = _narrow_bandwidth(
        try_bandwidth, target, wide, min(rate, widest // _STRIDE), least
    )
    high = enough.bytes_per_second or widest
    while low and high > low * _STEP:
        middle = round((low * high) ** 0.5)
        needed = try_bandwidth(middle)
        if needed.utilisation >= target:
            high, enough = middle, needed
        else:
            low = middle
    return enough


def _narrow_bandwidth(
    tried: Callable[[int], NeededBandwidth],
    target: float,
    wide: NeededBandwidth,
    rate: int,
    least: int,
) -> tuple[int, NeededBandwidth]:
    """Return a bandwidth that is too small (0: none is), and one that is enough, near each other.

    From ``rate`` down in strides, or up to ``wide``, which is enough.
    """
    needed = tried(rate)
    if needed.utilisation >= target:
        while needed.utilisation >= target and rate > least:
            enough, rate = needed, max(least, rate // _STRIDE)
            needed = tried(rate)
        return (0, needed) if needed.utilisation >= target else (rate, enough)
    most = wide.bytes_per_second or rate
    while rate * _STRIDE < most:
        needed = tried(rate * _STRIDE)
        if needed.utilisation >= target:
            return rate, needed
        rate *= _STRIDE
    return rate, wide
