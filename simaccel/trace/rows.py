"""Rows of a trace file, read block by block when they are needed, and sums over those of a lane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simaccel.trace.guard import damaged_error
from simaccel.trace.schema import (
    COLUMNS,
    EVENT,
    HELD,
    KEY,
    MEASURES,
    SERVED,
    Cycles,
    Events,
    Measures,
)
from simaccel.trace.store import BlockIndex, File, Parts, block_index

_CACHED_BLOCKS = 16
_INDEX = tuple(field.name for field in fields(BlockIndex))
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


class BlockRows:
    """The rows of one block, sorted by lane; a column is sorted when it is first read.

    Attributes:
        lanes: number of rows of each lane that has any, by lane number.
        first: number of the block's first row in the file.
    """

    def __init__(self, stored: dict[str, Cycles], first: int) -> None:
        self.first = first
        self.lanes = np.bincount(stored["lane"])
        self.order = np.argsort(stored["lane"], kind="stable")
        self._bounds = [0, *np.cumsum(self.lanes).tolist()]
        self._stored, self._sorted = stored, dict[str, Cycles]()

    def column(self, name: str) -> Cycles:
        """Return a column, sorted by lane and then by time."""
        if name not in self._sorted:
            self._sorted[name] = self._stored.pop(name)[self.order]
        return self._sorted[name]

    def largest(self, name: str) -> int:
        """Return the largest value of a column."""
        return int(self._stored[name].max() if name in self._stored else self.column(name).max())

    def of_lane(self, lane: int) -> LaneRows:
        """Return the rows of one lane."""
        low, high = self._bounds[lane : lane + 2] if lane < len(self.lanes) else (0, 0)
        return LaneRows(self, low, high)

    def index(self, n_lanes: int) -> BlockIndex:
        """Return the index that a sound file has of this block."""
        lanes, starts, ends = map(self.column, ("lane", "start", "end"))
        return block_index(lanes, starts, ends, n_lanes)


@dataclass(frozen=True, eq=False)
class LaneRows:
    """Rows ``low`` up to ``high`` of a block that is sorted by lane: of one lane, by time."""

    block: BlockRows
    low: int
    high: int

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.high - self.low

    def __getitem__(self, name: str) -> Cycles:
        """Return a column."""
        return self.block.column(name)[self.low : self.high]

    def part(self, low: int, high: int) -> LaneRows:
        """Return the rows ``low`` up to ``high`` of these."""
        return LaneRows(self.block, self.low + low, self.low + high)

    def events(self) -> Events:
        """Return the rows with all columns."""
        rows = np.zeros(len(self), EVENT)
        for name in COLUMNS:
            rows[name] = self[name]
        return rows

    def position(self, row: int) -> int:
        """Return how many of these rows stand before row number ``row`` of the file."""
        numbers = self.block.order[self.low : self.high]
        return int(np.searchsorted(numbers, row - self.block.first))


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

    def __init__(self, path: Path, file: File, parts: Parts, n_tables: tuple[int, ...]) -> None:
        self.path = path
        self._columns = {name: parts[f"events/{name}"] for name in COLUMNS}
        self._n_tables = n_tables
        self.block_rows = int(file.attrs["block_rows"])
        self.n_rows = int(file.attrs["rows"])
        self._block = lru_cache(_CACHED_BLOCKS)(self._read_sound)
        self.cut = lru_cache(None)(self._cut)
        if file.attrs["complete"]:
            self.index = BlockIndex(*(parts[f"index/{name}"][:] for name in _INDEX))
        else:  # the stored one may be newer than the last checkpoint
            n_lanes = n_tables[0]
            blocks = [self._read_block(block).index(n_lanes) for block in range(self.n_blocks)]
            nothing = np.zeros((0, n_lanes), dtype=np.int64)
            self.index = BlockIndex(
                *(np.array([getattr(b, n) for b in blocks]) if blocks else nothing for n in _INDEX)
            )
        if self.n_blocks != len(self.index.rows) or self.index.rows.sum() != self.n_rows:
            raise damaged_error(path, f"the index does not describe {self.n_rows} rows")

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return -(-self.n_rows // self.block_rows)

    def part(self, block: int, lane: int) -> LaneRows:
        """Return the rows of one lane in one block."""
        return self._block(block).of_lane(lane)

    def _cut(self, block: int, row: int) -> RowBoundary:
        """Return the cut of a block before a row; cuts are cached, as all lanes need the same."""
        parts = [self.part(block, lane) for lane in range(self.index.rows.shape[1])]
        both = [(part, part.position(row)) for part in parts]
        starts = [int(p["start"][n]) if n < len(p) else 0 for p, n in both]
        ends = [int(p["end"][n - 1]) if n else 0 for p, n in both]
        return RowBoundary([n for _, n in both], starts, ends)

    def _read_block(self, block: int) -> BlockRows:
        first = block * self.block_rows
        last = min(first + self.block_rows, self.n_rows)
        with reading(self.path):
            stored = {name: column[first:last] for name, column in self._columns.items()}
        return BlockRows(stored, first)

    def _read_sound(self, block: int) -> BlockRows:
        """Read a block whose numbers are those of names and whose index is right."""
        rows = self._read_block(block)
        where = f"in rows {block * self.block_rows} and on"
        for name, limit in zip(
            ("lane", "wait_engine", "wait_tile", "wait_kind", "cause"), self._n_tables, strict=True
        ):
            largest = rows.largest(name)
            if largest >= limit:
                raise damaged_error(self.path, f"{where}: {name} {largest} is not in the table")
        counted = rows.index(self.index.rows.shape[1])
        for name in _INDEX:
            if not np.array_equal(getattr(counted, name), getattr(self.index, name)[block]):
                raise damaged_error(self.path, f"{where}: the index tells another {name}")
        return rows


Account = Counter[tuple[int, ...]]
"""Cycles by activity: the values of the columns ``KEY``."""


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
    return (served.astype(object) * cycles // lengths).astype(np.int64)


def group_rows(columns: Sequence[Cycles]) -> tuple[Cycles, Cycles]:
    """Return the order of rows by their columns, and where in it each distinct row first stands.

    >>> order, first = group_rows([np.array([2, 1, 2]), np.array([5, 0, 5])])
    >>> order.tolist(), first.tolist()
    ([1, 0, 2], [0, 1])
    """
    varied = [column for column in columns[::-1] if column.any()]
    order = np.lexsort(varied or [columns[0]])
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.any([(column := each[order])[1:] != column[:-1] for each in columns], axis=0)
    return order, np.flatnonzero(new)


def account_rows(rows: LaneRows, start: int, end: int) -> Account:
    """Return the cycles that one lane's rows spend in a window, by activity."""
    cycles = np.minimum(rows["end"], end) - np.maximum(rows["start"], start)
    within = np.flatnonzero(cycles > 0)
    if not len(within):
        return Counter()
    columns = [rows[name][within] for name in KEY]
    order, first = group_rows(columns)
    keys = zip(*(column[order[first]].tolist() for column in columns), strict=True)
    sums = np.add.reduceat(cycles[within][order], first)
    return Counter(dict(zip(keys, sums.tolist(), strict=True)))
