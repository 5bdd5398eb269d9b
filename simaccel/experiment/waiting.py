"""Waiting: the cycles of a run beyond its lower bound, by cause.

The causes are those of the computing unit. Each term of the bound is subtracted from the unit's
cycles that it accounts for; the rest adds up to cycles less bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from simaccel.hardware.core_noc import CORE_NOC
from simaccel.machine.machine import OperatorRun, Run
from simaccel.units import ARRAY, COMPUTE_UNITS, SFU, UNITS

BUSY: Final = "busy"
IDLE: Final = "idle"
OF_UNIT: Final = (BUSY, IDLE)
"""Activities that are no stalls."""
_DRAM: Final = ("dram_bandwidth", "dram_queue")
_PORT: Final = ("buffer_port",)
_COVERED: Final[Mapping[str, tuple[str, ...]]] = {
    "fill": ("dram_latency", "dram_bandwidth", CORE_NOC, "noc", "buffer_port", ARRAY),
    "between": (SFU, ARRAY, "noc", "drain"),
    "start": ("start",),
    "drain": ("drain", IDLE),
    "buffer_read": _PORT,
    "buffer_write": _PORT,
    "noc": ("noc",),
    **{name: (name, "drain", IDLE) for name in UNITS},
    **{name: (name,) for name in COMPUTE_UNITS},
}
"""Causes from which a term is subtracted, the likeliest first; terms of memories: `_DRAM`."""


def computing_unit(run: Run | OperatorRun) -> str:
    """Return the engine that computes: the array if it works at all, else the SFU."""
    return ARRAY if run.engines[ARRAY].busy else SFU


def waiting_by_cause(run: Run | OperatorRun, terms: Mapping[str, int]) -> dict[str, int]:
    """Return the cycles beyond a bound by cause, the most first; they add up to cycles - bound.

    ``terms`` are those of the bound, in cycles. ``busy`` is work of the unit beyond the bound.
    If groups overlap, a group may have a bound above its own cycles: then the result is empty.
    """
    unit = computing_unit(run)
    account = run.engines[unit]
    left = Counter({BUSY: account.busy, IDLE: account.idle, **account.stalls})
    if sum(terms.values()) > run.cycles:
        return {}
    for term in sorted(terms, key=lambda name: name != unit):
        link = (CORE_NOC,) if term.startswith(CORE_NOC) else _DRAM
        own = (BUSY,) if term == unit else _COVERED.get(term, link)
        _take(left, terms[term], (*own, BUSY))
    return {cause: n for cause, n in left.most_common() if n}


def _take(left: Counter[str], cycles: int, causes: tuple[str, ...]) -> None:
    """Subtract cycles from some causes in order, and the rest from the largest others."""
    for cause in (*causes, *(name for name, _ in left.most_common() if name not in causes)):
        taken = min(cycles, left[cause])
        left[cause] -= taken
        cycles -= taken
