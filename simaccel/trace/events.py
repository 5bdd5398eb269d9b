"""Events with their names instead of numbers: as objects, and as a table for pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
_NUMBERS = ("held", "served")
_OF_KIND = {
    "engine": ("operator", "command", "site", "cause", "tile", "kind", "waits_for"),
    "channel": ("cause", "served"),
    "tile": ("held",),
}
"""Columns that apply to a kind of lane, besides its name and cycles."""


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


COLUMNS = (*(field.name for field in fields(Event)), "lane_kind", "cycles")
"""Columns of a table with lanes of several kinds."""


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


class NamedColumn(NamedTuple):
    """A column with few distinct texts: for each row the number of its text."""

    numbers: npt.NDArray[np.int32]
    texts: list[str]


Columns = Mapping[str, NamedColumn | npt.NDArray[Any]]
"""A table of events by the names of its columns: the fields of ``Event``, and two more."""


def columns(
    events: Events,
    tables: Mapping[str, Sequence[str]],
    sites: Mapping[int, CommandSite],
    lanes: Mapping[str, str],
    within: tuple[int, int],
) -> Columns:
    """Return events as columns; ``cycles`` counts those within the window.

    ``lanes``: kind of each lane by name.
    """
    by_name: dict[str, Any] = {name: events[name] for name in ("start", "end", "site", *_NUMBERS)}
    for name, (column, table) in _CODED.items():
        by_name[name] = _name_numbers(events[column], tables[table])
    kinds = [lanes.get(lane, "") for lane in tables["lanes"]]
    by_name["lane_kind"] = _name_numbers(events["lane"], kinds)
    numbers, at = np.unique(events["site"], return_inverse=True)
    known = [sites.get(number, _NOWHERE) for number in numbers.tolist()]
    for name in ("operator", "command"):
        by_name[name] = _name_numbers(at, [getattr(site, name) for site in known])
    start, end = within
    by_name["cycles"] = np.minimum(events["end"], end) - np.maximum(events["start"], start)
    return {name: by_name[name] for name in COLUMNS}


def _name_numbers(numbers: npt.NDArray[Any], names: Sequence[str]) -> NamedColumn:
    """Return a column of names from their numbers, without names that no row has."""
    used = np.bincount(numbers, minlength=len(names)).astype(bool).tolist()
    texts = dict.fromkeys(name for name, is_used in zip(names, used, strict=True) if is_used)
    places = {text: at for at, text in enumerate(texts)}
    place_of = np.array([places.get(name, 0) for name in names], dtype=np.int32)
    return NamedColumn(place_of[numbers], list(texts))


def frame(by_name: Columns) -> Any:  # noqa: ANN401 - pandas is optional
    """Return columns as a ``pandas.DataFrame``; without those that its kind of lane lacks.

    Raises:
        ImportError: pandas is not installed.
    """
    import pandas as pd  # noqa: PLC0415 - optional

    table = pd.DataFrame(
        {
            name: pd.Categorical.from_codes(column.numbers, pd.Index(column.texts, dtype=str))
            if isinstance(column, NamedColumn)
            else column
            for name, column in by_name.items()
        }
    )
    kinds = list(table["lane_kind"].cat.categories)
    if len(kinds) != 1:
        return table
    own = table[["lane", *_OF_KIND[kinds[0]], "start", "end", "cycles"]]
    return own.rename(columns={"lane": kinds[0]})
