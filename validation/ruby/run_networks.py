"""Ruby's figures 10 to 14: tables, pictures and the figures of README.md.

``python -m validation.ruby.run_networks [--jobs N]`` searches what isn't in `out/validation-ruby`
yet, so a killed run goes on where it was; ``--fresh`` throws that away first. All winners then run
on the machine. It fails where a mapspace comes out worse than one that it contains, and where
machine and closed form differ.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from simaccel.cli.progress import ProgressBar
from simaccel.study.parallel import open_workers
from validation.ruby.machine import confirm_all
from validation.ruby.network_pictures import draw_fig_11, draw_fig_13, draw_fig_14, draw_layers
from validation.ruby.network_tables import text
from validation.ruby.networks import (
    Comparison,
    Row,
    as_the_paper,
    by_layer,
    fig_10,
    fig_11,
    fig_12,
    full_sweeps,
    over_arrays,
)
from validation.ruby.points import FOLDER, Point, solve
from validation.ruby.run import HERE, fill, write_csv

BEGIN, END = "<!-- networks -->", "<!-- end of networks -->"
RATIOS = ("edp", "cycles", "energy")


def search_all(comparisons: Iterable[Comparison], jobs: int, folder: Path = FOLDER) -> int:
    """Search all that isn't there yet; give the number of groups of points."""
    groups = list(dict.fromkeys(group for one in comparisons for group in one.groups()))
    with ProgressBar("figures 10 to 14") as bar, open_workers(jobs) as team:
        team.run(partial(_solve, folder), groups, bar.show)
    return len(groups)


def _solve(folder: Path, group: tuple[Point, ...]) -> None:
    for point in group:
        solve(point, folder)


def problems_of(rows: Sequence[Row], objective: str = "edp") -> list[str]:
    """Say where Ruby-S comes out worse than the perfect mapspace that it contains."""
    return [
        f"{row['layer']}: {objective} of Ruby-S over PFM is {row[f'{objective} over pfm']}"
        for row in rows
        if float(str(row[f"{objective} over pfm"])) > 1
    ]


def figures_10_to_12() -> dict[str, Comparison]:
    """Give the comparisons of single arrays by the name of their file."""
    return {
        "fig_10": fig_10(),
        "fig_11": fig_11("edp"),
        "fig_11_cycles": fig_11("cycles"),
        "fig_12": fig_12("simba_like"),
        "fig_12_9": fig_12("simba_like_9"),
    }


def rows_of(name: str, one: Comparison, folder: Path = FOLDER) -> list[Row]:
    """Give the rows of a figure; ResNet-50 is added up, kernels are not."""
    return by_layer(one, folder, network="" if "11" in name else "ResNet-50")


def write_all(
    tables: Mapping[str, Sequence[Row]],
    sampled: Mapping[str, Sequence[Row]],
    swept: Sequence[Row],
    folder: Path,
) -> None:
    """Write the files of figures and draw the pictures."""
    for name, rows in tables.items():
        columns = [
            {f"{what}, searched as in the paper": there[f"{what} over pfm"] for what in RATIOS}
            for there in sampled[name]
        ]
        write_csv([row | more for row, more in zip(rows, columns, strict=True)],
                  folder / f"{name}.csv")  # fmt: skip
    write_csv(swept, folder / "fig_13_14.csv")
    both = {name: (name, tables[name], sampled[name]) for name in tables}
    draw_layers({"Eyeriss-like, 14 x 12 PEs": both["fig_10"]}, folder / "fig_10.png")
    simba = {"15 PEs of 4 x 4 lanes": both["fig_12"], "9 PEs of 3 x 3 lanes": both["fig_12_9"]}
    draw_layers(simba, folder / "fig_12.png")
    draw_fig_11(tables["fig_11"], tables["fig_11_cycles"], folder / "fig_11.png")
    draw_fig_13(swept, folder / "fig_13.png")
    draw_fig_14(swept, folder / "fig_14.png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, write and draw everything; 1 if something isn't as it has to be."""
    parser = argparse.ArgumentParser(prog="validation.ruby.run_networks")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--fresh", action="store_true", help="throw away what was searched before")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("argument --jobs: 1 or more")
    if options.fresh:
        shutil.rmtree(FOLDER, ignore_errors=True)
    sweeps, layers = full_sweeps(), figures_10_to_12()
    as_there = {name: as_the_paper(layer) for name, layer in layers.items()}
    every = [*(comparison for many in sweeps.values() for comparison in many), *as_there.values()]
    # The longest last: that is what starts first.
    count = search_all([*every, *layers.values()], options.jobs)
    print(f"{count} layers searched, or found in {FOLDER}")
    tables = {name: rows_of(name, layer) for name, layer in layers.items()}
    sampled = {name: rows_of(name, comparison) for name, comparison in as_there.items()}
    swept = over_arrays(sweeps)
    figures = {name: [layer] for name, layer in layers.items()} | {
        f"fig_13_14 {name}": many for name, many in sweeps.items()
    }
    confirmed, differing = confirm_all(figures, options.jobs)
    write_all(tables, sampled, swept, HERE)
    write_csv(confirmed, HERE / "machine.csv")
    fill(HERE / "README.md", text(tables, sampled, swept, confirmed), BEGIN, END)
    wrong = differing + [
        f"{name}: {what}"
        for name, rows in tables.items()
        for what in problems_of(rows, "cycles" if "cycles" in name else "edp")
    ]
    print("\n".join(wrong) or "all as it has to be")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
