"""Rows of a trace file, read block by block when they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simaccel.trace.datasets import File
from simaccel.trace.guard import damaged_error
from simaccel.trace.schema import (
    COLUMNS,
    EVENT,
    Cycles,
    Events,
)
from simaccel.trace.store import BlockIndex, Parts, block_index

_CACHED_BLOCKS = 16
_DAMAGE = (
    OSError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
    ArithmeticError,
    MemoryError,
)
"""Exceptions of h5py and numpy on damaged files."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn exceptions of h5py and numpy on a damaged file into a ``TraceError``."""
    try:
        yield
    except _DAMAGE as error:
        raise damaged_error(path, str(error) or type(error).__name__) from None


class LaneRows(NamedTuple):
    """Rows of one lane in one block, in order of time."""

    rows: Events
    numbers: Cycles
    """Number of each row in the file."""


class RowBoundary(NamedTuple):
    """A cut between two rows of a block, with what each lane has before and after it."""

    before: list[int]
    """Rows of each lane in the block before the cut."""
    next_start: list[int]
    """Start of the first row after it; 0 without such a row."""
    last_end: list[int]
    """End of the last row before it; 0 without such a row."""


class EventColumns:
    """The event columns of an open file."""

    def __init__(
        self,
        path: Path,
        file: File,
        parts: Parts,
        index: BlockIndex,
        n_tables: tuple[int, ...],
    ) -> None:
        self.path = path
        self.index = index
        self._columns = {name: parts[f"events/{name}"] for name in COLUMNS}
        self._n_tables = n_tables
        self.block_rows = int(file.attrs["block_rows"])
        self.n_rows = int(file.attrs["rows"])
        self._block = lru_cache(_CACHED_BLOCKS)(self._read)
        self.cut = lru_cache(None)(self._cut)
        if not file.attrs["complete"]:
            self.index = self._scan_index(len(index.rows[0]) if len(index.rows) else 1)
        if self.n_blocks != len(index.rows) or index.rows.sum() != self.n_rows:
            raise damaged_error(path, f"the index does not describe {self.n_rows} rows")

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return -(-self.n_rows // self.block_rows)

    def part(self, block: int, lane: int) -> LaneRows:
        """Return the rows of one lane in one block."""
        return self._block(block)[lane]

    def _read(self, block: int) -> list[LaneRows]:
        rows, order = self._read_block(block)
        self._require_sound(block, rows)
        numbers = order + block * self.block_rows
        ends = np.cumsum(self.index.rows[block]).tolist()
        return [LaneRows(rows[low:high], numbers[low:high]) for low, high in pairwise([0, *ends])]

    def _cut(self, block: int, row: int) -> RowBoundary:
        """Return the cut of a block before a row; cuts are cached, as all lanes need the same."""
        parts = self._block(block)
        at = [int(np.searchsorted(part.numbers, row)) for part in parts]
        both = list(zip(parts, at, strict=True))
        starts = [int(p.rows["start"][n]) if n < len(p.rows) else 0 for p, n in both]
        return RowBoundary(at, starts, [int(p.rows["end"][n - 1]) if n else 0 for p, n in both])

    def _read_block(self, block: int) -> tuple[Events, Cycles]:
        """Return the rows of a block, sorted by lane, and the position of each in the block."""
        first = block * self.block_rows
        last = min(first + self.block_rows, self.n_rows)
        rows = np.zeros(last - first, EVENT)
        with reading(self.path):
            stored = {name: column[first:last] for name, column in self._columns.items()}
        order = np.argsort(stored["lane"], kind="stable")
        for name, values in stored.items():
            rows[name] = values[order]
        return rows, order

    def _scan_index(self, n_lanes: int) -> BlockIndex:
        """Return the index of a partial trace, made from its rows; the stored one may be newer."""
        read = (self._read_block(block)[0] for block in range(self.n_blocks))
        blocks = [block_index(rows, n_lanes) for rows in read]
        nothing = np.zeros((0, n_lanes), dtype=np.int64)
        names = ("rows", "first_start", "last_end")
        return BlockIndex(
            *(np.array([getattr(b, n) for b in blocks]) if blocks else nothing for n in names)
        )

    def _require_sound(self, block: int, rows: Events) -> None:
        where = f"in rows {block * self.block_rows} and on"
        for name, limit in zip(
            ("lane", "wait_engine", "wait_tile", "wait_kind", "cause"),
            self._n_tables,
            strict=True,
        ):
            if rows[name].max() >= limit:
                raise damaged_error(
                    self.path, f"{where}: {name} {rows[name].max()} is not in the table"
                )
        counted = block_index(rows, self.index.rows.shape[1])
        for name in ("rows", "first_start", "last_end"):
            if not np.array_equal(getattr(counted, name), getattr(self.index, name)[block]):
                raise damaged_error(self.path, f"{where}: the index tells another {name}")
