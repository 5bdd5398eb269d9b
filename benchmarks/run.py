"""Run the benchmarks, all or those named, and write ``results.json`` and the tables of README.md.

What isn't run keeps its last rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import (
    bounds,
    default_blocks,
    event_core,
    exactness,
    exploring,
    long_sequences,
    nests,
    processes,
    ruby,
    scalesim,
    search,
    search_times,
    tracing,
)
from benchmarks.measure import Benchmark, Row

FOLDER = Path(__file__).parent
BEGIN, END = "<!-- begin of the tables -->", "<!-- end of the tables -->"
BENCHMARKS: tuple[Benchmark, ...] = (
    event_core.BENCHMARK,
    long_sequences.BENCHMARK,
    scalesim.BENCHMARK,
    search.BENCHMARK,
    search_times.BENCHMARK,
    processes.BENCHMARK,
    default_blocks.BENCHMARK,
    ruby.BENCHMARK,
    nests.BENCHMARK,
    exactness.BENCHMARK,
    bounds.BENCHMARK,
    exploring.BENCHMARK,
    tracing.BENCHMARK,
)

Results = dict[str, dict[str, Any]]
"""By benchmark: where it ran, and its rows."""


def run(chosen: Sequence[Benchmark], console: Console) -> Iterator[Results]:
    """Measure every point of the chosen benchmarks; give each benchmark when it is done."""
    columns = (
        TextColumn("{task.description:<15}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[point]}"),
    )
    with Progress(*columns, console=console) as progress:
        for benchmark in chosen:
            rows: list[Row] = []
            points = benchmark.points()
            task = progress.add_task(benchmark.name, total=len(points), point="")
            for point in points:
                progress.update(task, point=" ".join(map(str, point.values())))
                rows.append(benchmark.measure(point))
                progress.advance(task)
            progress.update(task, point="")
            yield {benchmark.name: {"where": where(), "rows": rows}}


def where() -> str:
    """Say what a benchmark ran on."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("simpy", "numpy", "h5py"))
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {libraries}; "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    )


def tables(results: Results) -> str:
    """Write the reports of all benchmarks that have rows."""
    found: list[str] = []
    for benchmark in BENCHMARKS:
        if benchmark.name in results:
            result = results[benchmark.name]
            command = f"`python -m benchmarks.run {benchmark.name}`, {result['where']}"
            title, _, text = benchmark.report(result["rows"]).partition("\n\n")
            found.append(f"{title}\n\n{command}\n\n{text}")
    return "\n\n".join(found)


def fill(document: str, text: str) -> str:
    """Put a text between the markers of a document."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(names) + "; all if none")
    asked = parser.parse_args(arguments).names
    if unknown := set(asked) - set(names):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    chosen = [benchmark for benchmark in BENCHMARKS if not asked or benchmark.name in asked]

    kept, readme = FOLDER / "results.json", FOLDER / "README.md"
    results: Results = json.loads(kept.read_text()) if kept.exists() else {}
    for result in run(chosen, Console(stderr=True)):
        results |= result
        kept.write_text(json.dumps(results, indent=1) + "\n")
        readme.write_text(fill(readme.read_text(), tables(results)))
    print(tables({benchmark.name: results[benchmark.name] for benchmark in chosen}))


if __name__ == "__main__":
    main()
