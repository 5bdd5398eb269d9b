"""The trace reader: opens a file, and answers queries without unrolling segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from simaccel.errors import suggest
from simaccel.hardware.resources import channel_rates
from simaccel.trace import questions
from simaccel.trace.events import Columns, Event, columns, decode, frame
from simaccel.trace.forest import RepeatedSegment, make_track, nest, stretches
from simaccel.trace.guard import TraceError, damaged_error
from simaccel.trace.header import RunRecord, open_file, read_figures, read_header, read_texts
from simaccel.trace.layout import code_of, cycles_by_cause, lane_faults, require_layout
from simaccel.trace.rows import EventColumns, reading
from simaccel.trace.schema import (
    CAUSES,
    LANES,
    SEGMENT_FIELDS,
    TABLES,
    Cycles,
    Events,
    WindowTooLargeError,
)
from simaccel.trace.store import File, Parts
from simaccel.trace.track import NOTHING, ChainTrack, sum_rows

MAX_EVENTS = 10_000_000
MAX_FRAME_ROWS = 2_000_000
"""Rows of a data frame, at most; it then takes about 200 MB."""
MAX_BINS = 100_000
_SHOWN_FAULTS = 5


class TraceReader(RunRecord):
    """An open trace: ``TraceReader(path)`` opens it; a context manager that closes the file.

    Attributes:
        header: what reproduces the run; of older versions (``schema_version``) only as texts.
        partial: whether the run was killed; the file then ends at the last checkpoint.
        cycles: length of the run, or of the stored part of it.
        lanes: the kind of each lane by name: engine, channel, tile.
        engines, channels, tiles: names of the lanes of each kind.
        figures: the run's figures as they were written; none in a partial trace.
        totals: each engine's cycles as the run counted them; ``check`` compares the rows.
        served: each channel's cycles of service as the run counted them.
        tables: texts by number, for the columns of ``events``.
        n_rows: stored rows; ``n_segments``: stored segments.
    """

    def __init__(self, path: str | Path) -> None:
        """Open a trace.

        Raises:
            TraceError: there is no such file, or it is no undamaged trace of this schema version.
        """
        self.path = Path(path)
        with reading(self.path), ExitStack() as stack:
            self._read(self.path, stack.enter_context(open_file(self.path)))
            self._closing = stack.pop_all()

    def _read(self, path: Path, file: File) -> None:
        """Read all but the rows."""
        parts = require_layout(path, file)
        self.schema_version = int(file.attrs["schema_version"])
        self.cycles = int(file.attrs["cycles"])
        self.partial = not file.attrs["complete"]
        self.header = read_header(int(file.attrs["seed"]), code_of(file), parts)
        self.tables = {name: read_texts(parts[f"tables/{name}"]) for name in TABLES}
        causes = self.tables["causes"]  # of an older writer: those that were there
        if not causes or causes != list(CAUSES)[: len(causes)]:
            raise damaged_error(path, f"causes {self.tables['causes']}")
        limits = [len(self.tables[t]) for t in ("lanes", "lanes", "tiles", "kinds", "causes")]
        self._rows = EventColumns(path, file, parts, tuple(limits))
        self.n_rows = self._rows.n_rows
        self.n_segments = int(file.attrs["segments"])
        stored = [parts[f"segments/{name}"][: self.n_segments].tolist() for name in SEGMENT_FIELDS]
        self._forest = nest(list(zip(*stored, strict=True)), self._rows, self.cycles)
        lanes, kinds = self.tables["lanes"], read_texts(parts["tables/lane_kinds"])
        named = dict(enumerate(zip(lanes, kinds, strict=not self.partial)))
        if self.partial:  # tables may be newer than the last checkpoint, where all lanes have rows
            numbers = np.flatnonzero(self._rows.index.rows.any(axis=0)).tolist()
            named = {number: named[number] for number in numbers}
        self.lanes = dict(lane for number, lane in named.items() if number)
        by_kind = {kind: [n for n, k in self.lanes.items() if k == kind] for kind in LANES}
        self.engines, self.channels, self.tiles = (tuple(by_kind[kind]) for kind in LANES)
        self._tracks = {
            name: make_track(self._rows, lanes.index(name), self._forest, self.cycles)
            for name in self.lanes
        }
        self.figures: dict[str, Any] = {}
        self._totals: dict[str, Cycles] = {}
        self.served: dict[str, int] = {}
        if not self.partial:
            self._read_end(parts)
        self.totals = {name: cycles_by_cause(total) for name, total in self._totals.items()}

    def _read_end(self, parts: Parts) -> None:
        """Read the totals and figures, which only a finished run has."""
        self.figures = read_figures(self.path, parts["header/figures"][:].tobytes(), self.cycles)
        engines, channels = (
            [self.tables["lanes"][number] for number in parts[f"totals/{kind}"][:].tolist()]
            for kind in ("engine", "channel")
        )
        causes = len(self.tables["causes"])
        cycles = np.zeros((len(engines), len(CAUSES)), np.int64)
        cycles[:, :causes] = parts["totals/cycles"][:]
        self._totals = dict(zip(engines, cycles, strict=True))
        self.served = dict(zip(channels, parts["totals/served"][:].tolist(), strict=True))

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a trace, as ``TraceReader(path)`` does."""
        return cls(path)

    def close(self) -> None:
        """Close the file."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def events(
        self,
        start: int = 0,
        end: int | None = None,
        lane: str | Iterable[str] = "engine",
        *,
        at_most: int = MAX_EVENTS,
    ) -> Events:
        """Return the events of some lanes between the cycles ``start`` and ``end``.

        ``lane``: names of lanes, or kinds (``engine``, ``channel``, ``tile``) for all of a kind.
        Returns a structured array of type ``EVENT``, by start cycle and lane number. Events that
        overlap the window are whole, not clipped to it. They are those of a run without
        fast-forward, but neighbours of one activity are always one event. ``decode`` replaces
        numbers by texts.

        Raises:
            TraceError: no such lane.
            WindowTooLargeError: the window has more than ``at_most`` rows before neighbours are
                joined. They are counted without being expanded.
        """
        end = self.cycles if end is None else end
        tracks = [self._tracks[name] for name in self.lanes_of(lane)]
        n_rows = questions.count_rows(tracks, start, end)
        if n_rows > at_most:
            fitting = questions.fitting_end(tracks, start, end, at_most)
            raise WindowTooLargeError(self.path, n_rows, (start, end), fitting, at_most)
        rows = np.concatenate([NOTHING, *(questions.window(track, start, end) for track in tracks)])
        return rows[np.lexsort((rows["lane"], rows["start"]))]

    def lanes_of(self, names: str | Iterable[str]) -> dict[str, str]:
        """Return the kind of each lane by name, in the order of the trace.

        ``names``: names of lanes, or kinds for all of a kind.

        Raises:
            TraceError: no such lane.
        """
        names = {names} if isinstance(names, str) else {*names}
        known = (*LANES, *self.lanes)
        for name in sorted(names - {*known}):
            raise self._refusal(f"no lane {name!r}", suggest(name, known))
        return {lane: kind for lane, kind in self.lanes.items() if {lane, kind} & names}

    def track(self, lane: str) -> ChainTrack:
        """Return a lane's rows as they are stored: a tree of leaves and repeats.

        Raises:
            TraceError: no such lane.
        """
        return self._tracks[self._require_known(lane, tuple(self.lanes))]

    def decode(self, events: Events) -> list[Event]:
        """Return events with texts in place of numbers."""
        return decode(events, self.tables, self.header.sites)

    def frame(
        self,
        start: int = 0,
        end: int | None = None,
        lane: str | Iterable[str] = "engine",
        *,
        at_most: int = MAX_FRAME_ROWS,
    ) -> Any:  # noqa: ANN401 - pandas is optional
        """Return the events of a window as a ``pandas.DataFrame``, one row each.

        Repeated periods are expanded, so plain sums are those of the run. ``cycles`` counts those
        of the event within the window; ``start`` and ``end`` are the event's own. Further columns
        depend on the kind of lane. Engines have ``engine``, ``operator``, ``command``, ``site``,
        ``cause``, and of the direct wait ``tile``, ``kind`` and ``waits_for``; channels have
        ``channel``, ``cause`` and ``served``; tiles have ``tile`` and ``held``. A frame of several
        kinds has all of these, with ``lane`` and ``lane_kind``.

        Raises:
            ImportError: pandas is not installed.
            TraceError: as for ``events``, or the window is no part of the run.
        """
        within = self.require_window(start, end)
        return frame(self.columns(self.events(*within, lane, at_most=at_most), within))

    def columns(self, events: Events, within: tuple[int, int]) -> Columns:
        """Return events as columns of a table; ``cycles`` are those within a window."""
        return columns(events, self.tables, self.header.sites, self.lanes, within)

    def check(self, *, accounts: bool = False) -> None:
        """Verify that each engine's busy + stalls + idle cycles equal the length of the run.

        Rows and segments must also tile the run without gap or overlap in every lane, and their
        sums must equal those that the run itself counted. Nothing is expanded. With ``accounts``
        the sums that ``account`` needs are made in the same pass.

        Raises:
            TraceError: a check fails; the message names lanes and cycles.
        """
        engines = {self.tables["lanes"].index(name) for name in self.engines if accounts}
        sum_rows(self._tracks.values(), self.cycles, engines)
        faults = [
            f"{name}: {fault}"
            for name, track in self._tracks.items()
            for fault in self._faults(name, track)
        ]
        if faults:
            more = f" and {len(faults) - _SHOWN_FAULTS} more" * (len(faults) > _SHOWN_FAULTS)
            raise damaged_error(self.path, "; ".join(faults[:_SHOWN_FAULTS]) + more)

    def _faults(self, name: str, track: ChainTrack) -> list[str]:
        counted = dict(zip(CAUSES, self._totals.get(name, np.zeros(0)).tolist(), strict=False))
        if name in self.served:
            counted["served"] = self.served[name]
        known = counted or self.partial or self.lanes[name] == "tile"
        without = [] if known else ["has rows and no total"]
        return [*lane_faults(track, self.cycles, counted), *without]

    def utilisation(
        self,
        bins: int | None = None,
        bin_cycles: int | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> questions.UtilisationSeries:
        """Return cycles by engine, cause and bin: exact integers, without expanding segments.

        Either ``bins``, their number (none is shorter than a cycle), or ``bin_cycles``, the length
        of each (the last may be shorter).

        Raises:
            TraceError: both or neither of these are given, or one is out of range.
        """
        edges = self._edges(bins, bin_cycles, start, end)
        return questions.utilisation(self._of_kind("engine"), edges)

    def bandwidth(
        self,
        bins: int | None = None,
        bin_cycles: int | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> questions.BandwidthSeries:
        """Return cycles of service and bytes by channel and bin; bins as for ``utilisation``."""
        edges = self._edges(bins, bin_cycles, start, end)
        accelerator = self.accelerator()
        moved = questions.bytes_by_resource(self.figures, accelerator)
        tracks = self._of_kind("channel")
        return questions.bandwidth(tracks, edges, channel_rates(accelerator, tracks), moved)

    def occupancy(
        self,
        bins: int | None = None,
        bin_cycles: int | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> questions.OccupancySeries:
        """Return the mean bytes that each tile holds by bin; bins as for ``utilisation``."""
        return questions.occupancy(self._of_kind("tile"), self._edges(bins, bin_cycles, start, end))

    def _of_kind(self, kind: str) -> dict[str, ChainTrack]:
        return {name: track for name, track in self._tracks.items() if self.lanes[name] == kind}

    def require_window(self, start: int, end: int | None) -> tuple[int, int]:
        """Return a window as two cycles; None stands for the end of the run.

        Raises:
            TraceError: it is empty or exceeds the run.
        """
        end = self.cycles if end is None else end
        whole = all(isinstance(cycle, int | np.integer) for cycle in (start, end))
        if not (whole and 0 <= start < end <= self.cycles):
            raise self._refusal(f"cycles {start} to {end}", f"a part of cycles 0 to {self.cycles}")
        return start, end

    def _edges(
        self, bins: int | None, bin_cycles: int | None, start: int, end: int | None
    ) -> Cycles:
        start, end = self.require_window(start, end)
        length = end - start
        least_cycles = -(-length // MAX_BINS)
        if bins is not None and bin_cycles is None and 0 < bins <= MAX_BINS:
            bins = min(bins, length)
            edges = [start + at * length // bins for at in range(bins + 1)]
        elif bin_cycles is not None and bins is None and bin_cycles >= least_cycles:
            edges = [*range(start, end, bin_cycles), end]
        else:
            allowed = f"1 to {MAX_BINS} bins, or bins of at least {least_cycles} cycles"
            raise self._refusal(f"{bins} bins, bins of {bin_cycles} cycles", allowed)
        return np.array(edges, dtype=np.int64)

    def account(
        self,
        by: Sequence[str] = ("engine", "operator", "cause"),
        start: int = 0,
        end: int | None = None,
        *,
        stalled: bool = False,
    ) -> list[questions.Stall]:
        """Return all cycles of the engines in a window (or those ``stalled``), largest sum first.

        ``by``: fields to sum by: ``engine``, ``operator``, ``site``, ``cause`` (``busy``, ``idle``
        or the root cause of a stall), and of the direct wait ``tile``, ``kind`` and ``waits_for``,
        the engine that holds the tile. Segments are not expanded.

        Raises:
            TraceError: ``by`` has an unknown field, or the window is not a part of the run.
        """
        for name in by:
            self._require_known(name, questions.BY)
        within = self.require_window(start, end) if self.cycles else (0, 0)
        engines, sites = self._of_kind("engine"), self.header.sites
        return questions.account(engines, self.tables, sites, by, within, stalled=stalled)

    def stalls(
        self,
        by: Sequence[str] = ("engine", "operator", "cause"),
        start: int = 0,
        end: int | None = None,
    ) -> list[questions.Stall]:
        """Return the stalled cycles in a window, largest sum first; ``by`` as for ``account``."""
        return self.account(by, start, end, stalled=True)

    def segments(self) -> list[RepeatedSegment]:
        """Return the repeated segments in order of time; inner ones are their children."""
        return stretches(self._forest, self._rows)

    def _require_known(self, name: str, choices: Sequence[str]) -> str:
        if name not in choices:
            raise self._refusal(f"no {name!r}", suggest(name, choices))
        return name

    def _refusal(self, problem: str, allowed: str) -> TraceError:
        return TraceError(self.path, problem, allowed)
