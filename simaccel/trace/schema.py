"""The schema of a trace file: names, types, units and version. ``traces/README.md`` explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simaccel.trace.guard import TraceError
from simaccel.units import Cause

SCHEMA_VERSION: Final = 3
"""Version of the schema; raised whenever a reader of the one before would misread a file."""
OPENED: Final = (2, SCHEMA_VERSION)
"""Versions that the reader opens; of version 2 it reads rows, but not mapping and program."""
LIBVER: Final = ("v110", "v110")
"""The HDF5 file format, fixed so that the bytes don't depend on the library's version."""
BLOCK_ROWS: Final = 16_384
"""Rows of one compressed block (an HDF5 chunk of each column)."""

EVENT: Final = np.dtype(
    [
        ("lane", "<u2"),
        ("start", "<i8"),
        ("end", "<i8"),
        ("cause", "<u1"),
        ("wait_tile", "<u4"),
        ("wait_kind", "<u1"),
        ("wait_engine", "<u2"),
        ("site", "<i4"),
        ("held", "<i8"),
        ("served", "<i8"),
    ]
)
"""One event of a lane, from cycle ``start`` up to, not including, ``end``.

Engines have a cause, a wait and a site. Channels are busy or idle, with the cycles of service
``served``. Tiles are busy or idle, with the bytes ``held`` by their slots.
"""
ROW: Final = Struct("<HqqBIBHiqq")
"""One event as bytes: the fields of ``EVENT``, one after the other."""
USE: Final = Struct("<HqqB19xqHqqB27x")
"""Two events of a channel as bytes: a use and the pause after it; other fields are zero."""
COLUMNS: Final = EVENT.names or ()
KEY: Final = ("cause", "wait_tile", "wait_kind", "wait_engine", "site", "held")
"""Columns that make an activity: two intervals that agree in them are one."""
SEGMENT_FIELDS: Final = ("first_row", "end_row", "period_cycles", "repeats")
TABLES: Final = ("lanes", "tiles", "kinds", "causes")
"""Interned texts; entry 0 of the first three is the empty text: none."""
TEXTS: Final = ("accelerator", "workload", "mapping", "program", "version")
"""Parts of the header that are texts."""
LANES: Final = ("engine", "channel", "tile")
"""Kinds of lanes."""
CAUSES: Final = tuple(cause.name.lower() for cause in Cause)

MEASURES: Final = (*CAUSES, "served", "held")
"""Quantities that are summed over time: cycles by cause, cycles of service, bytes x cycles held."""
SERVED: Final = MEASURES.index("served")
HELD: Final = MEASURES.index("held")

Measures = npt.NDArray[Any]
"""Sums; the last axis is ``MEASURES``. Integers; of tiles floats, as bytes x cycles are large."""
Events = npt.NDArray[Any]
"""A structured array of type ``EVENT``."""
Cycles = npt.NDArray[np.int64]


class WindowTooLargeError(TraceError):
    """A window of a trace holds more rows than the caller wants."""

    def __init__(
        self, path: Path, n_rows: int, window: tuple[int, int], fitting: int, at_most: int
    ) -> None:
        """Take the number of rows, and the cycle ``fitting`` up to which they would fit."""
        self.fitting = fitting
        start, end = window
        problem = f"{n_rows:,} rows in cycles {start:,} to {end:,}, more than {at_most:,}"
        fewer = f"--from {start} --to {fitting} (start={start}, end={fitting}), or "
        allowed = f"a larger --at-most (at_most) than {at_most}"
        super().__init__(path, problem, fewer * (start < fitting) + allowed)


@dataclass(frozen=True)
class CommandSite:
    """A place in the program: an operator and the text of its command.

    An empty command is the end of the operator, where engines wait for each other.
    """

    operator: str
    command: str


@dataclass(frozen=True, kw_only=True)
class TraceHeader:
    """The texts that reproduce a run, as simaccel reads them.

    ``code``: digest of the sources that ran; with equal sources results can be reused.
    """

    accelerator: str = ""
    workload: str = ""
    mapping: str = ""
    program: str = ""
    version: str = ""
    code: str = ""
    seed: int = 0
    sites: Mapping[int, CommandSite] = field(default_factory=dict)


def same_activity(a: Events, b: Events) -> npt.NDArray[np.bool_]:
    """Return, row by row, whether two arrays of events have the same activity (``KEY``)."""
    same = np.ones(len(a), dtype=np.bool_)
    for column in KEY:
        same &= a[column] == b[column]
    return same


def merge_rows(rows: Events) -> Events:
    """Return rows of one lane, in order of time, with adjacent rows of one activity joined."""
    if len(rows) == 0:
        return rows
    before, after = rows[:-1], rows[1:]
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = ~(same_activity(before, after) & (before["end"] == after["start"]))
    out = rows[new].copy()
    first = np.flatnonzero(new)
    out["end"] = rows["end"][np.append(first[1:] - 1, len(rows) - 1)]
    out["served"] = np.add.reduceat(rows["served"], first)
    return out


IN_PES: Final = "tile pe."
"""Prefix of the names of tiles in the memories of PEs, which take no bytes of the buffer."""


TEXT: Final = "text"
ONCE: Final = "once; repeats in segments"
"""Attribute ``stored`` of datasets whose plain sum is not the run's."""
FULL: Final = "in full"
_OF_ROWS: Final = ("events", "index")
_I8, _I4, _U2, _U1 = (np.dtype(kind) for kind in ("<i8", "<i4", "<u2", "<u1"))

READ_ME: Final = (
    "Rows of periods that repeat are stored once, so a plain sum over events is not that of the"
    " run: multiply each row by (repeats + 1) of every segment from first_row up to end_row that"
    " contains it, or take the run's own sums (totals), or let simaccel write each event as a row"
    " (Trace.frame(), simaccel trace export --format parquet)."
)
"""The note at the root of the file."""

GROUPS: Final[Mapping[str, str]] = {
    "header": "what the run can be repeated from, and its figures",
    "sites": "places in the program",
    "events": "what each lane does, one row for each interval",
    "segments": "stretches of rows that happen several times",
    "tables": "names for the numbers in events",
    "index": "rows of each lane in each block of events",
    "totals": "cycles of the whole run as the machine counted them",
}


@dataclass(frozen=True)
class TracePart:
    """A dataset: its type (or `TEXT`), its unit, its meaning.

    ``at_end``: only a run that ended has it.
    """

    kind: Any
    units: str
    meaning: str
    dimensions: int = 1
    at_end: bool = False


def _text(meaning: str) -> TracePart:
    return TracePart(TEXT, "text", meaning)


def _column(name: str, units: str, meaning: str) -> TracePart:
    return TracePart(EVENT[name], units, meaning)


PARTS: Final[Mapping[str, TracePart]] = {
    "header/accelerator": _text("the accelerator (YAML)"),
    "header/workload": _text("the workload (YAML)"),
    "header/mapping": _text("the mapping (YAML)"),
    "header/program": _text("the program, in its text form"),
    "header/version": _text("version of simaccel"),
    "header/figures": TracePart(_U1, "bytes of UTF-8", "the run's figures (JSON)", at_end=True),
    "sites/site": TracePart(_I4, "number of a site", "the number in events/site"),
    "sites/operator": _text("the operator that the site belongs to"),
    "sites/command": _text("its command; empty at the end of an operator"),
    "tables/lanes": _text("names of lanes; 0 is none"),
    "tables/tiles": _text("names of tiles; 0 is none"),
    "tables/kinds": _text("kinds of direct waits; 0 is none"),
    "tables/causes": _text("busy, idle, and the causes of stalls"),
    "tables/lane_kinds": _text("engine, channel or tile, for each lane"),
    "segments/first_row": TracePart(_I8, "row of events", "first row of what repeats"),
    "segments/end_row": TracePart(_I8, "row of events", "row after the last"),
    "segments/period_cycles": TracePart(_I8, "cycles", "from one time to the next"),
    "segments/repeats": TracePart(_I8, "times", "how often they happen again, after the first"),
    "index/rows": TracePart(_I8, "rows", "stored rows by block and lane", 2),
    "index/first_start": TracePart(_I8, "cycles", "first cycle by block and lane", 2),
    "index/last_end": TracePart(_I8, "cycles", "cycle after the last, by block and lane", 2),
    "events/lane": _column("lane", "number in tables/lanes", "whose interval it is"),
    "events/start": _column("start", "cycles", "first cycle"),
    "events/end": _column("end", "cycles", "cycle after the last one"),
    "events/cause": _column(
        "cause", "number in tables/causes", "busy, idle, or the root cause of a stall"
    ),
    "events/wait_tile": _column(
        "wait_tile", "number in tables/tiles", "the direct wait: for which tile"
    ),
    "events/wait_kind": _column(
        "wait_kind", "number in tables/kinds", "the direct wait: ready or a free slot"
    ),
    "events/wait_engine": _column(
        "wait_engine", "number in tables/lanes", "the direct wait: for which engine"
    ),
    "events/site": _column("site", "number in sites/site", "place in the program"),
    "events/held": _column("held", "bytes", "of a tile: what its slots hold"),
    "events/served": _column("served", "cycles", "of a channel: its service in the interval"),
    "totals/engine": TracePart(_U2, "number in tables/lanes", "the engine", at_end=True),
    "totals/cycles": TracePart(_I8, "cycles", "by engine and cause", 2, at_end=True),
    "totals/channel": TracePart(_U2, "number in tables/lanes", "the channel", at_end=True),
    "totals/served": TracePart(_I8, "cycles", "of service, by channel", at_end=True),
}
"""All datasets by ``group/name``."""


def descriptions() -> Mapping[str, Mapping[str, str]]:
    """Return the attributes that describe each group and dataset, by their names."""
    found = {name: {"meaning": meaning} for name, meaning in GROUPS.items()}
    found |= {name: {"units": part.units, "meaning": part.meaning} for name, part in PARTS.items()}
    for name, attributes in found.items():
        attributes["stored"] = ONCE if name.partition("/")[0] in _OF_ROWS else FULL
    return found
