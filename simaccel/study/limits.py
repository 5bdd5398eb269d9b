"""Limits of figures, as text such as ``area_mm2<=16``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware.quantity import parse_quantity
from simaccel.study.figure_table import FIGURES

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
    try:
        number = float(text)
    except ValueError:
        try:
            return parse_quantity(text, "B") if name.endswith("_bytes") else None
        except ValueError:
            return None
    return number if math.isfinite(number) else None
