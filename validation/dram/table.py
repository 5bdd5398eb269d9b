"""What access patterns get from each DRAM part, as `simaccel dram measured` has it.

``python -m validation.dram.table`` measures them and writes the table.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Final

from simaccel.cli.progress import ProgressBar
from simaccel.files.catalogue import FOLDER
from simaccel.hardware.dram.parts import PARTS
from simaccel.study.parallel import open_workers
from validation.dram.measure import idle_latencies, measure
from validation.dram.patterns import Pattern

TABLE: Final = FOLDER / "dram" / "measured.csv"
PATTERNS: Final = (
    Pattern(kind="sequential"),
    Pattern(kind="sequential", write_fraction=0.33),
    Pattern(kind="sequential", reads_in_flight=8),
    Pattern(kind="sequential", load=0.5),
    *(Pattern(kind="random-chunk", chunk=chunk) for chunk in (64, 256, 1024, 4096)),
    Pattern(kind="random-chunk", chunk=512, write_fraction=0.33),
    *(Pattern(kind="strided-tile", row=row, pitch=4096) for row in (128, 512)),
    Pattern(kind="alternating", chunk=4096, waits=True),
    Pattern(kind="two-streams", chunk=1024, apart=True),
)
_OF_KIND: Final = {
    "sequential": ("write_fraction", "reads_in_flight", "load"),
    "random-chunk": ("chunk", "write_fraction"),
    "strided-tile": ("row", "pitch"),
    "alternating": ("chunk", "waits"),
    "two-streams": ("chunk", "apart"),
}
_GIGA: Final = 10**9
Row = dict[str, object]


def settings(pattern: Pattern) -> str:
    """Return the sizes of a pattern, those apart that say nothing."""
    names = [name for name in _OF_KIND[pattern.kind] if getattr(pattern, name)]
    return " ".join(f"{name}={getattr(pattern, name)}" for name in names)


def measure_row(asked: tuple[str, Pattern]) -> Row:
    """Return the row of a pattern on a part."""
    name, pattern = asked
    part = PARTS[name]
    measurement = measure(part, part.default_map, pattern)
    return {
        "part": name,
        "pattern": pattern.kind,
        "settings": settings(pattern),
        "efficiency": round(measurement.efficiency, 4),
        "useful_efficiency": round(measurement.useful_efficiency, 4),
        "latency_ns": None if measurement.latency_ns is None else round(measurement.latency_ns, 1),
        "gigabytes_per_second": round(measurement.bytes_per_second / _GIGA, 2),
        "activates_per_burst": round(measurement.activates_per_burst, 4),
    }


def idle_rows(name: str) -> list[Row]:
    """Return the rows of reads that are alone, which have a latency only."""
    return [
        {"part": name, "pattern": "idle", "settings": state, "latency_ns": round(latency, 1)}
        for state, latency in idle_latencies(PARTS[name]).items()
    ]


def main(path: Path = TABLE) -> None:
    """Measure all patterns on all parts, and write the table."""
    asked = [(name, pattern) for name in PARTS for pattern in PATTERNS]
    with ProgressBar("measuring") as bar, open_workers(os.cpu_count() or 1) as team:
        rows = team.run(measure_row, asked, bar.show)
    idle = [row for name in PARTS for row in idle_rows(name)]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, tuple(rows[0]), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted([*rows, *idle], key=lambda row: str(row["part"])))


if __name__ == "__main__":
    main()
