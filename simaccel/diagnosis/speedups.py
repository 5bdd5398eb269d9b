"""Speedups of a run without what limits it, each by a run of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simaccel.diagnosis.what_if import FREED_UNITS, free, takes_time
from simaccel.hardware import Accelerator
from simaccel.hardware.core_noc import CORE_NOC
from simaccel.machine.machine import Machine
from simaccel.program.program import Program
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
_CASES: Final[Mapping[str, tuple[str, ...]]] = {
    ARRAY: (ARRAY,),
    UNFILLED: (ARRAY,),
    LOADING: (LOADING,),
    "buffer_port": ("buffer_ports",),
    "dram_queue": ("dram_latency",),
    **{name: (name,) for name in ("dram_bandwidth", "dram_latency", "dram_banks", "noc", "start")},
    **{name: (name,) for name in (SFU, CORE_NOC, *FREED_UNITS)},
}
"""What is freed to see what a limit costs."""


def speedup_without(result: RunResult, limit: RunLimit) -> float | None:
    """Return the speedup of a program without a limit; None where that can't be run.

    The program stays as it is, so this is the most that any change of that resource alone gains.
    """
    case = _CASES.get(limit.name)
    if case is None or not takes_time(result.accelerator, case):
        return None
    return _gain_of(result, *free(result.accelerator, result.program, case))


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
    gain, wait = speedup_without(result, limit), longest_wait(result, limit)
    other = None if wait is None or gain is None else speedup_without(result, wait)
    if other is None or gain is None or other < gain * WORTH_A_CHANGE:
        wait, other = None, None
    quick = None
    if (
        limit.name == SFU
        and result.accelerator.sfu.latency_cycles
        and gain is not None
        and gain > 1
    ):
        quick = speedup_without_sfu_latency(result)
    return LimitSpeedups(gain, other, wait, quick, next_limit(result, limit))


def speedup_without_sfu_latency(result: RunResult) -> float | None:
    """Return the speedup of a program on an SFU without latency."""
    return _gain_of(result, *free(result.accelerator, result.program, ("sfu_latency",)))


def _gain_of(result: RunResult, accelerator: Accelerator, program: Program) -> float | None:
    run = Machine(accelerator, program, accounts=False).run()
    return result.run.cycles / run.cycles if run.cycles else None


def longest_wait(result: RunResult, limit: RunLimit) -> RunLimit | None:
    """Return the resource that the computing unit waits for longest, if it isn't the limit.

    None where that can't be freed, or is less than a tenth of the cycles.
    """
    waits = Counter({cause: n for cause, n in waits_of_unit(result.run).items() if cause in _CASES})
    for cause, n in waits.most_common(1):
        if _CASES[cause] != _CASES.get(limit.name) and n >= _WORTH_A_WAIT * result.run.cycles:
            return RunLimit(cause, n / result.run.cycles, only_memory(result.accelerator))
    return None
