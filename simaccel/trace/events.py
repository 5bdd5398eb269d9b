"""Events with their names instead of numbers: as objects, and as a table for pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from simaccel.trace.schema import TABLES, CommandSite, Events

_NOWHERE = CommandSite("", "")
_CODED = {
    "lane": ("lane", "lanes"),
    "cause": ("cause", "causes"),
    "tile": ("wait_tile", "tiles"),
    "kind": ("wait_kind", "kinds"),
    "waits_for": ("wait_engine", "lanes"),
}
"""For each field: the column of its number, and the table of its names."""


@dataclass(frozen=True)
class Event:
    """One event with its names: what a lane did from ``start`` up to, not including, ``end``."""

    lane: str
    start: int
    end: int
    cause: str
    tile: str
    kind: str
    waits_for: str
    site: int
    operator: str
    command: str
    held: int = 0
    served: int = 0


def decode(
    events: Events, tables: Mapping[str, Sequence[str]], sites: Mapping[int, CommandSite]
) -> list[Event]:
    """Return events with names in place of numbers."""
    lanes, tiles, kinds, causes = (tables[name] for name in TABLES)
    decoded = []
    for number, start, end, cause, tile, kind, waits_for, site, held, served in events.tolist():
        place = sites.get(site, _NOWHERE)
        what = causes[cause], tiles[tile], kinds[kind], lanes[waits_for]
        where = site, place.operator, place.command
        decoded.append(Event(lanes[number], start, end, *what, *where, held, served))
    return decoded


def frame(
    events: Events, tables: Mapping[str, Sequence[str]], sites: Mapping[int, CommandSite]
) -> Any:  # noqa: ANN401 - pandas is optional
    """Return the events as a ``pandas.DataFrame``: one column for each field of ``Event``.

    Raises:
        ImportError: pandas is not installed.

    """
    import pandas as pd  # noqa: PLC0415 - optional

    columns: dict[str, Any] = {n: events[n] for n in ("start", "end", "site", "held", "served")}
    for name, (column, table) in _CODED.items():
        texts = np.array(tables[table], dtype=object)
        columns[name] = pd.Categorical(texts[events[column]], categories=list(tables[table]))
    numbers, at = np.unique(events["site"], return_inverse=True)
    known = [sites.get(number, _NOWHERE) for number in numbers.tolist()]
    for name in ("operator", "command"):
        texts = np.array([getattr(site, name) for site in known], dtype=object)
        columns[name] = texts[at]
    return pd.DataFrame({field.name: columns[field.name] for field in fields(Event)})
