"""The trace reader: opens a file, and answers questions about it without unrolling segments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np

from simaccel.errors import suggest
from simaccel.machine.machine import EngineCycles
from simaccel.trace.forest import make_track, nest
from simaccel.trace.questions import BY, Stall, Utilisation, stalls, utilisation, window
from simaccel.trace.rows import Rows, damaged, reading
from simaccel.trace.schema import (
    CAUSES,
    FORMAT,
    SCHEMA_VERSION,
    SEGMENT_FIELDS,
    TABLES,
    TEXTS,
    Cycles,
    Events,
    Site,
    TraceError,
    TraceHeader,
    WindowTooLargeError,
)
from simaccel.trace.store import BlockIndex, File
from simaccel.trace.track import NOTHING, Chain, TooManyEventsError

MAX_EVENTS = 10_000_000
MAX_BINS = 100_000
_SHOWN_FAULTS = 5


@dataclass(frozen=True)
class Event:
    """One event with its names: what an engine did from ``start`` up to, not including, ``end``."""

    engine: str
    start: int
    end: int
    cause: str
    tile: str
    kind: str
    waits_for: str
    site: int
    operator: str
    command: str


class Trace:
    """An open trace. Use ``Trace.open``; a context manager that closes the file.

    Attributes:
        header: what reproduces the run.
        cycles: length of the run.
        engines: names of the engines.
        figures: the run's figures as its writer gave them.
        totals: each engine's cycles as the run counted them; ``check`` compares the rows.
        tables: texts by number, for the columns of ``events``.
        n_rows: stored rows; ``n_segments``: stored segments.

    """

    def __init__(self, path: Path, file: File) -> None:
        self.path = path
        self._file = file
        _require_trace(path, file.attrs)
        self.cycles = int(file.attrs["cycles"])
        self.header = _header(file)
        self.figures: dict[str, Any] = json.loads(_texts(file["header/figures"])[0])
        self.tables = {name: _texts(file["tables"][name]) for name in TABLES}
        if self.tables["causes"] != list(CAUSES):
            raise damaged(path, f"causes {self.tables['causes']}")
        limits = [len(self.tables[t]) for t in ("engines", "engines", "tiles", "kinds", "causes")]
        index = BlockIndex(*(file["index"][n][:] for n in ("rows", "first_start", "last_end")))
        self._rows = Rows(path, file, index, tuple(limits))
        self.n_rows = self._rows.n_rows
        stored = [file["segments"][name][:].tolist() for name in SEGMENT_FIELDS]
        self.n_segments = len(stored[0])
        self._forest = nest(list(zip(*stored, strict=True)), self._rows, self.cycles)
        numbers = file["totals/engine"][:].tolist()
        names = [self.tables["engines"][n] for n in numbers]
        self.engines = tuple(names)
        self._totals: Cycles = file["totals/cycles"][:]
        self.totals = {n: _cycles(t) for n, t in zip(names, self._totals, strict=True)}
        self._tracks = {
            name: make_track(self._rows, number, self._forest, self.cycles)
            for name, number in zip(names, numbers, strict=True)
        }

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a trace.

        Raises:
            TraceError: there is no such file, or it is no complete, undamaged trace of this
                schema version.

        """
        path = Path(path)
        if not path.is_file():
            problem = "is a folder" if path.is_dir() else "no such file"
            raise TraceError(path, problem, "a trace file")
        with reading(path):
            if not h5py.is_hdf5(path):
                raise TraceError(path, "is not an HDF5 file", "a trace file")
            file = h5py.File(path, "r")
            try:
                return cls(path, file)
            except BaseException:
                file.close()
                raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

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
        engine: str | None = None,
        *,
        at_most: int = MAX_EVENTS,
    ) -> Events:
        """Give the events that overlap the cycles from ``start`` up to ``end``.

        They are whole, not clipped to the window, ordered by start cycle and engine number,
        and as a run without fast-forward would have written them, except that neighbours
        that are the same activity are always one event. ``tables`` has the texts of the
        numbers; ``decode`` puts them in.

        Raises:
            TraceError: no such engine.
            WindowTooLargeError: the window holds more than ``at_most`` events.

        """
        end = self.cycles if end is None else end
        names = self.engines if engine is None else [self._known(engine, self.engines)]
        parts = [NOTHING]
        try:
            for name in names:
                parts.append(window(self._tracks[name], start, end, at_most))
                at_most -= len(parts[-1])
        except TooManyEventsError:
            problem = f"too many events in cycles {start} to {end}"
            allowed = "a smaller window, or a larger at_most"
            raise WindowTooLargeError(self.path, problem, allowed) from None
        rows = np.concatenate(parts)
        return rows[np.lexsort((rows["engine"], rows["start"]))]

    def decode(self, events: Events) -> list[Event]:
        """Put the texts in for the numbers."""
        engines, tiles, kinds, causes = (self.tables[name] for name in TABLES)
        nowhere = Site("", "")
        decoded = []
        for number, start, end, cause, tile, kind, waits_for, site in events.tolist():
            place = self.header.sites.get(site, nowhere)
            what = causes[cause], tiles[tile], kinds[kind], engines[waits_for]
            where = site, place.operator, place.command
            decoded.append(Event(engines[number], start, end, *what, *where))
        return decoded

    def check(self) -> None:
        """Verify that each engine's busy + stalls + idle cycles equal the length of the run.

        Nothing is expanded: the sums follow from rows and segments, which must tile the run
        without gap or overlap, and must equal what the run itself counted.

        Raises:
            TraceError: they don't; the message names engines and cycles.

        """
        faults = [
            f"{name}: {fault}"
            for (name, track), totals in zip(self._tracks.items(), self._totals, strict=True)
            for fault in _track_faults(track, totals, self.cycles)
        ]
        with_rows = np.flatnonzero(self._rows.index.rows.sum(axis=0)).tolist()
        strangers = {self.tables["engines"][number] for number in with_rows} - {*self.engines}
        faults += [f"{name}: has rows and no total" for name in sorted(strangers)]
        if faults:
            more = f" and {len(faults) - _SHOWN_FAULTS} more" * (len(faults) > _SHOWN_FAULTS)
            raise damaged(self.path, "; ".join(faults[:_SHOWN_FAULTS]) + more)

    def utilisation(
        self,
        bins: int | None = None,
        bin_cycles: int | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> Utilisation:
        """Count cycles by engine, cause and bin: exact integers, without expanding segments.

        Give the number of ``bins`` (but none is shorter than a cycle), or the cycles of each
        (the last may be shorter).

        Raises:
            TraceError: not exactly one of both is given, or it is out of range.

        """
        end = self.cycles if end is None else end
        length = end - start
        if not 0 <= start < end <= self.cycles:
            raise self._refused(f"cycles {start} to {end}", f"a part of cycles 0 to {self.cycles}")
        least_cycles = -(-length // MAX_BINS)
        if bins is not None and bin_cycles is None and 0 < bins <= MAX_BINS:
            bins = min(bins, length)
            edges = [start + at * length // bins for at in range(bins + 1)]
        elif bin_cycles is not None and bins is None and bin_cycles >= least_cycles:
            edges = [*range(start, end, bin_cycles), end]
        else:
            allowed = f"1 to {MAX_BINS} bins, or bins of at least {least_cycles} cycles"
            raise self._refused(f"{bins} bins, bins of {bin_cycles} cycles", allowed)
        return utilisation(self._tracks, edges)

    def stalls(self, by: Sequence[str] = ("engine", "operator", "cause")) -> list[Stall]:
        """Sum the stalled cycles, the largest sum first, without expanding segments.

        ``by`` names what to sum by: ``engine``, ``operator``, the root ``cause``, and of the
        direct wait the ``tile``, the ``kind`` and ``waits_for``, the engine that holds it.

        Raises:
            TraceError: ``by`` names something else.

        """
        for name in by:
            self._known(name, BY)
        return stalls(self._tracks, self.tables, self.header.sites, by)

    def _known(self, name: str, choices: Sequence[str]) -> str:
        if name not in choices:
            raise self._refused(f"no {name!r}", suggest(name, choices))
        return name

    def _refused(self, problem: str, allowed: str) -> TraceError:
        return TraceError(self.path, problem, allowed)


def _require_trace(path: Path, attributes: Any) -> None:  # noqa: ANN401 - h5py has no types
    """Refuse other files, other versions and partial traces."""
    if attributes.get("format") != FORMAT or "schema_version" not in attributes:
        raise TraceError(path, "is an HDF5 file but no trace", "a trace file")
    version = attributes["schema_version"]
    if version != SCHEMA_VERSION:
        age = "a newer" if version > SCHEMA_VERSION else "an older"
        problem = f"has schema version {version}, of {age} simaccel"
        raise TraceError(path, problem, f"schema version {SCHEMA_VERSION}")
    if not attributes["complete"]:
        raise TraceError(path, "is partial: its run did not end", "a complete trace")


def _texts(dataset: Any) -> list[str]:  # noqa: ANN401 - h5py has no types
    return [str(text) for text in dataset.asstr()[:]]


def _header(file: File) -> TraceHeader:
    sites = file["sites"]
    places = map(Site, _texts(sites["operator"]), _texts(sites["command"]))
    return TraceHeader(
        **{name: _texts(file["header"][name])[0] for name in TEXTS},
        seed=int(file.attrs["seed"]),
        sites=dict(zip(sites["site"][:].tolist(), places, strict=True)),
    )


def _cycles(total: Cycles) -> EngineCycles:
    by_cause = {cause: n for cause, n in zip(CAUSES, total.tolist(), strict=True) if n}
    busy, idle = by_cause.pop("busy", 0), by_cause.pop("idle", 0)
    return EngineCycles(busy, idle, by_cause)


def _track_faults(track: Chain, totals: Cycles, cycles: int) -> list[str]:
    faults = list(track.faults())
    if (track.start, track.end) != (0, cycles):
        faults.append(f"its rows go from cycle {track.start} to {track.end}, not 0 to {cycles}")
    if track.total.sum() != cycles:
        faults.append(f"busy + stalls + idle = {track.total.sum()}, not {cycles}")
    for cause, found, total in zip(CAUSES, track.total.tolist(), totals.tolist(), strict=True):
        if found != total:
            faults.append(f"its rows have {found} cycles of {cause}, the run counted {total}")
    return faults
