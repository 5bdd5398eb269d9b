"""The cycles of a window one by one: what figures must agree with."""

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch

from simaccel.trace import TraceReader

Cycles = npt.NDArray[np.int64]


def painted(trace: TraceReader, start: int, end: int, lane: str, column: str = "cause") -> Cycles:
    """Give a column of the event in which each cycle of a window lies."""
    found = np.full(end - start, -1, dtype=np.int64)
    for event in trace.events(start, end, lane):
        first, last = max(int(event["start"]), start), min(int(event["end"]), end)
        found[first - start : last - start] = event[column]
    assert (found >= 0).all()
    return found


def steps(axes: Axes) -> list[tuple[str, Any]]:
    """Give what is drawn in steps: the label, and values, baseline and edges."""
    patches = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    return [(str(patch.get_label()), patch.get_data()) for patch in patches]
