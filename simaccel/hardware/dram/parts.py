"""DRAM parts by name: files in `simaccel/catalogue/dram`, each figure with its source."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import Final

from simaccel.files.catalogue import FOLDER, Catalogue
from simaccel.hardware.dram.part import DramPart


class DramParts(Mapping[str, DramPart]):
    """The published parts by name, each read and checked at its first use."""

    def __init__(self) -> None:
        """Open the catalogue; nothing is read yet."""
        self._catalogue = Catalogue("dram", DramPart.model_validate)

    def __getitem__(self, name: str) -> DramPart:
        """Return the part of this name."""
        if name not in self:
            raise KeyError(name)
        return self._catalogue.find(name)

    def __contains__(self, name: object) -> bool:
        """Return whether a part has this name."""
        return name in self._catalogue.names

    def __iter__(self) -> Iterator[str]:
        """Yield the names in order."""
        return iter(self._catalogue.names)

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self._catalogue)


PARTS: Final[Mapping[str, DramPart]] = DramParts()
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
