"""DRAM parts by name: files in `simaccel/catalogue/dram`, each figure with its source."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Final

from simaccel.files.catalogue import FOLDER, Catalogue
from simaccel.hardware.dram.part import DramPart

PARTS: Final[Mapping[str, DramPart]] = Catalogue("dram", DramPart.model_validate)
"""Parts by name."""


def measured_patterns(part: str) -> list[dict[str, str | float | None]]:
    """Return the measured throughput of access patterns on a part, a row each.

    Shares of the peak, latencies in ns (None without reads), GB/s, activates per burst; of single
    reads (``idle``) the latency only. Measured by `validation/dram/table.py`.
    """
    with (FOLDER / "dram" / "measured.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["part"] == part]
    texts = ("pattern", "settings")
    return [
        {
            name: value if name in texts else (float(value) if value else None)
            for name, value in row.items()
            if name != "part"
        }
        for row in rows
    ]
