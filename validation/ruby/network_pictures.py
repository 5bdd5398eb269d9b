"""The pictures of figures 10 to 14."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from validation.ruby.pictures import COLOURS, bare, plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, Any]
PAPER: Final[Mapping[str, Mapping[str, float]]] = {
    "fig_10": {"edp": 0.86, "cycles": 0.83, "energy": 1.02},
    "fig_11": {"edp": 0.90},
    "fig_11_cycles": {"cycles": 0.86},
    "fig_12": {"edp": 0.90},
    "fig_12_9": {"edp": 0.55},
    "fig_14": {"mean edp": 0.76},
}
"""Ruby-S over PFM, as the paper's text gives them: of the network, or the mean over kernels or, of
Fig. 14, over arrays with ResNet-50."""
_QUANTITIES: Final = {"edp": "#D55E00", "cycles": "#56B4E9", "energy": "#009E73"}
_FIELDS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_MARKS: Final = {"pfm": "o", "padded": "s", "ruby-s": "D"}


def draw_layers(panels: Mapping[str, tuple[str, Sequence[Row], Sequence[Row]]], path: Path) -> None:
    """Draw EDP, cycles and energy of each layer over those of PFM, a panel an accelerator.

    A panel: its name in `PAPER`, the rows, and those of a search as the paper's.
    """
    plt = plots()
    height = 3.4 * len(panels) + 0.6
    figure, grid = plt.subplots(
        len(panels), 1, figsize=(10.0, height), layout="constrained", sharex=True, squeeze=False
    )
    for axes, (title, (paper, rows, sampled)) in zip(grid[:, 0], panels.items(), strict=True):
        _layer_bars(axes, rows, sampled, PAPER[paper])
        axes.set_title(title, fontsize=10, loc="left")
    names = [_layer_name(row) for row in rows]
    grid[-1, 0].set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    figure.supylabel("Ruby-S over PFM", fontsize=10)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=5, frameon=False, fontsize=8, loc="outside upper center")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _layer_name(row: Row) -> str:
    times = int(row["times"])
    return f"{row['layer']} ({times}x)" if times > 1 else str(row["layer"])


def _layer_bars(
    axes: Axes, rows: Sequence[Row], sampled: Sequence[Row], paper: Mapping[str, float]
) -> None:
    for at, (name, colour) in enumerate(_QUANTITIES.items()):
        places = [x + 0.26 * (at - 1) for x in range(len(rows))]
        axes.bar(
            places, [row[f"{name} over pfm"] for row in rows], width=0.26, color=colour, label=name
        )
        if name in paper:
            label = "paper, network" if name == "edp" else None
            axes.plot(places[-1:], [paper[name]], "_", color="black", markersize=9,
                      markeredgewidth=2, label=label)  # fmt: skip
    axes.plot(
        [x - 0.26 for x in range(len(rows))],
        [row["edp over pfm"] for row in sampled],
        "o",
        color="black",
        markerfacecolor="white",
        markersize=3.5,
        label="edp, searched as in the paper",
    )
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.axvline(len(rows) - 1.5, color="grey", linewidth=0.8, linestyle=":")
    axes.set_xlim(-0.6, len(rows) - 0.4)
    bare(axes)


def draw_fig_11(by_edp: Sequence[Row], by_cycles: Sequence[Row], path: Path) -> None:
    """Draw each kernel's EDP, and its cycles where these are the objective, over PFM's."""
    plt = plots()
    figure, grid = plt.subplots(2, 1, figsize=(10.0, 6.6), layout="constrained", sharex=True)
    for axes, rows, what, paper in (
        (grid[0], by_edp, "edp", PAPER["fig_11"]["edp"]),
        (grid[1], by_cycles, "cycles", PAPER["fig_11_cycles"]["cycles"]),
    ):
        ratios = [row[f"{what} over pfm"] for row in rows]
        fields = list(dict.fromkeys(row["group"] for row in rows))
        for field, colour in zip(fields, _FIELDS, strict=False):
            places = [at for at, row in enumerate(rows) if row["group"] == field]
            axes.bar(places, [ratios[at] for at in places], width=0.75, color=colour, label=field)
        mean = sum(ratios) / len(ratios)
        axes.axhline(1, color="grey", linewidth=0.8)
        axes.axhline(mean, color="black", linewidth=1, label="mean")
        axes.axhline(paper, color="black", linewidth=1, linestyle="--", label="mean, paper")
        text = f"mean {mean:.2f}, paper {paper:.2f}"
        axes.set_title(f"{what} for objective {what}: {text}", fontsize=10, loc="left")
        bare(axes)
    grid[1].set_xticks(
        range(len(rows)), [row["layer"] for row in rows], rotation=60, ha="right", fontsize=7
    )
    grid[1].set_xlim(-0.6, len(rows) - 0.4)
    figure.supylabel("Ruby-S over PFM", fontsize=10)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=6, frameon=False, fontsize=8, loc="outside upper center")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_fig_13(rows: Sequence[Row], path: Path) -> None:
    """Draw EDP over area: a point for each array and mapspace, a line for each frontier."""
    plt = plots()
    names = list(dict.fromkeys(row["workload"] for row in rows))
    figure, grid = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained", sharex=True)
    for axes, name in zip(grid, names, strict=True):
        workload_rows = [row for row in rows if row["workload"] == name]
        for strategy, mark in _MARKS.items():
            style = {"color": COLOURS[strategy], "label": strategy}
            x, y = (
                [row["area_mm2"] for row in workload_rows],
                [row[f"{strategy} edp"] for row in workload_rows],
            )
            axes.plot(x, y, mark, markersize=4.5, markeredgewidth=0, **style)
            lowest = [at for at in range(len(x)) if y[at] < min(y[:at], default=float("inf"))]
            axes.step([x[at] for at in lowest], [y[at] for at in lowest], where="post",
                      linewidth=0.9, color=COLOURS[strategy])  # fmt: skip
        for row in workload_rows:
            if row["ruby-s on frontier"]:
                label = f"{row['columns']}x{row['rows']}"
                axes.annotate(label, (row["area_mm2"], row["ruby-s edp"]), fontsize=7,
                              xytext=(-3, -10), textcoords="offset points", ha="right")  # fmt: skip
        axes.set(yscale="log", xlabel="area (mm2, 45 nm)", xlim=(1.1, None))
        axes.set_title(name, fontsize=10, loc="left")
        bare(axes)
    grid[0].set_ylabel("EDP (J cycles)")
    grid[1].set_ylabel("geometric mean of EDP (J cycles)")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=3, frameon=False, fontsize=8, loc="outside upper center")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_fig_14(rows: Sequence[Row], path: Path) -> None:
    """Draw what padding and Ruby-S save of PFM's EDP on each array."""
    plt = plots()
    names = list(dict.fromkeys(row["workload"] for row in rows))
    figure, grid = plt.subplots(2, 1, figsize=(8.0, 5.6), layout="constrained", sharex=True)
    for axes, name in zip(grid, names, strict=True):
        workload_rows = [row for row in rows if row["workload"] == name]
        for shift, strategy in ((-0.2, "padded"), (0.2, "ruby-s")):
            saved = [100 * row[f"{strategy} saves"] for row in workload_rows]
            places = [at + shift for at in range(len(workload_rows))]
            bars = axes.bar(places, saved, width=0.4, color=COLOURS[strategy], label=strategy)
            axes.bar_label(bars, fmt="%.0f", fontsize=7, padding=1)
        mean = sum(100 * row["ruby-s saves"] for row in workload_rows) / len(workload_rows)
        axes.axhline(mean, color=COLOURS["ruby-s"], linewidth=0.9, linestyle="--", label="mean")
        title = f"{name}: Ruby-S saves {mean:.0f}% on average"
        if name == "ResNet-50":
            paper = 100 * (1 - PAPER["fig_14"]["mean edp"])
            axes.axhline(paper, color="black", linewidth=0.9, linestyle="--", label="mean, paper")
            title += f", in the paper {paper:.0f}% over arrays of its own"
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_ylabel("saved of PFM's EDP (%)")
        bare(axes)
    labels = [f"{row['columns']}x{row['rows']}" for row in workload_rows]
    grid[-1].set_xticks(range(len(labels)), labels, fontsize=8)
    grid[-1].set_xlabel("columns x rows")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=4, frameon=False, fontsize=8, loc="outside upper center")
    figure.savefig(path, dpi=150)
    plt.close(figure)
