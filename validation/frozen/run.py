"""All points of the frozen table again, with the schedulers of today.

``python -m validation.frozen.run`` runs what ``before.csv`` has (made before mapping trees) and
fails where a pick is slower than that of ``after.csv`` by more than 0.1%. ``--write`` writes
``after.csv`` and the figures of ``README.md``. What was run is kept in ``out/frozen.csv`` until the
table is whole: a run that is stopped goes on where it was, unless the sources of the simulator have
changed since. ``--every N`` takes each N-th point only: 5 has points of all accelerators and
dataflows. ``--only TEXT`` takes points with TEXT in their line.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path

from rich.console import Console
from rich.progress import track

from simaccel.study.parallel import open_workers
from validation.bound.readme import write_figures
from validation.frozen.points import HEAD, Point, Row, Table, lines, measure, read
from validation.frozen.table import gate, slower, summary

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PART = ROOT / "out" / "frozen.csv"


def fingerprint() -> str:
    """Return a hash of the simulator's sources and accelerators."""
    found = hashlib.sha256()
    for folder, kind in (("simaccel", "*.py"), ("hwconfigs", "*.yaml")):
        for path in sorted((ROOT / folder).rglob(kind)):
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


def measured(points: Sequence[Point], processes: int) -> Iterator[list[Row]]:
    """Yield the rows of each point, with progress."""
    with open_workers(processes) as team:
        found = team.run_each(measure, points)
        yield from track(found, "points", total=len(points), console=Console(stderr=True))


def completed(points: Sequence[Point], processes: int, *, whole: bool) -> Table:
    """Measure what a stopped run has left of some points; keep them if they are not all."""
    path = PART.with_name(f"{PART.stem}-{fingerprint()}.csv")
    path.parent.mkdir(exist_ok=True)
    outcomes = read(path) if path.exists() else {}
    left = [point for point in points if point not in outcomes]
    with path.open("a", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, HEAD, lineterminator="\n")
        if not outcomes:
            table.writeheader()
        for point, rows in zip(left, measured(left, processes), strict=True):
            table.writerows(lines(point, rows))
            stream.flush()
            outcomes[point] = rows
    if whole:
        path.unlink()
    return {point: outcomes[point] for point in points}


def write(table: Table, path: Path) -> None:
    """Write a table."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, HEAD, lineterminator="\n")
        writer.writeheader()
        for point, rows in table.items():
            writer.writerows(lines(point, rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and compare with what was kept or write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--processes", type=int, default=1, metavar="N")
    asked = parser.parse_args(arguments)
    before, kept = read(HERE / "before.csv"), read(HERE / "after.csv")
    points = [p for p in before if asked.only in " ".join(map(str, astuple(p)))][:: asked.every]
    if asked.write and len(points) < len(before):
        parser.error("--write takes all points; allowed: without --every and --only")
    outcomes = completed(points, asked.processes, whole=len(points) == len(before))
    text = summary({point: before[point] for point in points}, outcomes)
    print(f"{text}\n\n{gate(kept, outcomes)}")
    if asked.write:
        write(outcomes, HERE / "after.csv")
        write_figures("figures", text, HERE / "README.md")
        return 0
    wrong = slower(kept, outcomes)
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
