"""An exhibit: rows in a CSV, a picture and a section of README.md, all three of the same rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any

from validation.bound.readme import write_figures

HERE = Path(__file__).parent
Row = dict[str, Any]
SHORT = {512: "512", 2048: "2K", 4096: "4K", 16384: "16K", 65536: "64K", 262144: "256K"}
"""Lengths as the paper writes them."""


@dataclass(frozen=True)
class Exhibit:
    """What makes an exhibit's rows, its text and its picture, and the section's name.

    ``shared``: the exhibit whose rows it draws too (figure 12 draws those of figure 10).
    """

    name: str
    rows: Callable[[], list[Row]]
    text: Callable[[Sequence[Row]], str]
    draw: Callable[[Sequence[Row], Path], None]
    shared: str = ""

    @property
    def table(self) -> Path:
        """Its CSV."""
        return HERE / f"{self.shared or self.name}.csv"

    def make(self) -> None:
        """Run it; write CSV, picture and section."""
        if not self.shared:
            write(self.rows(), self.table)
        self.show()

    def show(self) -> None:
        """Write picture and section from its CSV."""
        rows = read(self.table)
        self.draw(rows, HERE / f"{self.name}.png")
        text = self.text(rows)
        write_figures(self.name, text, HERE / "README.md")
        print(f"{self.name}\n{text}\n", flush=True)


def write(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a line a row; floats have six digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {key: f"{one:.6g}" if isinstance(one, float) else one for key, one in row.items()}
            )


def read(path: Path) -> list[Row]:
    """Return the rows of a CSV with their numbers as numbers."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {key: _value(text) for key, text in row.items()}
            for row in csv.DictReader(line for line in file if not line.startswith("#"))
        ]


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def stated() -> dict[tuple[str, str], float]:
    """Return what the paper states, by exhibit and what."""
    rows = read(HERE / "data" / "statements.csv")
    return {(row["exhibit"], row["what"]): float(row["value"]) for row in rows}


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    rows += [f"| {' | '.join(map(str, line))} |" for line in lines]
    return "\n".join(rows)


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean, in which figure 16's averages are.

    >>> round(geometric_mean([1, 4]), 6)
    2.0
    """
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs))
