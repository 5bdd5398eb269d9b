"""Metrics of a run that a comparison may show as columns and draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from simaccel.report.units import (
    bytes_text,
    cycles_text,
    edp_text,
    power_text,
    seconds_text,
    share_text,
    work_energy_text,
)
from simaccel.study.points import StudyRow
from simaccel.workload import CLASSES

_PICO: Final = 1e12
UNKNOWN: Final = "unknown"


@dataclass(frozen=True)
class Metric:
    """A figure of a run: how it is called, its column in data, its axis, its value and its text.

    ``value`` takes a row that ran; None: not known. Of several chips, energy, power, EDP and tokens
    are those of all of them; cycles and bytes those of each.
    """

    name: str
    column: str
    label: str
    value: Callable[[StudyRow], float | None]
    text: Callable[[Any], str]

    @property
    def has_unit(self) -> bool:
        """Whether its text has a unit, which changes with the size of the figure."""
        return self.text not in (cycles_text, rate_of_tokens_text)

    @property
    def of_tokens(self) -> bool:
        """Whether it is known of runs with tokens (or images) only."""
        return "token" in self.name

    def cell(self, row: StudyRow) -> str:
        """Write the value of a run."""
        value = self.value(row)
        return UNKNOWN if value is None else self.text(value)


def _energy(row: StudyRow) -> float | None:
    """Return the energy of all chips in pJ, None where it isn't known."""
    total = row.energy_pj
    return None if math.isnan(total) or total <= 0 else total


def _rate(row: StudyRow) -> float | None:
    seconds = row.run["seconds"]
    return None if row.tokens is None or not seconds else float(row.tokens / seconds)


def _rate_per(count: Callable[[StudyRow], int | None]) -> Callable[[StudyRow], float | None]:
    def value(row: StudyRow) -> float | None:
        rate, sharing = _rate(row), count(row)
        return None if rate is None or sharing is None else rate / sharing

    return value


def _energy_per_token(row: StudyRow) -> float | None:
    energy = _energy(row)
    return None if row.tokens is None or energy is None else energy / row.tokens


def _edp(row: StudyRow) -> float | None:
    energy = _energy(row)
    return None if energy is None else float(energy / _PICO * row.run["seconds"])


def _sum(way: str) -> Callable[[StudyRow], float]:
    return lambda row: sum(row.run["bytes"]["dram"][way].values())


def _of_class(name: str) -> Callable[[StudyRow], float]:
    return lambda row: row.run["dram_by_class"][name]


def _plain(name: str) -> Callable[[StudyRow], float]:
    return lambda row: row.run[name]


def rate_of_tokens_text(rate: float) -> str:
    """Write a rate of tokens a second.

    >>> rate_of_tokens_text(1034.2), rate_of_tokens_text(7.123)
    ('1,034', '7.12')
    """
    whole = 100
    return f"{rate:,.0f}" if rate >= whole else f"{rate:.3g}"


_ALL = (
    Metric("cycles", "cycles", "cycles", _plain("cycles"), cycles_text),
    Metric("time", "seconds", "time", _plain("seconds"), seconds_text),
    Metric("utilisation", "utilisation", "utilisation", _plain("utilisation"), share_text),
    Metric("tokens/s", "tokens_per_second", "tokens per second", _rate, rate_of_tokens_text),
    Metric(
        "tokens/s/chip",
        "tokens_per_second_per_chip",
        "tokens per second of a chip",
        _rate_per(lambda row: row.run.get("chip_count", 1)),
        rate_of_tokens_text,
    ),
    Metric(
        "tokens/s/user",
        "tokens_per_second_per_user",
        "tokens per second of a user",
        _rate_per(lambda row: row.users),
        rate_of_tokens_text,
    ),
    Metric(
        "energy/token",
        "energy_per_token_pj",
        "energy per token",
        _energy_per_token,
        work_energy_text,
    ),
    Metric("energy", "energy_pj", "energy", _energy, work_energy_text),
    Metric("power", "power_mw", "power", lambda row: row.power_mw or None, power_text),
    Metric("edp", "edp_js", "energy-delay product", _edp, edp_text),
    Metric("reads", "dram_read_bytes", "DRAM bytes read", _sum("read"), bytes_text),
    Metric("writes", "dram_write_bytes", "DRAM bytes written", _sum("write"), bytes_text),
    *(
        Metric(name, f"dram_{name}_bytes", f"DRAM bytes of {name}", _of_class(name), bytes_text)
        for name in CLASSES
    ),
    Metric(
        "footprint",
        "footprint_bytes",
        "buffer in use",
        _plain("footprint_bytes"),
        bytes_text,
    ),
)
METRICS: Final[Mapping[str, Metric]] = {one.name: one for one in _ALL}
"""Metrics by the name that ``--metric`` takes."""
