"""The trace writer: a listener of the machine that writes rows in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np

from simaccel.files.targets import require_target, write_fault, writing
from simaccel.machine.accounts import EngineCycles, Wait
from simaccel.trace import store
from simaccel.trace.guard import MAX_CYCLE, TraceError, defer_interrupts, reserve, truncate
from simaccel.trace.schema import BLOCK_ROWS, COLUMNS, LIBVER, ROW, SEGMENT_FIELDS, USE, TraceHeader
from simaccel.units import Cause

_BUSY, _IDLE = int(Cause.BUSY), int(Cause.IDLE)
_SIZE = ROW.size
_pack_row, _pack_use = ROW.pack_into, USE.pack_into


class TraceWriter:
    """A writer of a trace: a context manager and a listener of the machine.

    Rows go to a file beside the target (`simaccel.files.targets.writing`), which becomes the target
    when the ``with`` block ends after ``finish``. A killed process leaves it there, readable up to
    the last checkpoint, until the same target is written again.

    Raises:
        InputError: the target can't be written (see ``require_target``).
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
        self._partial = self.path
        self._closing = ExitStack()
        self._file: Any = None
        self._grows: dict[str, store.Growing] = {}
        self._columns: dict[str, store.Growing] = {}
        self._finished = False
        self._block = store.EventBlock(block_rows)
        self._bytes, self._ends = self._block.bytes, self._block.ends
        self._block_rows = block_rows
        self._last_pair = block_rows - 2
        """The last place in a block where two rows fit."""
        self._written = 0
        """Rows in full blocks, which stay as they are in the file."""
        self._used = 0
        """Rows of the present block."""
        self._closed_rows = 0
        """Rows before this one don't grow any more: a segment may end or begin there."""
        self._open: dict[str, store.LastRow] = {}
        self._waits: dict[Wait, tuple[int, int, int]] = {}
        self._kinds: list[str] = [""]
        """The kind of each lane, by its number."""
        self._tables: dict[str, dict[str, int]] = {
            name: {"": 0} for name in ("lanes", "tiles", "kinds")
        }
        self._segments: list[tuple[int, int, int, int]] = []
        self._outermost: list[tuple[int, int]] = []
        self._index: list[store.BlockIndex] = []
        """Of blocks whose index is not in the file, or may change."""
        grows = [*self._tables, "lane_kinds", "segments", "index"]
        self._stored: dict[str, int] = dict.fromkeys(grows, 0)
        """How many entries of what grows slowly are in the file."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._partial = stack.enter_context(writing(self.path, force=self._force))
            stack.callback(self._close)
            with self._in_hdf5():
                self._partial.open("xb").close()
                reserve(self._partial, 0, store.header_bytes(self.header))
                self._file = h5py.File(self._partial, "w", libver=LIBVER)
                self._take(store.header_bytes(self.header))
                self._grows = store.write_beginning(self._file, self._block_rows, self.header)
                self._columns = {name: self._grows[f"events/{name}"] for name in COLUMNS}
            self._closing = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._closing.__exit__(kind, error, traceback)
            return
        with self._closing:
            if not self._finished:
                raise RuntimeError("the with block of a TraceWriter ended without finish()")
            with self._in_hdf5():
                self._file.close()
            truncate(self._partial)

    def _close(self) -> None:
        with suppress(OSError, RuntimeError), defer_interrupts():
            if self._file is not None:
                self._file.close()

    @contextmanager
    def _in_hdf5(self) -> Iterator[None]:
        """Defer interrupts, and name the target in errors of the system and of HDF5."""
        try:
            with defer_interrupts():
                yield
        except (OSError, RuntimeError) as error:
            raise write_fault(self.path, error) from None

    def announce(self, lanes: Mapping[str, str]) -> None:
        """Take the kind of each lane by name, in the order in which readers list them."""
        for name, kind in lanes.items():
            self._lane(name, kind)

    def interval(
        self, engine: str, start: int, end: int, cause: Cause, wait: Wait, site: int
    ) -> None:
        """Write one activity of an engine, from cycle ``start`` to ``end``."""
        last = self._open.get(engine) or self._lane(engine, "engine")
        ids = last.ids
        if wait is not last.wait:
            last.wait = wait
            last.ids = self._waits.get(wait) or self._wait(wait)
        if (
            last.end == start
            and last.cause is cause
            and last.row >= self._closed_rows
            and last.site == site
            and last.ids == ids
        ):
            self._ends[last.row - self._written] = last.end = end
            return
        last.cause, last.site = cause, site
        self._add(last, start, end)

    def note_service(self, channel: str, start: int, reported: int, uses: Sequence[int]) -> None:
        """Write uses of a channel from ``start`` on, where it had served ``reported`` cycles."""
        last = self._open.get(channel) or self._lane(channel, "channel")
        n, numbers = last.number, iter(uses)
        for idle, end, total in zip(numbers, numbers, numbers, strict=True):
            used, cycles = self._used, total - reported
            fits = start < idle < end <= MAX_CYCLE and used <= self._last_pair
            if fits and not (last.end == start and last.cause is Cause.BUSY):  # mostly
                at = used * _SIZE
                _pack_use(self._bytes, at, n, start, idle, _BUSY, cycles, n, idle, end, _IDLE)
                self._used = used + 2
                last.row, last.end = self._written + used + 1, end
                last.cause, last.served = Cause.IDLE, 0
            else:
                self._use(last, start, idle, Cause.BUSY, cycles)
                self._use(last, idle, end, Cause.IDLE, 0)
            start, reported = end, total

    def _use(self, last: store.LastRow, start: int, end: int, cause: Cause, cycles: int) -> None:
        if start == end:
            return
        if last.end == start and last.cause is cause and last.row >= self._closed_rows:
            at = last.row - self._written
            self._ends[at] = last.end = end
            last.served += cycles
            self._block.served[at] = last.served
            return
        last.cause, last.served = cause, cycles
        self._add(last, start, end)

    def note_held(self, tile: str, start: int, end: int, n_bytes: int) -> None:
        """Write the bytes that the slots of a tile held."""
        last = self._open.get(tile) or self._lane(tile, "tile")
        if last.end == start and last.held == n_bytes and last.row >= self._closed_rows:
            self._ends[last.row - self._written] = last.end = end
            return
        last.cause, last.held = Cause.BUSY if n_bytes else Cause.IDLE, n_bytes
        self._add(last, start, end)

    def _lane(self, name: str, kind: str) -> store.LastRow:
        lane = self._open[name] = store.LastRow(self._intern("lanes", name))
        self._kinds += [kind] * (lane.number == len(self._kinds))
        return lane

    def _add(self, lane: store.LastRow, start: int, end: int) -> None:
        """Add a row with the present activity of a lane."""
        used = self._used
        if used > self._last_pair or end > MAX_CYCLE:
            used = self._with_room(end)
        at, n, cause = used * _SIZE, lane.number, lane.cause
        tile, kind, engine = lane.ids
        site, held, served = lane.site, lane.held, lane.served
        # three times as fast as an assignment to a row of the array, and faster without a star
        _pack_row(self._bytes, at, n, start, end, cause, tile, kind, engine, site, held, served)
        lane.row, lane.end = self._written + used, end
        self._used = used + 1

    def _with_room(self, end: int) -> int:
        """Write the present block if it is full; return the place of a row up to cycle ``end``."""
        if end > MAX_CYCLE:
            raise TraceError(self.path, f"cycle {end}", f"runs of up to {MAX_CYCLE} cycles")
        if self._used == self._block_rows:
            with self._in_hdf5():
                self._store_block()
            self._written += self._used
            self._closed_rows = max(self._closed_rows, self._written)
            self._used = 0
        return self._used

    def position(self) -> int:
        """Return the number of rows so far, and end the open rows, so that a segment may begin."""
        self._closed_rows = self._written + self._used
        return self._closed_rows

    def repeat(self, first_row: int, period_cycles: int, times: int) -> None:
        """Write a segment: the rows from ``first_row`` on happen ``times`` more times.

        The i-th repetition is ``i * period_cycles`` later. Segments nest: those written since
        ``first_row`` are part of the repeated rows (ValueError: they begin before it).
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
        self._segments.append((first_row, end_row, period_cycles, times))

    def checkpoint(self, now: int) -> None:
        """Write all rows up to ``now`` to the file, so that they survive if the run is killed."""
        known = {"cycles": now, "rows": self.position(), "segments": len(self._segments)}
        with self._in_hdf5():
            self._store_block()
            self._store_tables()
            self._file.flush()
            for name, value in known.items():
                self._file.attrs.modify(name, value)
            self._file.flush()

    def finish(
        self,
        cycles: int,
        engines: Mapping[str, EngineCycles],
        figures: Mapping[str, object] | None = None,
        served: Mapping[str, int] | None = None,
    ) -> None:
        """Write the totals and figures of the finished run.

        ``figures`` are stored as JSON; without wall times, so that the same input gives the same
        bytes. ``served``: cycles of service by channel.
        """
        for kind, names in (("engine", engines), ("channel", served or {})):
            for name in names:
                if name not in self._open:
                    self._lane(name, kind)
        self.checkpoint(cycles)
        with self._in_hdf5():
            lanes = list(self._tables["lanes"])
            text = store.figures_text(figures or {})
            self._take(len(text))
            store.write_end(self._file, self._grows, lanes, engines, served or {}, text)
        self._finished = True

    def _intern(self, table: str, text: str) -> int:
        known = self._tables[table]
        return known.setdefault(text, len(known))

    def _wait(self, wait: Wait) -> tuple[int, int, int]:
        ids = (
            self._intern("tiles", wait.tile),
            self._intern("kinds", wait.kind),
            self._intern("lanes", wait.engine),
        )
        self._kinds += ["engine"] * (len(self._tables["lanes"]) - len(self._kinds))
        self._waits[wait] = ids
        return ids

    def _store_block(self) -> None:
        rows = self._block.rows[: self._used]
        self._take(rows.nbytes)
        if self._used:
            self._block.write(self._columns, self._used, self._written)
            at = self._written // self._block_rows - self._stored["index"]
            lanes, starts, ends = (rows[name] for name in ("lane", "start", "end"))
            n_lanes = len(self._tables["lanes"])
            self._index[at:] = [store.block_index(lanes, starts, ends, n_lanes)]

    def _store_tables(self) -> None:
        """Write new entries of tables, segments and the index."""
        n_lanes = len(self._tables["lanes"])
        entries = len(SEGMENT_FIELDS) * len(self._segments) + 3 * n_lanes * len(self._index)
        self._take(8 * entries + sum(map(len, self._tables["tiles"])))
        for name, table in self._tables.items():
            self._grow("tables", name, {name: list(table)})
        self._grow("tables", "lane_kinds", {"lane_kinds": self._kinds})
        columns = np.array(self._segments, dtype="<i8").reshape(-1, len(SEGMENT_FIELDS)).T
        self._grow("segments", "segments", dict(zip(SEGMENT_FIELDS, columns, strict=True)))
        first, current = self._stored["index"], self._written // self._block_rows
        if self._index:
            store.write_index(self._grows, first, self._index, n_lanes)
        self._index = self._index[current - first :]
        self._stored["index"] = current

    def _take(self, n_bytes: int) -> None:
        """Reserve disk space behind the end of the file."""
        reserve(self._partial, int(self._file.id.get_filesize()), n_bytes)

    def _grow(self, group: str, what: str, columns: Mapping[str, Any]) -> None:
        """Write the entries of columns that are not in the file yet."""
        first = self._stored[what]
        new = {name: column[first:] for name, column in columns.items()}
        store.write_more(self._grows, group, new, first)
        self._stored[what] = len(next(iter(columns.values())))
