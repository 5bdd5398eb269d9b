"""DRAM parts and what access patterns get from them, as tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simaccel.hardware.dram.measure import Measurement
from simaccel.hardware.dram.part import DramPart
from simaccel.hardware.quantity import format_quantity
from simaccel.report.layout import add_row, make_table

if TYPE_CHECKING:
    from rich.table import Table

_GIGA = 10**9


def parts_table(parts: Sequence[DramPart]) -> Table:
    """Tabulate DRAM parts, one a row."""
    numbers = ("peak GB/s", "burst", "page", "banks", "bank groups", "ranks", "pseudo channels")
    table = make_table(("part",), numbers, ())
    for part in parts:
        cells = (
            part.name,
            f"{part.peak_bytes_per_second / _GIGA:.1f}",
            format_quantity(part.burst_bytes, "B"),
            format_quantity(part.page_bytes, "B"),
            *map(str, (part.banks, part.bank_groups, part.ranks, part.pseudo_channels)),
        )
        add_row(table, cells)
    return table


def part_figures(part: DramPart) -> dict[str, object]:
    """Return the figures of a part by name: clocks, bytes, counts."""
    figures: dict[str, object] = part.model_dump(exclude={"origins", "source"})
    return figures | {"peak_bytes_per_second": part.peak_bytes_per_second}


def pattern_figures(found: Measurement) -> dict[str, float | None]:
    """Return what a pattern gets: shares of the peak, latency in ns (None without reads)."""
    return {
        "efficiency": round(found.efficiency, 6),
        "useful_efficiency": round(found.useful_efficiency, 6),
        "latency_ns": None if found.latency_ns is None else round(found.latency_ns, 3),
        "gigabytes_per_second": round(found.bytes_per_second / _GIGA, 6),
        "activates_per_burst": round(found.activates_per_burst, 6),
    }


def number_text(value: float | None) -> str:
    """Write a figure with four digits.

    >>> number_text(0.123456), number_text(None)
    ('0.1235', 'none')
    """
    return "none" if value is None else f"{value:.4g}"
