"""Figure 15: where the time of a block goes. `python -m validation.flat.fig_15`.

Naive, flex and flat as in the paper; on the machine also flash and flex whose logits cross twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    SERIES_COLOURS,
    new_figure,
    save_figure,
    style,
)
from validation.flat import paper
from validation.flat.exhibit import SHORT, Exhibit, Row, stated, table
from validation.flat.fig_16 import point
from validation.flat.points import solve

CASES = (("edge", "BERT", (512, 4096, 16384, 65536)), ("cloud", "XLM", (4096, 16384, 65536)))
_HIGHEST = 6
"""Where the pictures end; taller bars say how tall they are."""
FORMULAS = ("naive", "flex", "flat")
WAYS = ("naive", "flex", "flex-2", "flat", "flash")
PARTS = {
    "K/Q/V/O": ("Q", "K", "V", "O"),
    "L-A": ("L", "softmax", "A", "statistics", "normalise"),
    "FF1/FF2": ("FF1", "FF2"),
}


def rows() -> list[Row]:
    """Return each part's time over the ideal time of the block."""
    found = []
    for platform, model, lengths in CASES:
        for length in lengths:
            found += [_formula(platform, model, length, way) for way in WAYS if way in FORMULAS]
            found += [_machine(platform, model, length, way) for way in WAYS]
    return found


def _about(platform: str, model: str, length: int, way: str, kind: str) -> Row:
    return {"platform": platform, "model": model, "seq_len": length, "way": way, "kind": kind}


def _formula(platform: str, model: str, length: int, way: str) -> Row:
    hardware = paper.PLATFORMS[platform]
    work = paper.block(hardware, paper.FITTED[model], length, way)  # type: ignore[arg-type]
    clock = paper.CALIBRATED
    ideal = sum(one.macs for one in work.values()) / (hardware.side**2 * clock.clock_hz)
    one = {name: part.seconds(hardware, clock) / ideal for name, part in work.items()}
    parts = {"K/Q/V/O": one["proj"], "L-A": one["L"] + one["A"], "FF1/FF2": one["ff"]}
    return _about(platform, model, length, way, "closed form") | parts


def _machine(platform: str, model: str, length: int, way: str) -> Row:
    found = solve(point(platform, model, length, way))
    parts: Row = dict.fromkeys(PARTS, "")
    if found["fits"]:
        ideal = found["ideal_cycles"]
        parts = {
            part: sum(n for name, n in found["operators"].items() if {*name.split("+")} & {*names})
            / ideal
            for part, names in PARTS.items()
        }
    return _about(platform, model, length, way, "machine") | parts


def whole(row: Mapping[str, float]) -> float:
    """Return a block's time over its ideal time."""
    return sum(row[part] for part in PARTS)


def text(results: Sequence[Row]) -> str:
    """Return time by part, the share of L-A, and the speedups that the text states."""
    lines = []
    for row in results:
        if row["L-A"] == "":
            continue
        lines.append(
            (
                row["platform"],
                SHORT[row["seq_len"]],
                row["kind"],
                row["way"],
                *(f"{row[part]:.2f}" for part in PARTS),
                f"{whole(row):.2f}",
                f"{row['L-A'] / whole(row):.0%}",
            )
        )
    head = ("platform", "tokens", "by", "way", *PARTS, "block", "share of L-A")
    return f"{_stated(results)}\n\n{table(head, lines)}"


def _stated(results: Sequence[Row]) -> str:
    say, lines = stated(), []
    for length, value in ((512, "512"), (4096, "4K"), (16384, "16K"), (65536, "64K")):
        theirs = f"{say['fig_10', f'L+A share of runtime at {value}']:.0%}"
        line = [f"share of L-A, edge, {value}", theirs]
        for kind in ("closed form", "machine"):
            row = _find(results, "edge", length, "flex", kind)
            line.append(f"{row['L-A'] / whole(row):.0%}")
        lines.append(line)
    for platform, what in (("edge", "speedup BERT edge 64K"), ("cloud", "speedup XLM cloud 64K")):
        line = [what, f"{say['fig_15', what]:.2f}"]
        for kind in ("closed form", "machine"):
            flex, flat = (
                whole(_find(results, platform, 65536, way, kind)) for way in ("flex", "flat")
            )
            line.append(f"{flex / flat:.2f}")
        lines.append(line)
    return table(("statement (flex; flat over flex)", "paper", "closed form", "machine"), lines)


def _find(found: Sequence[Row], platform: str, length: int, way: str, kind: str) -> Row:
    wanted = (platform, length, way, kind)
    return next(
        row for row in found if (row["platform"], row["seq_len"], row["way"], row["kind"]) == wanted
    )


def draw(results: Sequence[Row], path: Path) -> None:
    """Draw stacks, a panel a platform and kind."""
    with style():
        figure = new_figure(DOUBLE_COLUMN_INCHES, 4.6)
        panels = figure.subplots(2, 2, sharey="row")
        for line, (platform, model, _) in enumerate(CASES):
            for axes, kind in zip(panels[line], ("closed form", "machine"), strict=True):
                model_rows = [
                    row
                    for row in results
                    if (row["platform"], row["kind"]) == (platform, kind) and row["L-A"] != ""
                ]
                bottom = [0.0] * len(model_rows)
                for part, colour in zip(PARTS, SERIES_COLOURS, strict=False):
                    heights = [row[part] for row in model_rows]
                    axes.bar(
                        range(len(model_rows)), heights, bottom=bottom, label=part, color=colour
                    )
                    bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
                labels = [f"{row['way']} {SHORT[row['seq_len']]}" for row in model_rows]
                axes.set_xticks(range(len(model_rows)), labels, rotation=90, fontsize=5)
                for at, top in enumerate(bottom):
                    if top > _HIGHEST:
                        axes.annotate(f"{top:.0f}", (at + 0.45, _HIGHEST - 0.3), fontsize=6)
                axes.axhline(1, color="black", linewidth=0.5)
                axes.set(title=f"{model}, {platform}, {kind}", ylim=(0, _HIGHEST))
            panels[line][0].set_ylabel("time over ideal time")
        panels[0][0].legend()
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("fig_15", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
