"""Four crossings of DRAM at half the clock: the other reading of figure 16.

`python -m validation.flat.clock`. What figure 16 implies is crossings x bytes x clock = 2.88 B GHz:
two at 720 MHz, or four at 360 MHz. Four at 720 MHz, as the accelerators here have it, is twice
that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simaccel.report.figures.style import SINGLE_COLUMN_INCHES, new_figure, save_figure, style
from validation.flat import paper
from validation.flat.exhibit import SHORT, Exhibit, Row, table
from validation.flat.pictures import curves, finish
from validation.flat.points import Point, solve

MODEL = "BERT"
READINGS = (
    ("two at 720 MHz", "flex-2", ""),
    ("four at 720 MHz", "flex", ""),
    ("four at 360 MHz", "flex", "clock_hz=360 MHz"),
)
"""Label, way of the baseline, and what differs of the accelerator."""


def rows() -> list[Row]:
    """Return L and A's speedup of flash over flex in each reading, and the closed form's."""
    results = []
    for platform in paper.PLATFORMS:
        for length in paper.LENGTHS:
            row: Row = {"platform": platform, "seq_len": length}
            flex, flat = (
                paper.attention_only(
                    paper.block(paper.PLATFORMS[platform], paper.FITTED[MODEL], length, flow)
                )
                for flow in ("flex", "flat")
            )
            platform_figures = paper.PLATFORMS[platform]
            row["closed form"] = paper.seconds(flex, platform_figures) / paper.seconds(
                flat, platform_figures
            )
            for label, way, clock in READINGS:
                row[label] = _cycles(platform, length, way, clock) / _cycles(
                    platform, length, "flash", clock
                )
            results.append(row)
    return results


def _cycles(platform: str, length: int, way: str, clock: str) -> int:
    point = Point(
        accelerator=platform,
        model=paper.FITTED[MODEL],
        length=length,
        way=way,
        settings=(clock,) if clock else (),
    )
    return int(solve(point)["cycles"])


def text(found: Sequence[Row]) -> str:
    """Return all of it."""
    columns = ("closed form", *(label for label, _, _ in READINGS))
    lines = [
        (row["platform"], SHORT[row["seq_len"]], *(f"{row[one]:.2f}" for one in columns))
        for row in found
    ]
    return table(("platform", "tokens", *columns), lines)


def draw(results: Sequence[Row], path: Path) -> None:
    """Draw speedups over the length."""
    with style():
        figure = new_figure(SINGLE_COLUMN_INCHES * 2, 2.4)
        panels = figure.subplots(1, 2, sharey=True)
        columns = ("closed form", *(label for label, _, _ in READINGS))
        for axes, platform in zip(panels, paper.PLATFORMS, strict=True):
            platform_rows = [row for row in results if row["platform"] == platform]
            lines = {
                column: [(row["seq_len"], row[column]) for row in platform_rows]
                for column in columns
            }
            curves(axes, lines, dashed=("closed form",))
            axes.set_xscale("log", base=2)
            axes.set_xticks(paper.LENGTHS, [SHORT[length] for length in paper.LENGTHS])
            finish(axes, f"{MODEL}, {platform}", "tokens")
        panels[0].set_ylabel("L and A: speedup over flex")
        panels[0].legend(fontsize="x-small")
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("clock", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
