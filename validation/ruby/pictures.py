"""The pictures of the exhibits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, Any]
COLOURS = {
    "pfm": "#0072B2",
    "ruby-s": "#D55E00",
    "ruby-t": "#009E73",
    "ruby": "#CC79A7",
    "padded": "#E69F00",
}
_LINES = {"pfm": "-", "ruby-s": "-", "ruby-t": "--", "ruby": ":", "padded": "-"}


def plots() -> Any:  # noqa: ANN401 - matplotlib is slow to import and only needed here
    """Give matplotlib, drawing to files only."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    return plt


def bare(axes: Axes) -> None:
    """Take away the lines above and to the right."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw_table_1(rows: Sequence[Row], path: Path) -> None:
    """Draw the number of chains over the size of the rank."""
    plt = plots()
    figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    sizes = [row["rank"] for row in rows]
    for name in ("pfm", "ruby-s", "ruby-t", "ruby"):
        counts = [row[name] for row in rows]
        style = {"marker": "o", "markersize": 3, "linewidth": 0.6, "color": COLOURS[name]}
        axes.plot(sizes, counts, label=name, **style)
    pruned = [row["equation 5, nothing pruned"] for row in rows]
    axes.plot(sizes, pruned, color="grey", linestyle="--", label="equation 5, nothing pruned")
    axes.set(xscale="log", yscale="log", xlabel="size of the rank", ylabel="chains")
    axes.legend(frameon=False, fontsize=8)
    bare(axes)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_fig_7(rows: Sequence[Row], path: Path) -> None:
    """Draw the best EDP so far over the mappings that were evaluated, for the four cases."""
    plt = plots()
    cases = list(dict.fromkeys(row["case"] for row in rows))
    figure, grid = plt.subplots(2, 2, figsize=(8.0, 5.6), layout="constrained")
    for axes, case in zip(grid.flat, cases, strict=True):
        for name in ("pfm", "ruby-s", "ruby-t", "ruby"):
            chosen = [row for row in rows if (row["case"], row["mapspace"]) == (case, name)]
            x, y = [row["mappings"] for row in chosen], [row["edp"] for row in chosen]
            axes.plot(x, y, color=COLOURS[name], linestyle=_LINES[name], label=name)
        axes.set(xscale="log", yscale="log", title=case)
        bare(axes)
    grid[0][0].legend(frameon=False, fontsize=8)
    figure.supxlabel("valid mappings evaluated", fontsize=10)
    figure.supylabel("mean of the best EDP (J cycles)", fontsize=10)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_fig_8(rows: Sequence[Row], path: Path) -> None:
    """Draw the EDP of perfect and padded mappings over that of Ruby-S, against the size."""
    plt = plots()
    figure, axes = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
    sizes = [row["d"] for row in rows]
    for name in ("pfm", "padded"):
        ratios = [row[f"{name} over ruby-s"] for row in rows]
        axes.plot(sizes, ratios, color=COLOURS[name], linewidth=1, label=f"{name} over ruby-s")
    axes.axhline(1, color=COLOURS["ruby-s"], linewidth=1, label="ruby-s")
    places = {113: (78, 19.0), 127: (124, 19.0)}
    for size, place in places.items():
        (row,) = [row for row in rows if row["d"] == size]
        for name in ("pfm", "padded"):
            axes.plot([size], [row[f"{name} over ruby-s"]], "o", markersize=4, color=COLOURS[name])
        both = f"{row['pfm over ruby-s']:.1f} and {row['padded over ruby-s']:.2f}"
        axes.annotate(f"D = {size}: {both}", place, fontsize=8)
    axes.set(yscale="log", xlabel="size D of the rank, on 16 PEs", ylabel="EDP over that of Ruby-S")
    axes.set_yticks([1, 2, 5, 10, 15], ["1", "2", "5", "10", "15"])
    axes.minorticks_off()
    axes.set_ylim(0.9, 24)
    figure.legend(ncols=3, frameon=False, fontsize=8, loc="outside upper center")
    bare(axes)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_fig_9(rows: Sequence[Row], path: Path) -> None:
    """Draw cycles, energy and EDP of the mappings of AlexNet's layer 2, ours and Timeloop's."""
    plt = plots()
    figure, grid = plt.subplots(1, 3, figsize=(9.5, 3.4), layout="constrained", sharey=True)
    names = [row["case"] for row in rows]
    quantities = {
        "cycles": "cycles (thousands)",
        "energy_uj": "energy (uJ)",
        "edp_j_cycles": "EDP (J cycles)",
    }
    for axes, (name, label) in zip(grid, quantities.items(), strict=True):
        scale = 1000 if name == "cycles" else 1
        for shift, who, colour in ((-0.2, "", "#D55E00"), (0.2, "timeloop_", "#999999")):
            values = [float(row[who + name]) / scale for row in rows]
            places = [at + shift for at in range(len(rows))]
            label_ = "Timeloop" if who else "simaccel"
            bars = axes.barh(places, values, height=0.38, color=colour, label=label_)
            axes.bar_label(bars, fmt="%.0f", fontsize=7, padding=2)
        axes.set(xlabel=label)
        axes.set_xlim(0, 1.2 * axes.dataLim.x1)
        axes.set_yticks(range(len(rows)), names, fontsize=8)
        bare(axes)
    grid[0].invert_yaxis()
    figure.legend(*grid[0].get_legend_handles_labels(), ncols=2, frameon=False, fontsize=8,
                  loc="outside upper center")  # fmt: skip
    figure.savefig(path, dpi=150)
    plt.close(figure)
