"""DRAM parts and what access patterns get from them, as tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from simaccel.hardware.dram.part import DramPart
from simaccel.hardware.quantity import format_quantity
from simaccel.report.tables import Table, add_row, make_table

_GIGA = 10**9
_FIGURES: Final = {
    "efficiency": "efficiency",
    "useful_efficiency": "useful",
    "latency_ns": "latency ns",
    "gigabytes_per_second": "GB/s",
    "activates_per_burst": "activates/burst",
}


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


def patterns_table(rows: Sequence[Mapping[str, str | float | None]]) -> Table:
    """Tabulate what patterns get from a part, one a row."""
    table = make_table(("pattern", "settings"), tuple(_FIGURES.values()), ())
    for row in rows:
        cells = [str(row[name]) for name in ("pattern", "settings")]
        add_row(table, [*cells, *(number_text(row[name]) for name in _FIGURES)])
    return table


def number_text(value: str | float | None) -> str:
    """Write a figure with four digits; one that there is not as a dash.

    >>> number_text(0.123456), number_text(None)
    ('0.1235', '-')
    """
    return f"{value:.4g}" if isinstance(value, float) else "-"
