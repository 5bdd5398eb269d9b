"""The curves of the public tool (see validation/orojenesis/data)."""

import csv
from pathlib import Path

DATA = Path(__file__).parents[3] / "validation" / "orojenesis" / "data"


def curve(name: str) -> list[tuple[int, int]]:
    """Return the points of a file: buffer bytes, accesses."""
    lines = (DATA / f"{name}.csv").read_text().splitlines()
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    return [(int(row[0]), int(row[1])) for row in rows[1:]]
