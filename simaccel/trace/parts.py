"""The datasets of a trace file: type, unit and meaning of each, as its attributes state them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simaccel.trace.schema import EVENT

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
