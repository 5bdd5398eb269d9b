"""Figure 16: speedup and energy ratio of FLAT over Flex, 5 models, 5 lengths, 2 platforms.

`python -m validation.flat.fig_16` runs what isn't in `out/validation-flat` yet; with `--known` it
runs nothing and leaves empty what isn't there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    SERIES_COLOURS,
    SERIES_MARKERS,
    new_figure,
    save_figure,
    style,
)
from validation.flat import paper
from validation.flat.exhibit import HERE, SHORT, Exhibit, Row, geometric_mean, read, table
from validation.flat.points import Point, known, solve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WAYS = ("best", "flex", "flex-2", "table-1", "flat", "flash")
"""Best first: the others take its GEMMs."""
FUSED = ("table-1", "flat", "flash", "best")
MODELS = tuple(paper.FITTED)


def point(platform: str, model: str, length: int, way: str) -> Point:
    """Return a cell in one way: a whole block."""
    return Point(
        accelerator=platform, model=paper.FITTED[model], length=length, way=way, scope="block"
    )


def published() -> list[Row]:
    """Return the 50 cells of the paper."""
    return read(HERE / "data" / "fig_16.csv")


def rows(*, only_known: bool = False) -> list[Row]:
    """Return the cells: the paper's, the closed form's, the machine's in each way."""
    return [_row(cell, only_known=only_known) for cell in published()]


def _row(cell: Row, *, only_known: bool) -> Row:
    platform, model, length = cell["platform"], cell["model"], cell["seq_len"]
    hardware = paper.PLATFORMS[platform]
    speedup, energy = paper.gains(hardware, paper.FITTED[model], length)
    row = {
        "platform": platform,
        "model": model,
        "seq_len": length,
        "paper_speedup": cell["speedup"],
        "closed_form_speedup": speedup,
        "closed_form_published_sizes": paper.gains(hardware, paper.PUBLISHED[model], length)[0],
        "paper_energy": cell["energy_ratio"],
        "energy_is_odd": cell["energy_is_odd"],
        "closed_form_energy": energy,
    }
    points = {way: point(platform, model, length, way) for way in WAYS}
    row["run"] = int(not only_known or all(map(known, points.values())))
    for way in WAYS:
        solution = solve(points[way]) if row["run"] else {"fits": False}
        row |= {
            f"{way}_cycles": solution.get("cycles", ""),
            f"{way}_la_cycles": sum(_attention(solution)) or "",
            f"{way}_utilisation": solution.get("utilisation", ""),
            f"{way}_dram_bytes": solution.get("dram_bytes", ""),
            f"{way}_energy_uj": solution["energy_pj"] * 1e-6 if solution["fits"] else "",
        }
    return row


def _attention(found: Row) -> list[int]:
    parts = ("L", "softmax", "A", "statistics", "normalise")
    operators = found.get("operators", {})
    return [n for name, n in operators.items() if set(name.split("+")) & {*parts}]


def errors(cells: Sequence[Row], column: str = "closed_form_speedup") -> list[float]:
    """Return the relative errors of the closed form's speedups."""
    return [abs(row[column] / row["paper_speedup"] - 1) for row in cells]


def speedup(row: Row, way: str, base: str) -> float | None:
    """Return the speedup of a way over another on the machine; None where it doesn't fit."""
    if row[f"{way}_cycles"] == "":
        return None
    return float(row[f"{base}_cycles"] / row[f"{way}_cycles"])


def ran(cells: Sequence[Row]) -> list[Row]:
    """Return the cells that the machine has run."""
    return [row for row in cells if row["run"]]


def text(cells: Sequence[Row]) -> str:
    """Return the fit, the machine's speedups by length, and each cell's."""
    return "\n\n".join((_fit(cells), _energy(cells), _by_length(cells), _cells(cells)))


def _fit(cells: Sequence[Row]) -> str:
    lines = []
    for label, column in (
        ("fitted sizes", "closed_form_speedup"),
        ("published sizes", "closed_form_published_sizes"),
    ):
        for name in ("edge", "cloud", "both"):
            platform_rows = [row for row in cells if name in (row["platform"], "both")]
            off = errors(platform_rows, column)
            average = geometric_mean(row[column] for row in platform_rows)
            theirs = geometric_mean(row["paper_speedup"] for row in platform_rows)
            lines.append(
                (
                    label,
                    name,
                    f"{sum(off) / len(off):.1%}",
                    f"{max(off):.1%}",
                    f"{sum(error <= 0.1 for error in off)} of {len(off)}",
                    f"{average:.2f} (paper {theirs:.2f})",
                )
            )
    head = ("closed form", "platform", "mean error", "largest", "within 10%", "mean speedup")
    return table(head, lines)


def _energy(cells: Sequence[Row]) -> str:
    lines = []
    for name in ("edge", "cloud"):
        platform_rows = [
            row for row in cells if row["platform"] == name and not row["energy_is_odd"]
        ]
        off = [abs(row["closed_form_energy"] - row["paper_energy"]) for row in platform_rows]
        lines.append(
            (
                name,
                len(platform_rows),
                f"{sum(off) / len(off):.3f}",
                f"{max(off):.2f}",
                f"{sum(error <= 0.1 for error in off)} of {len(off)}",
            )
        )
    head = ("energy ratio", "cells that are not odd", "mean error", "largest", "within 0.10")
    return table(head, lines)


def _by_length(cells: Sequence[Row]) -> str:
    """Return geometric means over the models, against both readings of the baseline."""
    lines = []
    for platform in ("edge", "cloud"):
        for length in (*paper.LENGTHS, 0):
            length_rows = [
                row
                for row in ran(cells)
                if row["platform"] == platform and length in (row["seq_len"], 0)
            ]
            if not length_rows:
                continue
            line: list[object] = [platform, SHORT.get(length, "all")]
            line.append(f"{geometric_mean(row['paper_speedup'] for row in length_rows):.2f}")
            for base in ("flex-2", "flex"):
                for way in FUSED:
                    speedups = [speedup(row, way, base) for row in length_rows]
                    fit = [ratio for ratio in speedups if ratio is not None]
                    mean = f"{geometric_mean(fit):.2f}" if fit else "-"
                    partly = fit and len(fit) < len(speedups)
                    line.append(f"{mean} ({len(fit)})" if partly else mean)
            lines.append(line)
    head = ["platform", "tokens", "paper"]
    head += [f"{way}, 2" for way in FUSED] + [f"{way}, 4" for way in FUSED]
    return table(head, lines)


def _cells(cells: Sequence[Row]) -> str:
    """Return L and A alone: what each way makes of them, as utilisation of the array."""
    lines = []
    for row in ran(cells):
        line: list[object] = [row["platform"], row["model"], SHORT[row["seq_len"]]]
        line += [f"{row['paper_speedup']:.2f}", f"{row['closed_form_speedup']:.2f}"]
        for base, ways in (("flex-2", ("table-1", "flat", "flash")), ("flex", ("flat", "best"))):
            for way in ways:
                ratio = speedup(row, way, base)
                line.append("-" if ratio is None else f"{ratio:.2f}")
        lines.append(line)
    head = ("platform", "model", "tokens", "paper", "closed form")
    machine = ("table-1, 2", "flat, 2", "flash, 2", "flat, 4", "best, 4")
    return table((*head, *machine), lines)


def draw(cells: Sequence[Row], path: Path) -> None:
    """Draw the speedups by length: the paper's, the closed form's, the machine's two readings."""
    with style():
        figure = new_figure(DOUBLE_COLUMN_INCHES, 4.4)
        panels = figure.subplots(2, 3, sharey="row", sharex=True)
        for line, platform in enumerate(("edge", "cloud")):
            platform_cells = [row for row in cells if row["platform"] == platform]
            _models(panels[line][0], platform_cells)
            for column, base, crossings in ((1, "flex-2", "twice"), (2, "flex", "four times")):
                _ways(panels[line][column], platform_cells, base)
                panels[line][column].set_title(f"machine, logits cross DRAM {crossings}")
            panels[line][0].set_title("paper (marks) and closed form (lines)")
            panels[line][0].set_ylabel(f"{platform}: speedup over flex")
        panels[0][0].legend(fontsize="x-small")
        panels[0][1].legend(fontsize="x-small")
        for axes in panels[1]:
            axes.set_xlabel("tokens")
        save_figure(figure, path, force=True)


def _models(axes: Axes, cells: Sequence[Row]) -> None:
    for model, colour, mark in zip(MODELS, SERIES_COLOURS, SERIES_MARKERS, strict=False):
        mine = [row for row in cells if row["model"] == model]
        lengths = [row["seq_len"] for row in mine]
        axes.plot(lengths, [row["closed_form_speedup"] for row in mine], color=colour)
        points = [row["paper_speedup"] for row in mine]
        axes.plot(lengths, points, mark, color=colour, label=model, markersize=4)
    _finish(axes)


def _ways(axes: Axes, cells: Sequence[Row], base: str) -> None:
    paper_means = [
        geometric_mean(row["paper_speedup"] for row in cells if row["seq_len"] == length)
        for length in paper.LENGTHS
    ]
    axes.plot(paper.LENGTHS, paper_means, "--", color="black", label="paper, mean")
    for way, colour, mark in zip(FUSED, SERIES_COLOURS, SERIES_MARKERS, strict=False):
        means, lengths = [], []
        for length in paper.LENGTHS:
            seq_len_rows = [row for row in ran(cells) if row["seq_len"] == length]
            speedups = [speedup(row, way, base) for row in seq_len_rows]
            fit = [ratio for ratio in speedups if ratio is not None]
            if fit:
                means.append(geometric_mean(fit))
                lengths.append(length)
        axes.plot(lengths, means, marker=mark, color=colour, label=way, markersize=4)
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.axhline(1, color="black", linewidth=0.5)
    axes.set_xscale("log", base=2)
    axes.set_xticks(paper.LENGTHS, [SHORT[one] for one in paper.LENGTHS])
    axes.grid(visible=True, linewidth=0.3, alpha=0.6)


EXHIBIT = Exhibit("fig_16", rows, text, draw)

if __name__ == "__main__":
    known_only = replace(EXHIBIT, rows=partial(rows, only_known=True))
    (known_only if "--known" in sys.argv else EXHIBIT).make()
