"""Figures of runs and designs: the names, unit and source of each, stated once."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware.quantity import parse_quantity
from simaccel.workload import CLASSES

Unit = Literal["count", "cycles", "s", "share", "B", "pJ", "Js", "mW", "mm2", "1/s"]


@dataclass(frozen=True)
class Figure:
    """A figure: its name in data (``column``), in tables (``heading``) and on axes (``label``).

    ``name``: in options, empty if none accepts it. ``path``: its place in a run as JSON
    (`result_json`), where a table is summed; empty if it is derived from other figures. Of several
    chips, energy, power, EDP, area and tokens are those of all chips, cycles and bytes those of
    each.
    """

    column: str
    unit: Unit
    heading: str
    name: str = ""
    label: str = ""
    path: str = ""

    @property
    def of_tokens(self) -> bool:
        """Whether only runs with tokens (or images) have it."""
        return "token" in self.column


def _dram(part: str, heading: str, path: str, name: str = "", label: str = "") -> Figure:
    return Figure(f"dram_{part}", "B", heading, name, label, path)


def _tokens(part: str, heading: str, label: str) -> Figure:
    name = f"tokens/s{heading}"
    return Figure(f"tokens_per_second{part}", "1/s", name, name, f"tokens per second{label}")


_ALL: Final = (
    Figure("cycles", "cycles", "cycles", "cycles", "cycles", "cycles"),
    Figure("bound_cycles", "cycles", "bound", path="bound.cycles"),
    Figure("seconds", "s", "time", "time", "time"),
    Figure("energy_pj", "pJ", "energy", "energy", "energy"),
    Figure("edp_js", "Js", "EDP", "edp", "energy-delay product"),
    Figure("area_mm2", "mm2", "area", "area", "area"),
    Figure("power_mw", "mW", "power", "power", "power"),
    Figure("chip_power_mw", "mW", "chip power"),
    Figure("footprint_bytes", "B", "footprint", "footprint", "buffer in use", "footprint_bytes"),
    _dram("bytes", "DRAM", "bytes.dram", "dram-bytes", "DRAM bytes"),
    _dram("read_bytes", "reads", "bytes.dram.read", "reads", "DRAM bytes read"),
    _dram("write_bytes", "writes", "bytes.dram.write", "writes", "DRAM bytes written"),
    *(
        _dram(f"{name}_bytes", name, f"dram_by_class.{name}", name, f"DRAM bytes of {name}")
        for name in CLASSES
    ),
    _dram("bound_bytes", "DRAM bound", "dram_bound.bound_bytes"),
    _dram("compulsory_bytes", "compulsory", "dram_bound.compulsory_bytes"),
    Figure("utilisation", "share", "util.", "utilisation", "utilisation"),
    Figure("resident_bytes", "B", "memory of a chip"),
    Figure("memory_share", "share", "memory", "fits", "memory in use"),
    Figure("first_token_seconds", "s", "first token"),
    Figure("token_seconds", "s", "per token"),
    _tokens("", "", ""),
    _tokens("_per_chip", "/chip", " of a chip"),
    _tokens("_per_user", "/user", " of a user"),
    Figure("energy_per_token_pj", "pJ", "energy/token", "energy/token", "energy per token"),
)
FIGURES: Final[Mapping[str, Figure]] = {figure.column: figure for figure in _ALL}
"""Figures by column, in the order of columns."""
METRICS: Final[Mapping[str, Figure]] = {figure.name: figure for figure in _ALL if figure.name}
"""Figures by the name that ``--metric`` takes."""
DRAM_FIGURES: Final = tuple(name for name in FIGURES if name.startswith("dram_"))
"""DRAM bytes: in total, by direction, by class of tensors, and the lower bound."""


ValuePath = str | Callable[[Any], Any]
"""Where a value is: keys or attributes, nested by dots (empty: all of it); or a function."""


def place_of(record: Any, place: ValuePath) -> Any:  # noqa: ANN401 - plain data of any form
    """Return the value at a place of a run as JSON, or of an object.

    >>> place_of({"bytes": {"dram": {"read": {"Q": 8}}}}, "bytes.dram.read")
    {'Q': 8}
    """
    if callable(place):
        return place(record)
    for name in place.split(".") if place else ():
        record = record[name] if isinstance(record, Mapping) else getattr(record, name)
    return record


def total_of(value: Any) -> Any:  # noqa: ANN401 - a number of any kind
    """Return a number; of a table of numbers or tables, their sum, None if one is unknown.

    >>> total_of({"read": {"Q": 8, "K": 3}, "write": {}}), total_of({"mac": 2, "dram": None})
    (11, None)
    """
    if not isinstance(value, Mapping):
        return value
    parts = [total_of(part) for part in value.values()]
    return None if None in parts else sum(parts)


def combine_tables(values: Sequence[Any], combine: Callable[[list[Any]], Any]) -> Any:  # noqa: ANN401
    """Return numbers combined; of tables of them a table, in which one that lacks a name has 0.

    >>> combine_tables([{"a": 3}, {"a": 5, "b": 4}], sum)
    {'a': 8, 'b': 4}
    """
    tables = [value for value in values if isinstance(value, Mapping)]
    if not tables:
        return combine([value or 0 for value in values])
    every = [value if isinstance(value, Mapping) else {} for value in values]
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: combine_tables([table.get(name) for table in every], combine) for name in names}


_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_LIMIT: Final = re.compile(r"\s*([a-z0-9_]+)\s*(<=|>=|<|>)\s*(.+?)\s*")


@dataclass(frozen=True)
class FigureLimit:
    """An upper or lower limit of a figure; an unknown figure is never within it."""

    figure: str
    sign: str
    value: float

    def __str__(self) -> str:
        """Return its text, which `read_limit` reads."""
        return f"{self.figure}{self.sign}{self.value:g}"

    def holds(self, figures: Mapping[str, float | int | None]) -> bool:
        """Return whether figures are within the limit."""
        value = figures[self.figure]
        return value is not None and _OPERATORS[self.sign](value, self.value)


def read_limit(text: str) -> FigureLimit:
    """Read a limit, such as ``area_mm2<=16`` or ``footprint_bytes<=1MiB``.

    Raises:
        InputError: the text is no limit, or the figure is unknown.
    """
    match = _LIMIT.fullmatch(text)
    if match is None:
        allowed = "FIGURE<=NUMBER (or <, >=, >), as in area_mm2<=16"
        raise InputError([Fault("command line", "--where", text, allowed)])
    name, sign, value = match.groups()
    if name not in FIGURES:
        raise InputError([Fault("command line", "--where", name, suggest(name, FIGURES))])
    number = _number(value, name)
    if number is None:
        unit = ", perhaps with a unit (64 KiB)" if name.endswith("_bytes") else ""
        allowed = f"a number{unit} after {name}{sign}"
        raise InputError([Fault("command line", "--where", value, allowed)])
    return FigureLimit(name, sign, number)


def _number(text: str, name: str) -> float | None:
    """Return the value of a limit of figure ``name``; None if it is not a finite number."""
    readers: tuple[Callable[[str], float], ...] = (float, partial(parse_quantity, kind="B"))
    for read in readers[: 1 + name.endswith("_bytes")]:
        with suppress(ValueError):
            number = read(text)
            return number if math.isfinite(number) else None
    return None
