"""What the exhibits say, in sentences whose figures come from the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from validation.flat import paper
from validation.flat.exhibit import HERE, Exhibit, Row, geometric_mean, read
from validation.flat.fig_16 import FUSED, ran, speedup


def text(cells: Sequence[Row]) -> str:
    """Return the list of findings."""
    found = [_hold(ran(cells)), _baseline(ran(cells)), _rows(ran(cells)), _online(ran(cells))]
    found += [_energy(ran(cells)), _decode(), _trust(ran(cells))]
    return "\n".join(f"{number}. {one}" for number, one in enumerate(found, start=1))


def _of(cells: Sequence[Row], platform: str) -> list[Row]:
    return [row for row in cells if row["platform"] == platform]


def _gains(cells: Sequence[Row], way: str, base: str) -> list[float]:
    return [one for row in cells if (one := speedup(row, way, base)) is not None]


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}, {geometric_mean(values):.2f} on average"


def _hold(cells: Sequence[Row]) -> str:
    edge, cloud = (_gains(_of(cells, one), "best", "flex") for one in ("edge", "cloud"))
    return (
        "**Keeping the logits on chip pays, on the machine too.** Against operators one after the "
        "other, each tiled as well as we can and softmax an operator of its own (the logits cross "
        "DRAM four times), the best fused mapping makes a whole block faster by "
        f"{_span(edge)}, on edge, and by {_span(cloud)}, on cloud. It grows with the length until L "
        "and A are all there is. It is the whole gain that an architect may count on who has such a "
        "baseline."
    )


def _baseline(cells: Sequence[Row]) -> str:
    edge, cloud = (_gains(_of(cells, one), "best", "flex-2") for one in ("edge", "cloud"))
    tiled = replace(paper.CALIBRATED, spilled=0)
    means = {
        platform: geometric_mean(
            paper.gains(one, model, length, tiled)[0]
            for model in paper.FITTED.values()
            for length in paper.LENGTHS
        )
        for platform, one in paper.PLATFORMS.items()
    }
    return (
        "**Most of figure 16 rests on its baseline.** The closed form gets the paper's speedups (1.75 "
        "and 1.65) only if the baseline's GEMMs do not block their rows: they then read an operand "
        "and spill sums once per array width, FC layers too. With tiles that fit "
        f"it says {means['edge']:.2f} on edge and {means['cloud']:.2f} on cloud. The machine agrees: "
        "against operators one after the other that are tiled well and whose logits cross DRAM twice, "
        f"as figure 16 implies, fusing gains {_span(edge)}, on edge, and {_span(cloud)}, on cloud. "
        "On edge two crossings hide behind the arithmetic; on cloud heads of 64 columns use a quarter "
        "of the array in A and, on a systolic array, in L as well, which the closed form does not "
        "charge (it then has the crossings to hide)."
    )


def _rows(cells: Sequence[Row]) -> str:
    fits = {
        platform: sum(row["table-1_cycles"] != "" for row in _of(cells, platform))
        for platform in paper.PLATFORMS
    }
    streamed = [row for row in cells if row["flat_cycles"] != ""]
    slower = [row for row in streamed if (speedup(row, "flat", "flex") or 0) < 1]
    worst = min(streamed, key=lambda row: speedup(row, "flat", "flex") or 0)
    none = [row for row in cells if row["flat_cycles"] == ""]
    where = ", ".join(
        f"{sum(row['platform'] == one for row in slower)} of them on {one}"
        for one in paper.PLATFORMS
    )
    return (
        "**Where whole rows can't fit.** Table 1, executed as it stands (K and V of a head whole, two "
        f"slots), fits {fits['edge']} of {len(_of(cells, 'edge'))} edge cells and {fits['cloud']} of "
        f"{len(_of(cells, 'cloud'))} cloud cells: at 1,024 tokens K and V of one head alone fill 512 "
        "KiB. With keys streamed again for each block of rows it runs in "
        f"{len(streamed)} of {len(cells)} cells, and in {len(slower)} of them ({where}) it is *slower* "
        f"than flex; the worst is {worst['platform']} {worst['model']} at {worst['seq_len']:,} tokens, "
        f"{speedup(worst, 'flat', 'flex'):.2f} x. "
        f"In {len(none)} cells not one row of logits fits. The paper's largest gains (2.4 to 3.1 x on "
        "edge from 64K tokens) are in cells where its own row granularity either doesn't fit or loses."
    )


def _online(cells: Sequence[Row]) -> str:
    every = _gains(cells, "flash", "flex")
    over = [
        one for row in cells if row["flat_cycles"] != "" and (one := speedup(row, "flash", "flat"))
    ]
    better = sum(one > 1.005 for one in over)
    return (
        "**Online softmax repairs that.** With running maxima and sums (flash; not in the paper) rows "
        f"are cut too, so that it fits everywhere: {len(every)} of {len(cells)} cells, "
        f"{_span(every)}, over flex with four crossings. It beats FLAT with streamed keys by more than "
        f"0.5% in {better} of the {len(over)} cells where that fits, by up to {max(over):.1f} x, and is behind "
        f"it by up to {1 - min(over):.0%} at short lengths, where rows fit anyway and rescaling sums is "
        "work for nothing."
    )


def _energy(cells: Sequence[Row]) -> str:
    def ratios(way: str, base: str) -> list[float]:
        return [
            row[f"{way}_energy_uj"] / row[f"{base}_energy_uj"]
            for row in cells
            if row[f"{way}_energy_uj"] != ""
        ]

    return (
        "**Energy follows bytes, not time.** Best over flex, whole block: "
        f"{_span(ratios('best', 'flex'))} with four crossings, {_span(ratios('best', 'flex-2'))} with "
        "two; the paper has 0.56 on edge and 0.45 on cloud. Where fusing gains no time (edge, two "
        "crossings) it still saves the DRAM energy of the logits."
    )


def _decode() -> str:
    found = read(HERE / "decode.csv")
    over = [row["flex_cycles"] / row[f"{way}_cycles"] for row in found for way in ("flat", "flash")]
    share = max(row["utilisation"] for row in found)
    return (
        "**A decode step has nothing to fuse.** One new token makes a row of logits, not a square; the "
        "time is that of reading K and V (edge) or of loading them into the array (cloud). FLAT and "
        f"flash over flex: {_span(over)}, at an array utilisation of {share:.1%} at most."
    )


def _trust(cells: Sequence[Row]) -> str:
    off = [
        abs(row[f"{way}_estimate_cycles"] / row[f"{way}_cycles"] - 1)
        for row in cells
        for way in ("flex", "flex-2", *FUSED)
        if row[f"{way}_cycles"] != ""
    ]
    fusion = [row for row in cells if row["best_cycles"] == row["flash_cycles"]]
    return (
        f"**How far to trust these.** simaccel's own closed form and the machine differ by "
        f"{max(off):.1%} at most in the {len(off)} runs ({sum(off) / len(off):.2%} on average). In "
        f"{len(fusion)} of {len(cells)} cells the best mapping of all is flash. What no run here knows: "
        "the paper's clock, element size and model sizes, which are fitted (below)."
    )


def _no_picture(_cells: Sequence[Row], _path: Path) -> None:
    """Draw nothing."""


EXHIBIT = Exhibit("findings", list, text, _no_picture, shared="fig_16")

if __name__ == "__main__":
    EXHIBIT.make()
