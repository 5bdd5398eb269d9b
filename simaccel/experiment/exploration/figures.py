"""Figures of designs: what is compared, limited and made small."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from simaccel.errors import Fault, InputError, suggest
from simaccel.experiment.exploration.runs import Record
from simaccel.experiment.exploration.space import Design
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_of, power_mw
from simaccel.hardware.quantity import parse_quantity

Figures = dict[str, float | int | None]
"""By name, with the unit in it; None is unknown."""
FIGURES: Final = (
    "cycles",
    "seconds",
    "energy_pj",
    "edp_js",
    "area_mm2",
    "power_mw",
    "chip_power_mw",
    "buffer_bytes",
    "dram_bytes",
    "utilisation",
)
OBJECTIVES: Final = {
    "cycles": "seconds",
    "energy": "energy_pj",
    "edp": "edp_js",
    "dram-bytes": "dram_bytes",
    "footprint": "buffer_bytes",
    "area": "area_mm2",
    "power": "power_mw",
}
"""What can be made small, and its figure; cycles are compared in seconds, as clocks may differ."""
FRONTIER: Final = ("seconds", "energy_pj", "area_mm2", "buffer_bytes")
"""What the Pareto frontier weighs against each other."""
_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_LIMIT: Final = re.compile(r"\s*([a-z0-9_]+)\s*(<=|>=|<|>)\s*(.+?)\s*")


def figures_of(design: Design, records: Sequence[Record]) -> Figures:
    """Sum up the workloads of a design, each as often as it counts; the buffer holds any of them.

    Powers are averages over all of them.
    """
    accelerator = design.accelerator
    weights = [load.weight for load in design.loads]

    def summed(name: str) -> float:
        return _sum((w * one[name] for w, one in zip(weights, records, strict=True)))

    energy: dict[str, float] = {}
    for weight, one in zip(weights, records, strict=True):
        for level, pj in one["energy_pj"].items():
            energy[level] = energy.get(level, 0.0) + weight * pj
    cycles, every = summed("cycles"), sum(energy.values())
    seconds = cycles / accelerator.clock_hz
    power = power_mw(energy, seconds)
    return {
        "cycles": cycles,
        "seconds": seconds,
        "energy_pj": every,
        "edp_js": every * 1e-12 * seconds,
        "area_mm2": area_of(accelerator).mm2,
        "power_mw": sum(power.values()),
        "chip_power_mw": sum(power.values()) - power.get("dram", 0.0),
        "buffer_bytes": max(one["buffer_bytes"] for one in records),
        "dram_bytes": summed("dram_bytes"),
        "utilisation": summed("macs") / accelerator.array.pes / cycles,
    }


def _sum(numbers: Iterable[float]) -> float:
    """Sum; whole numbers stay whole."""
    total = sum(numbers)
    return int(total) if total == int(total) else total


@dataclass(frozen=True)
class Limit:
    """A figure that must be so large or so small; what is unknown is never within a limit."""

    figure: str
    sign: str
    value: float

    def __str__(self) -> str:
        """Write it as it is given."""
        return f"{self.figure}{self.sign}{self.value:g}"

    def holds(self, figures: Mapping[str, float | int | None]) -> bool:
        """Say whether figures are within the limit."""
        found = figures[self.figure]
        return found is not None and _OPERATORS[self.sign](found, self.value)


def read_limit(text: str) -> Limit:
    """Read a limit, such as ``area_mm2<=16`` or ``buffer_bytes<=1MiB``.

    Raises:
        InputError: it is none, or of a figure that isn't.

    """
    found = _LIMIT.fullmatch(text)
    if found is None:
        allowed = "FIGURE<=NUMBER (or <, >=, >), as in area_mm2<=16"
        raise InputError([Fault("command line", "--where", text, allowed)])
    name, sign, value = found.groups()
    if name not in FIGURES:
        raise InputError([Fault("command line", "--where", name, suggest(name, FIGURES))])
    number = _number(value, name)
    if number is None:
        unit = ", perhaps with a unit (64 KiB)" if name.endswith("_bytes") else ""
        allowed = f"a number{unit} behind {name}{sign}"
        raise InputError([Fault("command line", "--where", value, allowed)])
    return Limit(name, sign, number)


def _number(text: str, name: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        try:
            return parse_quantity(text, "B") if name.endswith("_bytes") else None
        except ValueError:
            return None
    return number if math.isfinite(number) else None


def static_figures(accelerator: Accelerator) -> Figures:
    """Return what is known of a design before anything is run."""
    return {"area_mm2": area_of(accelerator).mm2}


def objective_of(figures: Mapping[str, float | int | None], objective: str) -> float:
    """Return what is made small; what is unknown is infinitely large."""
    found = figures[OBJECTIVES[objective]]
    return math.inf if found is None else float(found)


def frontier(designs: Sequence[Figures]) -> list[bool]:
    """Say which designs no other one is better than: as good in all of ``FRONTIER``, once better.

    What is unknown counts as infinitely large.
    """
    if not designs:
        return []
    table = np.array(
        [[math.inf if (v := one[name]) is None else v for name in FRONTIER] for one in designs]
    )
    order = np.lexsort(table.T[::-1])
    best: list[int] = []
    for at in order:
        kept = table[best] if best else table[:0]
        worse = (kept <= table[at]).all(axis=1) & (kept < table[at]).any(axis=1)
        if not worse.any():
            best.append(int(at))
    on = np.zeros(len(designs), dtype=bool)
    on[best] = True
    return [bool(one) for one in on]
