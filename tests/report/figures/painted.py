"""The cycles of a window one by one: what figures must agree with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simaccel.trace import Trace

Cycles = npt.NDArray[np.int64]


def painted(trace: Trace, start: int, end: int, lane: str, column: str = "cause") -> Cycles:
    """Give a column of the event in which each cycle of a window lies."""
    found = np.full(end - start, -1, dtype=np.int64)
    for event in trace.events(start, end, lane):
        first, last = max(int(event["start"]), start), min(int(event["end"]), end)
        found[first - start : last - start] = event[column]
    assert (found >= 0).all()
    return found
