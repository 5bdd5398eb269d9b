"""A decode step: one new row of queries against a cache. `python -m validation.flat.decode`.

The logits are then a row, not a square: there is nothing for FLAT to keep on chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simaccel.importers.accelerators import load_accelerator
from simaccel.report.figures.style import SINGLE_COLUMN_INCHES, new_figure, save_figure, style
from simaccel.study.experiment import simulate
from simaccel.workload.language.build import transformer
from validation import PLAIN
from validation.flat import paper
from validation.flat.exhibit import SHORT, Exhibit, Row, table
from validation.flat.pictures import curves, finish

MODEL = "llama2-7b"
LENGTHS = (4096, 65536)
WAYS = ("flex", "flat", "flash")


def rows() -> list[Row]:
    """Return cycles of L, softmax and A of one token, and those of reading the cache once."""
    results = []
    for platform in paper.PLATFORMS:
        accelerator = load_accelerator(platform, PLAIN)
        bandwidth = accelerator.dram.bandwidth_bytes_per_second
        assert bandwidth is not None
        for length in LENGTHS:
            work = transformer(MODEL, phase="decode", kv_len=length, scope="la")
            row: Row = {"platform": platform, "seq_len": length}
            cache = sum(work.tensor_bytes(name) for name in ("K", "V"))
            row["cache_bytes"] = cache
            row["cache_cycles"] = round(cache / bandwidth * accelerator.clock_hz)
            for way in WAYS:
                result = simulate(work, accelerator, way)
                moved = result.run.moved.items()
                row[f"{way}_cycles"] = result.run.cycles
                row[f"{way}_dram_bytes"] = sum(n for (at, _), n in moved if at.startswith("dram"))
            row["utilisation"] = result.utilisation
            results.append(row)
    return results


def text(results: Sequence[Row]) -> str:
    """Return times over that of reading the cache once, and what flat and flash gain."""
    lines = [
        (
            row["platform"],
            SHORT[row["seq_len"]],
            f"{row['cache_bytes'] / 2**20:.0f} MiB",
            *(f"{row[f'{way}_cycles'] / row['cache_cycles']:.3f}" for way in WAYS),
            *(f"{row['flex_cycles'] / row[f'{way}_cycles']:.3f}" for way in WAYS[1:]),
            f"{row['utilisation']:.3f}",
        )
        for row in results
    ]
    head = ["platform", "cache", "K and V of a layer", *(f"{way}, times the cache" for way in WAYS)]
    return table([*head, "flat over flex", "flash over flex", "utilisation"], lines)


def draw(results: Sequence[Row], path: Path) -> None:
    """Draw speedups over flex."""
    with style():
        figure = new_figure(SINGLE_COLUMN_INCHES, 2.2)
        axes = figure.subplots()
        lines = {
            f"{way}, {platform}": [
                (row["seq_len"], row["flex_cycles"] / row[f"{way}_cycles"])
                for row in results
                if row["platform"] == platform
            ]
            for platform in paper.PLATFORMS
            for way in WAYS[1:]
        }
        curves(axes, lines)
        axes.set(xscale="log", ylim=(0.8, 1.3), ylabel="speedup over flex")
        axes.set_xticks(LENGTHS, [SHORT[length] for length in LENGTHS])
        axes.minorticks_off()
        axes.legend()
        finish(axes, f"a decode step of {MODEL}", "tokens in the cache")
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("decode", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
