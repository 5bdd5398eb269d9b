"""Rows of a trace file, read block by block when they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simaccel.trace.datasets import File
from simaccel.trace.guard import damaged_error
from simaccel.trace.schema import (
    COLUMNS,
    EVENT,
    HELD,
    MEASURES,
    SERVED,
    Cycles,
    Events,
    Measures,
)
from simaccel.trace.store import BlockIndex, Parts, block_index

_CACHED_BLOCKS = 64
_CACHED_SUMS = 32
"""Of the lanes of about a block: they take twice the memory of the rows themselves."""
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
"""What h5py and numpy raise on files that are not what they should be."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what h5py and numpy raise on a damaged file into a ``TraceError``."""
    try:
        yield
    except _DAMAGE as error:
        raise damaged_error(path, str(error) or type(error).__name__) from None


class LaneRows:
    """Rows of one lane in one block, in order of time."""

    def __init__(self, rows: Events, numbers: Cycles) -> None:
        self.rows = rows
        self.numbers = numbers
        """Where each row stands in the file."""

    def measure(self) -> Measures:
        """Return ``MEASURES`` of the rows before each row, and of all of them."""
        rows, n = self.rows, len(self.rows)
        held = rows["held"]
        measured = np.zeros((n + 1, len(MEASURES)), np.float64 if held.any() else np.int64)
        lengths = rows["end"] - rows["start"]
        measured[np.arange(1, n + 1), rows["cause"]] = lengths
        measured[1:, SERVED] = rows["served"]
        if held.any():
            measured[1:, HELD] = held.astype(np.float64) * lengths
        return np.cumsum(measured, axis=0)


class RowBoundary(NamedTuple):
    """A place between two rows of a block, by lane: what of the lane stands before and after."""

    before: list[int]
    """Rows before it."""
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
        self.measured = lru_cache(_CACHED_SUMS)(self._measure_lane)
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

    def _measure_lane(self, block: int, lane: int) -> Measures:
        return self.part(block, lane).measure()

    def _read(self, block: int) -> list[LaneRows]:
        first = block * self.block_rows
        rows = self._read_block(block)
        self._require_sound(block, rows)
        order = np.argsort(rows["lane"], kind="stable")
        cuts = np.cumsum(self.index.rows[block])[:-1]
        parts = zip(np.split(rows[order], cuts), np.split(order + first, cuts), strict=True)
        return [LaneRows(part, numbers) for part, numbers in parts]

    def _cut(self, block: int, row: int) -> RowBoundary:
        """Cut a block before a row; the cuts are kept, as all lanes need the same ones."""
        parts = self._block(block)
        at = [int(np.searchsorted(part.numbers, row)) for part in parts]
        both = list(zip(parts, at, strict=True))
        starts = [int(p.rows["start"][n]) if n < len(p.rows) else 0 for p, n in both]
        return RowBoundary(at, starts, [int(p.rows["end"][n - 1]) if n else 0 for p, n in both])

    def _read_block(self, block: int) -> Events:
        first = block * self.block_rows
        last = min(first + self.block_rows, self.n_rows)
        rows = np.zeros(last - first, EVENT)
        with reading(self.path):
            for name, column in self._columns.items():
                rows[name] = column[first:last]
        return rows

    def _scan_index(self, n_lanes: int) -> BlockIndex:
        """Make the index of a partial trace: what is in the file may be newer than its rows."""
        blocks = [block_index(self._read_block(block), n_lanes) for block in range(self.n_blocks)]
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
