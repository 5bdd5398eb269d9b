"""The pictures of MAESTRO's exhibits, and of the machine against the analysis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from validation.maestro.networks import DATAFLOWS
from validation.ruby.pictures import bare, plots

Row = dict[str, Any]
COLOURS = dict(
    zip(DATAFLOWS, ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00"), strict=True)
) | {"adaptive": "#888888"}
_BANDWIDTHS = {8: "s", 32: "o", 1000: "^"}


def draw_machine(rows: Sequence[Row], path: Path) -> None:
    """Draw the cycles of the analysis over those of the machine."""
    plt = plots()
    figure, axes = plt.subplots(figsize=(5.6, 5.0), layout="constrained")
    for dataflow in DATAFLOWS:
        for bandwidth, marker in _BANDWIDTHS.items():
            selected = [
                row
                for row in rows
                if row["dataflow"] == dataflow and row["noc_bandwidth"] == bandwidth
            ]
            axes.scatter(
                [row["machine_cycles"] for row in selected],
                [row["analysis_cycles"] for row in selected],
                s=9,
                marker=marker,
                facecolor="none",
                edgecolor=COLOURS[dataflow],
                linewidth=0.7,
                label=dataflow if bandwidth == 32 else None,
            )
    ends = [min(r["machine_cycles"] for r in rows), max(r["machine_cycles"] for r in rows)]
    for factor, style in ((1, "-"), (5, ":"), (1 / 3, ":")):
        axes.plot(ends, [factor * end for end in ends], style, color="grey", linewidth=0.7)
        axes.text(ends[1], factor * ends[1], f" x{factor:.2g}", fontsize=7, va="center")
    axes.set(xscale="log", yscale="log", xlabel="cycles, machine", ylabel="cycles, analysis")
    axes.legend(frameon=False, fontsize=8, title="squares 8, circles 32, triangles 1000 el/cycle")
    axes.get_legend().get_title().set_fontsize(7)
    bare(axes)
    _save(plt, figure, path)


def draw_fig_9(rows: Sequence[Row], path: Path) -> None:
    """Draw Eyeriss: silicon, the tool, the analysis and the machine by layer."""
    plt = plots()
    figure, axes = plt.subplots(figsize=(5.6, 3.0), layout="constrained")
    kinds = {"silicon": "#444444", "tool": "#56B4E9", "analysis": "#0072B2", "machine": "#D55E00"}
    for at, (name, colour) in enumerate(kinds.items()):
        places = [place + 0.2 * at for place in range(len(rows))]
        values = [(row[name] or 0) / 1e6 for row in rows]
        axes.bar(places, values, 0.19, color=colour, label=name)
    axes.set_xticks([place + 0.3 for place in range(len(rows))], [row["layer"] for row in rows])
    axes.set(ylabel="million cycles")
    axes.legend(frameon=False, fontsize=8)
    bare(axes)
    _save(plt, figure, path)


def draw_fig_10(rows: Sequence[Row], path: Path) -> None:
    """Draw cycles (analysis and machine) and energy of each dataflow by network or operator."""
    plt = plots()
    column = next(iter(rows[0]))
    groups = list(dict.fromkeys(row[column] for row in rows))
    figure, panels = plt.subplots(3, 1, figsize=(8.2, 6.4), layout="constrained", sharex=True)
    names = {
        "analysis_cycles": "cycles, analysis",
        "machine_cycles": "cycles, machine",
        "energy_xmac": "energy (MACs)",
    }
    for axes, (name, label) in zip(panels, names.items(), strict=True):
        for at, dataflow in enumerate(COLOURS):
            bars = {row[column]: row[name] for row in rows if row["dataflow"] == dataflow}
            places = [place + 0.14 * at for place in range(len(groups))]
            values = [bars[group] for group in groups]
            axes.bar(places, values, 0.13, color=COLOURS[dataflow], label=dataflow)
        axes.set(yscale="log", ylabel=label)
        bare(axes)
    panels[0].legend(frameon=False, fontsize=8, ncols=6, loc="lower left", bbox_to_anchor=(0, 1))
    labels = [group.replace(" ", "\n") for group in groups]
    panels[-1].set_xticks([place + 0.35 for place in range(len(groups))], labels, fontsize=8)
    _save(plt, figure, path)


def draw_fig_11(rows: Sequence[Row], path: Path) -> None:
    """Draw reuse of inputs and filters, and the bandwidth that hides transfers."""
    plt = plots()
    operators = list(dict.fromkeys(row["operator"] for row in rows))
    figure, panels = plt.subplots(3, 1, figsize=(6.6, 6.0), layout="constrained", sharex=True)
    names = {
        "input_reuse": "L1 reads per input",
        "filter_reuse": "L1 reads per weight",
        "bandwidth_mean": "elements per cycle",
    }
    for axes, (name, label) in zip(panels, names.items(), strict=True):
        for at, dataflow in enumerate(DATAFLOWS):
            dataflow_rows = [row for row in rows if row["dataflow"] == dataflow]
            places = [operators.index(row["operator"]) + 0.16 * at for row in dataflow_rows]
            axes.bar(places, [row[name] for row in dataflow_rows], 0.15, color=COLOURS[dataflow])
            if name != "bandwidth_mean":
                most = [row[f"{name}_most"] for row in dataflow_rows]
                axes.plot(places, most, "_", color="black", markersize=8)
        axes.set(yscale="log", ylabel=label)
        bare(axes)
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[dataflow]) for dataflow in DATAFLOWS]
    handles.append(plt.Line2D([], [], marker="_", linestyle="", color="black"))
    panels[0].legend(
        handles,
        [*DATAFLOWS, "algorithmic most"],
        frameon=False,
        fontsize=8,
        ncols=6,
        loc="lower left",
        bbox_to_anchor=(0, 1),
    )
    panels[-1].set_xticks([place + 0.32 for place in range(len(operators))], operators)
    _save(plt, figure, path)


def draw_fig_12(rows: Sequence[Row], path: Path) -> None:
    """Draw the energy of MACs, L1 and L2, in multiples of the MACs' energy."""
    plt = plots()
    operators = list(dict.fromkeys(row["operator"] for row in rows))
    figure, panels = plt.subplots(
        1, len(operators), figsize=(9.2, 2.8), layout="constrained", sharey=True
    )
    parts = {"mac": "#444444", "l1": "#56B4E9", "l2": "#D55E00"}
    for axes, operator in zip(panels, operators, strict=True):
        operator_rows = [row for row in rows if row["operator"] == operator]
        below = [0.0] * len(operator_rows)
        for part, colour in parts.items():
            values = [row[part] for row in operator_rows]
            axes.bar(
                range(len(operator_rows)),
                values,
                0.7,
                bottom=below,
                color=colour,
                label=part.upper(),
            )
            below = [a + b for a, b in zip(below, values, strict=True)]
        axes.set_xticks(
            range(len(operator_rows)), [row["dataflow"] for row in operator_rows], fontsize=7
        )
        axes.set_title(operator, fontsize=9)
        bare(axes)
    panels[0].set_ylabel("energy / MACs of C-P")
    panels[-1].legend(frameon=False, fontsize=8)
    _save(plt, figure, path)


def draw_fig_13(rows: Sequence[Row], best: Sequence[Row], path: Path) -> None:
    """Draw throughput over area and over buffers, coloured by PEs; the best marked."""
    plt = plots()
    cases = [(layer, name) for layer in ("CONV2", "CONV11") for name in ("KC-P", "YR-P")]
    figure, panels = plt.subplots(2, 4, figsize=(9.6, 4.8), layout="constrained")
    shown = None
    for column, (layer, name) in enumerate(cases):
        selected = [r for r in rows if r["layer"] == layer and r["dataflow"].startswith(name)]
        marks = [r for r in best if r["layer"] == layer and r["dataflow"].startswith(name)]
        for row, (over, label) in enumerate((("area", "area, mm2"), ("buffer", "buffers, KB"))):
            axes = panels[row][column]
            shown = axes.scatter(
                [_over(row, over) for row in selected],
                [row["throughput"] for row in selected],
                s=3,
                c=[row["pes"] for row in selected],
                cmap="viridis",
                vmin=0,
                vmax=200,
            )
            for objective, marker in (("throughput", "*"), ("energy", "x")):
                best_marks = _best(marks, objective)
                at = _over(best_marks, over), best_marks["throughput"]
                axes.plot(*at, marker, color="red", markersize=9, markerfacecolor="none")
            axes.set(xlabel=label)
            if column == 0:
                axes.set_ylabel("MACs per cycle")
            if row == 0:
                axes.set_title(f"{name}, {layer}", fontsize=9)
            bare(axes)
    figure.colorbar(shown, ax=panels, label="PEs", shrink=0.6)
    _save(plt, figure, path)


def _over(row: Row, name: str) -> float:
    if name == "area":
        return float(row["area_um2"]) / 1e6
    return float(row["pes"] * row["l1_bytes"] + row["l2_bytes"]) / 1024


def _best(rows: Sequence[Row], objective: str) -> Row:
    some = [row for row in rows if row["objective"] == objective]
    if objective == "energy":
        return min(some, key=lambda row: row["energy_xmac"])
    return max(some, key=lambda row: row["throughput"])


def _save(plt: Any, figure: Any, path: Path) -> None:  # noqa: ANN401 - matplotlib's
    figure.savefig(path, dpi=130)
    plt.close(figure)
