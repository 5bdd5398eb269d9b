"""Sums over rows of one lane: by measure, by activity, and the service in a part of a row."""

from __future__ import annotations

from collections import Counter

import numpy as np

from simaccel.trace.rows import LaneRows
from simaccel.trace.schema import (
    HELD,
    KEY,
    MEASURES,
    SERVED,
    Cycles,
    Measures,
)

Account = Counter[tuple[int, ...]]
"""Cycles by activity: the values of the columns ``KEY``."""


def measure_all(rows: LaneRows) -> Measures:
    """Return the sums over all rows, by measure."""
    held = rows["held"].any()
    done = np.zeros(len(MEASURES), np.float64 if held else np.int64)
    lengths = (rows["end"] - rows["start"]).astype(done.dtype, copy=False)
    np.add.at(done, rows["cause"], lengths)
    done[SERVED] = rows["served"].sum()
    if held:
        done[HELD] = np.cumsum(rows["held"] * lengths)[-1]
    return done


def measure_before(rows: LaneRows, numbers: Cycles) -> Measures:
    """Return cumulative sums over the rows before each of ``numbers``, by number and measure.

    Row numbers ascend; the measures are ``MEASURES``.

    >>> from simaccel.trace.schema import EVENT
    >>> rows = np.zeros(3, EVENT)
    >>> rows["end"], rows["cause"], rows["served"] = (4, 5, 9), (0, 1, 0), (2, 0, 3)
    >>> rows["start"][1:] = rows["end"][:-1]
    >>> measure_before(rows, np.array([0, 2, 3]))[:, [0, 1, SERVED]].tolist()
    [[0, 0, 0], [4, 1, 2], [8, 1, 5]]
    """
    held = rows["held"].any()
    done = np.zeros((len(numbers), len(MEASURES)), np.float64 if held else np.int64)
    last = numbers[-1]
    lengths = rows["end"][:last] - rows["start"][:last]
    n_rows = numbers.copy()
    n_rows[1:] -= numbers[:-1]
    until = np.repeat(np.arange(len(numbers)), n_rows)
    of = until * len(MEASURES) + rows["cause"][:last]
    np.add.at(done.reshape(-1), of, lengths.astype(done.dtype))
    done = np.cumsum(done, axis=0)
    sums = np.zeros(last + 1, done.dtype)
    np.cumsum(rows["served"][:last], out=sums[1:])
    done[:, SERVED] = sums[numbers]
    if held:
        np.cumsum(rows["held"][:last] * lengths.astype(np.float64), out=sums[1:])
        done[:, HELD] = sums[numbers]
    return done


def share_service(served: Cycles, cycles: Cycles, lengths: Cycles) -> Cycles:
    """Return the service in the first ``cycles`` of rows with these ``lengths``, in proportion.

    Rounded down; in Python's integers, as the products exceed 64 bits.
    """
    share: Cycles = (served.astype(object) * cycles // lengths).astype(np.int64)
    return share


def account_rows(rows: LaneRows, start: int, end: int) -> Account:
    """Return the cycles that one lane's rows spend in a window, by activity."""
    cycles = np.minimum(rows["end"], end) - np.maximum(rows["start"], start)
    within = np.flatnonzero(cycles > 0)
    if not len(within):
        return Counter()
    columns = [rows[name][within] for name in KEY]
    order = np.lexsort([column for column in columns if column.any()] or [within])
    columns = [column[order] for column in columns]
    new = np.ones(len(within), dtype=np.bool_)
    new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    first = np.flatnonzero(new)
    keys = zip(*(column[first].tolist() for column in columns), strict=True)
    sums = np.add.reduceat(cycles[within][order], first)
    return Counter(dict(zip(keys, sums.tolist(), strict=True)))
