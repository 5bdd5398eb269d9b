"""Waiting: the cycles that a run takes beyond its lower bound, by what its computing unit did.

Each term of the bound takes the cycles that it speaks of from the accounts of that unit; what is
left adds up to cycles less bound.
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
"""What the unit does that is no stall."""
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
"""What a unit does in the cycles of a term, the likeliest first; in those of memories: `_DRAM`."""


def computing_unit(run: Run | OperatorRun) -> str:
    """Return the engine that computes: the array where it works at all, else the SFU."""
    return ARRAY if run.engines[ARRAY].busy else SFU


def waiting_by_cause(run: Run | OperatorRun, terms: Mapping[str, int]) -> dict[str, int]:
    """Return the cycles beyond a bound by cause, the most first; they add up to cycles - bound.

    ``terms``: of the bound, in cycles. ``busy`` is work of the unit that the bound does not have.
    Where groups overlap, a group alone may have a bound above its cycles: then there is nothing.
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
    """Take cycles from what is left of some causes, in order; the rest from the largest others."""
    for cause in (*causes, *(name for name, _ in left.most_common() if name not in causes)):
        taken = min(cycles, left[cause])
        left[cause] -= taken
        cycles -= taken
