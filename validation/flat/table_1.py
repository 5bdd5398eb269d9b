"""Table 1: buffer of each granularity, by formula and on the machine.

`python -m validation.flat.table_1` runs table 1's tiles as trees in a buffer without limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.space import mergeable
from simaccel.mapping.tree import Group
from simaccel.report.figures.style import (
    SERIES_COLOURS,
    SINGLE_COLUMN_INCHES,
    new_figure,
    save_figure,
    style,
)
from simaccel.search.judge import mapping_of
from simaccel.study.experiment import simulate
from validation import PLAIN
from validation.flat import paper
from validation.flat.exhibit import Exhibit, Row, table
from validation.flat.points import Point
from validation.flat.ways import ATTENTION, table_1_tree

MODEL = "BERT"
LENGTHS = (512, 1000)
BATCH = 4
ROWS = 64
UNLIMITED = (*PLAIN, "buffer.capacity_bytes=unlimited")


def rows() -> list[Row]:
    """Run a tile of each granularity; give the formula's bytes and the machine's."""
    accelerator, model = load_accelerator("edge", UNLIMITED), paper.FITTED[MODEL]
    results = []
    for length in LENGTHS:
        point = Point(accelerator="edge", model=model, length=length, way="table-1", batch=BATCH)
        work = point.workload().select_operators(ATTENTION)
        plain = Group(operators=ATTENTION, tree=(), merged=mergeable(work, ATTENTION))
        tiles = {
            "m": (BATCH * model.heads, length),
            "b": (model.heads, length),
            "h": (1, length),
            "r": (1, ROWS),
        }
        for granularity in paper.GRANULARITIES:
            tree = table_1_tree(*tiles[granularity])
            mapping = mapping_of(work, "table-1", [replace(plain, tree=tree)])
            result = simulate(work, accelerator, mapping)
            streamed, logits = paper.table_1(model, length, granularity, rows=ROWS, batch=BATCH)
            results.append(
                {
                    "granularity": granularity,
                    "seq_len": length,
                    "formula_bytes": 2 * (streamed + logits),
                    "reserved_bytes": result.footprint_bytes,
                    "peak_bytes": result.run.peak_buffer_bytes,
                    "cycles": result.run.cycles,
                    "utilisation": result.utilisation,
                }
            )
    return results


def text(results: Sequence[Row]) -> str:
    """Return formula, what the program reserves, and what was ever occupied."""
    lines = [
        (
            row["granularity"].upper(),
            row["seq_len"],
            f"{row['formula_bytes']:,}",
            f"{row['reserved_bytes']:,}",
            f"{row['peak_bytes']:,}",
            f"{row['peak_bytes'] / row['formula_bytes']:.2f}",
        )
        for row in results
    ]
    head = ("granularity", "tokens", "formula, B", "program reserves, B", "occupied at most, B")
    return table((*head, "occupied / formula"), lines)


def draw(results: Sequence[Row], path: Path) -> None:
    """Draw the three as bars."""
    with style():
        figure = new_figure(SINGLE_COLUMN_INCHES, 2.4)
        axes = figure.subplots()
        seq_len_rows = [row for row in results if row["seq_len"] == LENGTHS[0]]
        for at, column in enumerate(("formula_bytes", "reserved_bytes", "peak_bytes")):
            places = [place + 0.27 * at for place in range(len(seq_len_rows))]
            label = column.removesuffix("_bytes")
            sizes = [row[column] / 2**20 for row in seq_len_rows]
            axes.bar(places, sizes, 0.25, label=label, color=SERIES_COLOURS[at])
        axes.set_xticks(
            [place + 0.27 for place in range(len(seq_len_rows))],
            [row["granularity"].upper() for row in seq_len_rows],
        )
        axes.set(yscale="log", ylabel="MiB", title=f"{MODEL}, {LENGTHS[0]} tokens, batch {BATCH}")
        axes.legend()
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("table_1", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
