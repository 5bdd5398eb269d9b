"""Sums over rows of one lane: cycles by activity, and the service in a part of a row."""

from __future__ import annotations

from collections import Counter

import numpy as np

from simaccel.trace.schema import KEY, Cycles, Events, same_activity

Account = Counter[tuple[int, ...]]
"""Cycles by activity: the values of the columns ``KEY``."""


def share_service(served: Cycles, cycles: Cycles, lengths: Cycles) -> Cycles:
    """Return the service in the first ``cycles`` of rows, in integers that may be large."""
    share: Cycles = (served.astype(object) * cycles // lengths).astype(np.int64)
    return share


def account_rows(rows: Events, start: int, end: int) -> Account:
    """Sum the cycles of rows of one lane in a window by activity."""
    cycles = np.minimum(rows["end"], end) - np.maximum(rows["start"], start)
    rows, cycles = rows[cycles > 0], cycles[cycles > 0]
    if not len(rows):
        return Counter()
    order = np.lexsort([rows[name] for name in KEY if rows[name].any()] or [cycles])
    rows, cycles = rows[order], cycles[order]
    first = np.flatnonzero(np.append(True, ~same_activity(rows[:-1], rows[1:])))
    keys = zip(*(rows[name][first].tolist() for name in KEY), strict=True)
    return Counter(dict(zip(keys, np.add.reduceat(cycles, first).tolist(), strict=True)))
