"""Draw the picture of the README from real runs: `python -m examples.picture` (about a minute).

Attention of BERT (L, softmax, A) on the edge accelerator: utilisation against sequence length,
and where the cycles of the PE array go at two lengths.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from simaccel import Result, build, load_accelerator, simulate

TARGET: Final = Path(__file__).parents[1] / "docs" / "images" / "attention_on_edge.png"
LENGTHS: Final = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
STACKED: Final = (512, 8192)
BATCH: Final = 64
K: Final = 1024

# Okabe and Ito's palette, which colour-blind readers can tell apart; markers differ as well.
DATAFLOWS: Final = {
    "naive": ("#999999", "s"),
    "flex": ("#E69F00", "o"),
    "flat": ("#0072B2", "D"),
    "flash": ("#009E73", "^"),
}
CAUSES: Final = {
    "useful": ("#0072B2", "multiplies (utilisation)"),
    "busy": ("#56B4E9", "busy, but PEs empty (fill, drain, edges)"),
    "sfu": ("#F0E442", "waits for the SFU"),
    "dram_bandwidth": ("#D55E00", "waits for DRAM bandwidth"),
    "dram_latency": ("#CC79A7", "waits for DRAM latency"),
    "idle": ("#555555", "waits for another operator (softmax runs alone)"),
    "other": ("#BBBBBB", "waits for anything else"),
}


def run(dataflow: str, seq_len: int) -> Result:
    """Run one point of the picture."""
    workload = build("bert", batch=BATCH, seq_len=seq_len, scope="la")
    on = load_accelerator("edge", ["dram.capacity_bytes=unlimited"])  # of 8 GiB, S takes 1,536
    return simulate(workload, on, dataflow)


def array_shares(result: Result) -> dict[str, float]:
    """Give what the array did, as shares of all cycles, by the keys of ``CAUSES``."""
    array, cycles = result.run.engines["array"], result.run.cycles
    shares = {
        "useful": result.utilisation,
        "busy": array.busy / cycles - result.utilisation,
        "idle": (array.idle + array.stalls.get("drain", 0)) / cycles,
    }
    for cause in ("sfu", "dram_bandwidth", "dram_latency"):
        shares[cause] = array.stalls.get(cause, 0) / cycles
    return {**shares, "other": 1 - sum(shares.values())}


def draw_lengths(axes: Axes, runs: dict[tuple[str, int], Result]) -> None:
    """Draw utilisation against sequence length."""
    for dataflow, (colour, marker) in DATAFLOWS.items():
        shares = [100 * runs[dataflow, n].utilisation for n in LENGTHS]
        axes.plot(LENGTHS, shares, color=colour, marker=marker, linewidth=1.8)
        axes.annotate(
            dataflow, (LENGTHS[-1], shares[-1]), (8, 0), textcoords="offset points", va="center"
        )
    axes.set_xscale("log", base=2)
    axes.set_xlim(LENGTHS[0] / 1.3, LENGTHS[-1] * 2.6)
    axes.set_xticks(LENGTHS, [f"{n}" if n < K else f"{n // K}K" for n in LENGTHS])
    axes.set_ylim(0, 100)
    axes.set_xlabel("sequence length (tokens)")
    axes.set_ylabel("utilisation (% of peak MACs per cycle)")
    axes.set_title("How well the PE array is used", loc="left")
    axes.grid(alpha=0.3)


def draw_causes(axes: Axes, runs: dict[tuple[str, int], Result]) -> None:
    """Draw where the array's cycles go, one bar per run."""
    rows = [(dataflow, n) for n in STACKED for dataflow in DATAFLOWS]
    places = [index + (0.7 if n == STACKED[1] else 0.0) for index, (_, n) in enumerate(rows)]
    left = [0.0] * len(rows)
    for cause, (colour, label) in CAUSES.items():
        shares = [100 * array_shares(runs[row])[cause] for row in rows]
        axes.barh(places, shares, left=left, color=colour, label=label, edgecolor="white")
        left = [a + b for a, b in zip(left, shares, strict=True)]
    axes.set_yticks(places, [f"{dataflow}, {n} tokens" for dataflow, n in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("cycles of the PE array (%)")
    axes.set_title("Where its cycles go", loc="left")


def main() -> None:
    """Run everything and write the picture."""
    runs = {(dataflow, n): run(dataflow, n) for dataflow in DATAFLOWS for n in LENGTHS}
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), width_ratios=(1, 1.15))
    draw_lengths(left, runs)
    draw_causes(right, runs)
    figure.suptitle(
        f"BERT attention (L, softmax, A), batch {BATCH}, on edge: "
        "32 x 32 PEs, 512 KiB, 50 GB/s of DRAM",
        x=0.01,
        ha="left",
    )
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(TARGET, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()
