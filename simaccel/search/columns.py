"""The figures of candidates in columns, and how many sets of candidates keep theirs in memory."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

MOST_BYTES: Final = 2**30
"""Memory of the columns of all sets in bytes. A convolution's takes about 5 MB: those of 200 are
kept, and of more the sets that were used last; the others are counted again when needed."""

Column = npt.NDArray[Any]


class Columns(NamedTuple):
    """Figures of the candidates of a set, one entry each.

    ``bounds``: cycles that no run is below. ``likely``: cycles of the likely run. ``dram``: bytes
    moved. ``space``: bytes of the buffer. ``energy``: pJ by the bound; 0 if it isn't computed.
    ``holding``: index of what the array holds. ``place``: index in the candidate's family.
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
    """Return a column in half the memory, if it has small integers alone."""
    is_small = column.dtype == np.int64 and (not column.size or column.max() < 2**31)
    return column.astype(np.int32) if is_small else column


class _Owner(Protocol):
    kept_columns: Columns | None


_recent: WeakKeyDictionary[_Owner, None] = WeakKeyDictionary()
"""Sets that keep their columns, those last used at the end."""


def keep_recent(owner: _Owner) -> None:
    """Note that a set's columns are used now; drop those of the sets that were not for longest.

    The last used set keeps its columns however large they are.
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
