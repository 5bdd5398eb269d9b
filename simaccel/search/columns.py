"""Figures of candidates as columns, and a least-recently-used limit of their memory."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

MOST_BYTES: Final = 2**30
"""Memory of the columns of all sets in bytes. Those of a convolution take about 5 MB, so about
200 sets keep theirs; columns that were dropped are computed again when needed."""

Column = npt.NDArray[Any]


class Columns(NamedTuple):
    """Figures of the candidates of a set, one entry each.

    ``bounds``: lower bound of the cycles. ``likely``: estimated cycles. ``dram``: DRAM bytes.
    ``space``: buffer bytes. ``energy``: pJ, with the leakage of the bound's cycles; 0 if it isn't
    computed. ``holding``: index of the stationary operand. ``place``: index in the family.
    """

    bounds: Column
    likely: Column
    dram: Column
    space: Column
    energy: Column
    holding: Column
    place: Column

    @property
    def n_bytes(self) -> int:
        """Memory of all columns in bytes."""
        return sum(column.nbytes for column in self)


def narrow(column: Column) -> Column:
    """Return a column as int32 if it is int64 and all its values are below 2^31."""
    is_small = column.dtype == np.int64 and (not column.size or column.max() < 2**31)
    return column.astype(np.int32) if is_small else column


class _Owner(Protocol):
    kept_columns: Columns | None


_recent: WeakKeyDictionary[_Owner, None] = WeakKeyDictionary()
"""Sets that keep their columns, those last used at the end."""


def keep_recent(owner: _Owner) -> None:
    """Mark a set as most recently used; drop the columns of the least recently used sets.

    They are dropped until all take `MOST_BYTES` at most; the set itself always keeps its columns.
    """
    is_new = owner not in _recent
    _recent.pop(owner, None)
    _recent[owner] = None
    if not is_new:
        return
    kept = [(each, columns) for each in _recent if (columns := each.kept_columns) is not None]
    total = sum(columns.n_bytes for _, columns in kept)
    for each, columns in kept[:-1]:
        if total <= MOST_BYTES:
            break
        total -= columns.n_bytes
        each.kept_columns = None
        del _recent[each]
