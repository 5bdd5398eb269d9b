"""The schema of a trace file: names, types and version. ``traces/README.md`` explains it."""

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
