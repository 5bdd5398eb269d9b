"""Figure 9: utilisation of L and A by granularity and buffer, BERT, 512 tokens, edge.

`python -m validation.flat.fig_9` runs what isn't in `out/validation-flat` yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simaccel.report.figures.style import DOUBLE_COLUMN_INCHES, new_figure, save_figure, style
from validation.flat import paper
from validation.flat.exhibit import Exhibit, Row, stated, table
from validation.flat.paper import GRANULARITIES
from validation.flat.pictures import curves, over_buffer
from validation.flat.points import Point, solve

MODEL, LENGTH = "BERT", 512
SIZES = (64_000, 600_000, 10_000_000, 160_000_000, 2_000_000_000)
"""Bytes; 0.6, 10 and 160 MB and 2 GB are those of the text."""
WAYS = ("naive", *(f"{flow}-{one}" for flow in ("flex", "flat") for one in GRANULARITIES))


def rows() -> list[Row]:
    """Return utilisation by the closed form and on the machine, and the buffer occupied."""
    model, results = paper.FITTED[MODEL], []
    for size in SIZES:
        platform = replace(paper.EDGE, buffer_bytes=size)
        for way in WAYS:
            dataflow, _, granularity = way.partition("-")
            if granularity:
                work = paper.at_granularity(platform, model, LENGTH, dataflow, granularity)  # type: ignore[arg-type]
            else:
                work = paper.optimal(platform, model, LENGTH, "naive")
            formula = paper.utilisation(paper.attention_only(work), platform)
            ran = solve(
                Point(
                    accelerator="edge",
                    model=model,
                    length=LENGTH,
                    way=way,
                    settings=(f"buffer.capacity_bytes={size} B",),
                )
            )
            results.append(
                {
                    "way": way,
                    "buffer_bytes": size,
                    "closed_form": formula,
                    "machine": ran.get("utilisation", ""),
                    "occupied_bytes": ran.get("peak_buffer_bytes", ""),
                    "dram_bytes": ran.get("dram_bytes", ""),
                }
            )
    return results


def text(found: Sequence[Row]) -> str:
    """Return utilisation by way and buffer (closed form / machine) and what the paper states."""
    lines = []
    for way in WAYS:
        line: list[object] = [way]
        for row in (one for one in found if one["way"] == way):
            machine = "-" if row["machine"] == "" else f"{row['machine']:.2f}"
            line.append(f"{row['closed_form']:.2f} / {machine}")
        lines.append(line)
    head = ["closed form / machine", *(f"{size / 1e6:g} MB" for size in SIZES)]
    return f"{table(head, lines)}\n\n{_stated(found)}"


def _stated(results: Sequence[Row]) -> str:
    say = stated()

    def at(way: str, size: int, column: str) -> str:
        result = next(row for row in results if (row["way"], row["buffer_bytes"]) == (way, size))
        return "-" if result[column] == "" else f"{result[column]:.2f}"

    lines = []
    for what, value, way, size in (
        ("naive up to 10 MB", "naive utilisation up to 10 MB", "naive", SIZES[2]),
        ("Flex-H at 160 MB", "flex-h utilisation", "flex-h", SIZES[3]),
        ("FLAT-R at 0.6 MB", "flat-r utilisation", "flat-r", SIZES[1]),
    ):
        both = (at(way, size, column) for column in ("closed_form", "machine"))
        lines.append((what, f"{say['fig_9', value]:g}", *both))
    return table(("statement", "paper", "closed form", "machine"), lines)


def draw(results: Sequence[Row], path: Path) -> None:
    """Draw a panel for the closed form and one for the machine."""
    with style():
        figure = new_figure(DOUBLE_COLUMN_INCHES, 2.8)
        panels = figure.subplots(1, 2, sharey=True)
        for axes, column in zip(panels, ("closed_form", "machine"), strict=True):
            lines = {
                way: [
                    (row["buffer_bytes"], row[column])
                    for row in results
                    if row["way"] == way and row[column] != ""
                ]
                for way in WAYS
            }
            curves(axes, {"naive": lines["naive"]})
            curves(axes, {way: lines[way] for way in WAYS if way.startswith("flat")}, first=1)
            flex = {way: lines[way] for way in WAYS if way.startswith("flex")}
            curves(axes, flex, first=1, dashed=flex)
            over_buffer(axes, column.replace("_", " "))
        panels[0].set(ylabel="utilisation, L and A", ylim=(0, 1.05))
        panels[1].legend(fontsize="x-small", ncols=2)
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("fig_9", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
