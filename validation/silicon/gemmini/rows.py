"""DOSA's measured rows as they lie here."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final, Literal

from validation.silicon.gemmini.model import Row

HERE: Final = Path(__file__).parent
DATA: Final = HERE / "data"


def read(which: Literal["train", "test"]) -> list[Row]:
    """Return the rows of a file."""
    path = DATA / f"gemmini_firesim_{which}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def measured(row: Row) -> int:
    """Return the RTL's cycles of the row's mapping."""
    return int(row["rtl_cycles_of_mapping"])
