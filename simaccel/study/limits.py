"""Limits of figures, as they are written: ``area_mm2<=16``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware.quantity import parse_quantity
from simaccel.workload import CLASSES

DRAM_FIGURES: Final = (
    "dram_bytes",
    "dram_read_bytes",
    "dram_write_bytes",
    *(f"dram_{name}_bytes" for name in CLASSES),
    "dram_bound_bytes",
    "dram_compulsory_bytes",
)
"""DRAM bytes: all, by way, by class of tensors, and what a design moves at least."""
TOKEN_FIGURES: Final = (
    "first_token_seconds",
    "token_seconds",
    "tokens_per_second",
    "tokens_per_second_per_chip",
    "tokens_per_second_per_user",
    "energy_per_token_pj",
)
"""Figures of runs with tokens (or images); the times are those of whole transformers."""
FIGURES: Final = (
    "cycles",
    "bound_cycles",
    "seconds",
    "energy_pj",
    "edp_js",
    "area_mm2",
    "power_mw",
    "chip_power_mw",
    "footprint_bytes",
    *DRAM_FIGURES,
    "utilisation",
    "resident_bytes",
    "memory_share",
    *TOKEN_FIGURES,
)
"""Figures of designs, by name, with the unit in it."""
_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_LIMIT: Final = re.compile(r"\s*([a-z0-9_]+)\s*(<=|>=|<|>)\s*(.+?)\s*")


@dataclass(frozen=True)
class FigureLimit:
    """A figure that must be so large or so small; what is unknown is never within a limit."""

    figure: str
    sign: str
    value: float

    def __str__(self) -> str:
        """Write it as it is given."""
        return f"{self.figure}{self.sign}{self.value:g}"

    def holds(self, figures: Mapping[str, float | int | None]) -> bool:
        """Return whether figures are within the limit."""
        found = figures[self.figure]
        return found is not None and _OPERATORS[self.sign](found, self.value)


def read_limit(text: str) -> FigureLimit:
    """Read a limit, such as ``area_mm2<=16`` or ``footprint_bytes<=1MiB``.

    Raises:
        InputError: it is none, or of a figure that isn't.

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
    try:
        number = float(text)
    except ValueError:
        try:
            return parse_quantity(text, "B") if name.endswith("_bytes") else None
        except ValueError:
            return None
    return number if math.isfinite(number) else None
