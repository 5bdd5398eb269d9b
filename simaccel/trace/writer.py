"""The trace writer: listens to a machine and writes what it hears in blocks."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np

from simaccel.machine.accounts import NO_WAIT, Cause, Wait
from simaccel.machine.machine import EngineCycles
from simaccel.trace.schema import (
    BLOCK_ROWS,
    COLUMNS,
    EVENT,
    LIBVER,
    MAX_CYCLE,
    TraceError,
    TraceHeader,
)
from simaccel.trace.store import (
    BlockIndex,
    block_index,
    write_beginning,
    write_header,
    write_rest,
    write_totals,
)
from simaccel.trace.target import not_written, partial_path, require_target


class _Open:
    """The last row of one engine: what it says and whether it may still grow."""

    __slots__ = ("cause", "end", "number", "row", "site", "wait")

    def __init__(self, number: int) -> None:
        self.number = number
        self.row = -1
        self.end = 0
        self.cause = Cause.IDLE
        self.wait = NO_WAIT
        self.site = 0


class TraceWriter:
    """Writes a trace; a context manager and a listener of the machine.

    The rows go to a hidden file beside the target, which takes the target's place when the
    ``with`` block ends after ``finish``. Any exception, Ctrl-C included, removes it: at the
    target there is never a half-written file.

    Raises:
        TraceError: the target can't be written (see ``require_target``).

    """

    def __init__(
        self,
        path: str | Path,
        header: TraceHeader,
        *,
        force: bool = False,
        block_rows: int = BLOCK_ROWS,
    ) -> None:
        self.path = require_target(path, force=force)
        self.header = header
        self._force = force
        self._partial = partial_path(self.path)
        self._file: Any = None
        self._finished = False
        self._block = np.zeros(block_rows, EVENT)
        self._ends = self._block["end"]
        self._written = 0
        self._used = 0
        self._closed_rows = 0
        """Rows before this one don't grow any more: a segment may end or begin there."""
        self._open: dict[str, _Open] = {}
        self._waits: dict[Wait, tuple[int, int, int]] = {}
        self._tables: dict[str, dict[str, int]] = {
            name: {"": 0} for name in ("engines", "tiles", "kinds")
        }
        self._segments = array("q")
        self._outermost: list[tuple[int, int]] = []
        self._index: list[BlockIndex] = []

    def __enter__(self) -> Self:
        try:
            self._file = h5py.File(self._partial, "x", libver=LIBVER)
            write_beginning(self._file, len(self._block))
        except OSError as error:
            self._discard()
            raise not_written(self.path, error) from None
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            self._discard()

    def interval(
        self, engine: str, start: int, end: int, cause: Cause, wait: Wait, site: int
    ) -> None:
        """Note that ``engine`` did one thing from cycle ``start`` to ``end``."""
        last = self._open.get(engine)
        if last is None:
            last = self._open[engine] = _Open(self._intern("engines", engine))
        elif (
            last.end == start
            and last.cause is cause
            and last.row >= self._closed_rows
            and last.site == site
            and (last.wait is wait or last.wait == wait)
        ):
            self._ends[last.row - self._written] = last.end = end
            return
        if end > MAX_CYCLE:
            raise TraceError(self.path, f"cycle {end}", f"runs of up to {MAX_CYCLE} cycles")
        ids = self._waits.get(wait) or self._wait(wait)
        self._block[self._used] = (last.number, start, end, cause, *ids, site)
        last.row, last.end = self._written + self._used, end
        last.cause, last.wait, last.site = cause, wait, site
        self._used += 1
        if self._used == len(self._block):
            self._flush()

    def position(self) -> int:
        """Give the number of rows so far; a segment may begin here."""
        self._closed_rows = self._written + self._used
        return self._closed_rows

    def repeat(self, first_row: int, period_cycles: int, times: int) -> None:
        """Note that the rows from ``first_row`` on happen ``times`` more times.

        The i-th time is ``i * period_cycles`` later. Segments nest: those noted since
        ``first_row`` are part of what is repeated.
        """
        end_row = self.position()
        if first_row == end_row or times == 0:
            return
        if not 0 <= first_row < end_row or period_cycles <= 0 or times < 0:
            raise ValueError(f"no segment: row {first_row}, {period_cycles} cycles, {times} times")
        while self._outermost and self._outermost[-1][0] >= first_row:
            self._outermost.pop()
        if self._outermost and self._outermost[-1][1] > first_row:
            raise ValueError(f"row {first_row} lies inside a segment that ends before {end_row}")
        self._outermost.append((first_row, end_row))
        self._segments.extend((first_row, end_row, period_cycles, times))

    def finish(
        self,
        cycles: int,
        totals: Mapping[str, EngineCycles],
        figures: Mapping[str, object] | None = None,
    ) -> None:
        """Write what is known only when the run is over.

        ``figures`` is kept as JSON text; leave wall time out of it, so that the same input
        gives the same bytes.
        """
        try:
            self._flush()
            for engine in totals:
                self._intern("engines", engine)
            tables = {name: list(table) for name, table in self._tables.items()}
            write_header(self._file, self.header)
            write_rest(self._file, tables, self._segments, self._index)
            write_totals(self._file, tables["engines"], cycles, totals, figures or {})
            self._file.attrs["complete"] = True
        except OSError as error:
            raise not_written(self.path, error) from None
        self._finished = True

    def _intern(self, table: str, text: str) -> int:
        known = self._tables[table]
        return known.setdefault(text, len(known))

    def _wait(self, wait: Wait) -> tuple[int, int, int]:
        ids = (
            self._intern("tiles", wait.tile),
            self._intern("kinds", wait.kind),
            self._intern("engines", wait.engine),
        )
        self._waits[wait] = ids
        return ids

    def _flush(self) -> None:
        rows = self._block[: self._used]
        if not self._used:
            return
        self._index.append(block_index(rows, len(self._tables["engines"])))
        self._written += self._used
        self._closed_rows = self._written
        self._used = 0
        try:
            for name in COLUMNS:
                column = self._file["events"][name]
                column.resize((self._written,))
                column[self._written - len(rows) :] = rows[name]
        except OSError as error:
            raise not_written(self.path, error) from None

    def _commit(self) -> None:
        if not self._finished:
            raise RuntimeError("the with block of a TraceWriter ended without finish()")
        try:
            self._file.close()
            require_target(self.path, force=self._force)
            self._partial.replace(self.path)
        except (OSError, RuntimeError) as error:
            raise not_written(self.path, error) from None

    def _discard(self) -> None:
        """Close and remove what is not the target by now."""
        with suppress(OSError, RuntimeError):
            if self._file is not None:
                self._file.close()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)
