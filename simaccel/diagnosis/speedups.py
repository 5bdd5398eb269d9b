"""Speedups of a run without what limits it, each by a run of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simaccel.diagnosis.what_if import FREED_UNITS, free, takes_time
from simaccel.hardware.cores import CORE_NOC
from simaccel.machine.machine import Machine
from simaccel.run.limits import (
    RunLimit,
    next_limit,
    only_memory,
    waits_of_unit,
)
from simaccel.run.run import RunResult
from simaccel.units import ARRAY, LOADING, SFU, UNFILLED

_WORTH_A_WAIT: Final = 0.1
WORTH_A_CHANGE: Final = 1.02
"""The least speedup that is worth naming."""
_SFU_LATENCY: Final = "sfu_latency"
_CASES: Final[Mapping[str, tuple[str, ...]]] = {
    ARRAY: (ARRAY,),
    UNFILLED: (ARRAY,),
    LOADING: (LOADING,),
    "buffer_port": ("buffer_ports",),
    "dram_queue": ("dram_latency",),
    **{name: (name,) for name in ("dram_bandwidth", "dram_latency", "dram_banks", "noc", "start")},
    _SFU_LATENCY: (_SFU_LATENCY,),
    **{name: (name,) for name in (SFU, CORE_NOC, *FREED_UNITS)},
}
"""What is freed to see what a limit costs."""


def speedup_without(result: RunResult, limit: str) -> float | None:
    """Return the speedup of a program if the limit of this name is removed; None if it can't be.

    The program is unchanged, so no change of that resource alone gains more.
    """
    case = _CASES.get(limit)
    if case is None or not takes_time(result.accelerator, case):
        return None
    freed = free(result.accelerator, result.program, case)
    run = Machine(*freed, accounts=False).run()
    return result.run.cycles / run.cycles if run.cycles else None


@dataclass(frozen=True)
class LimitSpeedups:
    """Speedups of a program without its limits, each by a run of its own; None where not run.

    ``wait``: the resource that is waited for, if freeing it gains more than freeing the limit.
    """

    without_limit: float | None
    without_wait: float | None
    wait: RunLimit | None
    without_sfu_latency: float | None
    next_limit: RunLimit


def speedups_of(result: RunResult, limit: RunLimit) -> LimitSpeedups:
    """Return the speedups without a limit, without the longest wait, and without SFU latency."""
    gain, wait = speedup_without(result, limit.name), longest_wait(result, limit)
    other = None if wait is None or gain is None else speedup_without(result, wait.name)
    if other is None or gain is None or other < gain * WORTH_A_CHANGE:
        wait, other = None, None
    quick = None
    if (
        limit.name == SFU
        and result.accelerator.sfu.latency_cycles
        and gain is not None
        and gain > 1
    ):
        quick = speedup_without(result, _SFU_LATENCY)
    return LimitSpeedups(gain, other, wait, quick, next_limit(result, limit))


def longest_wait(result: RunResult, limit: RunLimit) -> RunLimit | None:
    """Return the resource that the computing unit waits for longest, if it isn't the limit.

    None where that can't be freed, or is less than a tenth of the cycles.
    """
    waits = Counter({cause: n for cause, n in waits_of_unit(result.run).items() if cause in _CASES})
    for cause, n in waits.most_common(1):
        if _CASES[cause] != _CASES.get(limit.name) and n >= _WORTH_A_WAIT * result.run.cycles:
            return RunLimit(cause, n / result.run.cycles, only_memory(result.accelerator))
    return None
