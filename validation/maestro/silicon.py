"""Eyeriss on AlexNet (batch 4): published cycles beside the tool, the analysis and the machine."""

from __future__ import annotations

from typing import Any

from simaccel import load_accelerator, simulate
from simaccel.papers.maestro.analysis.analysis import analyse_layer
from simaccel.papers.maestro.analysis.hardware import hardware_of
from simaccel.papers.maestro.analysis.paper import PAPER
from simaccel.papers.maestro.dataflows.translating import directed_mapping
from simaccel.workload.layers import layers_workload
from validation.maestro.reference import all_runs, read_rows
from validation.maestro.released import RELEASED, analyse_layer_released

Row = dict[str, Any]


def compare() -> list[Row]:
    """Give a row for each layer: cycles of all of them."""
    silicon = {row["layer"]: row for row in read_rows("eyeriss_silicon_alexnet_batch4")}
    accelerator = load_accelerator("eyeriss_168")
    results = []
    for runs in all_runs(["validation_runs"]):
        row = runs.rows[0]
        if row["mapping_origin"] != "validation_eyeriss":
            continue
        directed, published = runs.directed(), silicon[row["layer"]]
        layer, dataflow = directed.layer, directed.dataflow
        hardware = [hardware_of(accelerator)]
        cycles = {
            name: int(analyse_one(layer, dataflow, hardware, reading).columns["runtime_cycles"][0])
            for name, analyse_one, reading in (
                ("tool", analyse_layer_released, RELEASED),
                ("analysis", analyse_layer, PAPER),
            )
        }
        active = analyse_layer(layer, dataflow, hardware).columns["avg_utilized_pes"][0]
        workload = layers_workload("layer", {directed.name: layer.shape()})
        mapping = directed_mapping([directed], workload, accelerator)
        result: Row = {
            "layer": row["layer"],
            "silicon": int(published["processing_cycles"]),
            **cycles,
            "machine": simulate(workload, accelerator, mapping).run.cycles,
            "silicon_active_pes": int(published["active_pes"]),
            "analysis_active_pes": round(float(active), 1),
        }
        results.append(result)
    return results


def mean_error(rows: list[Row], name: str) -> float:
    """Return the mean absolute error of a column against silicon."""
    return sum(abs(float(row[name]) / float(row["silicon"]) - 1) for row in rows) / len(rows)


def table(rows: list[Row]) -> list[str]:
    """Write the table of the README."""
    lines = ["| layer | silicon | tool | analysis | machine | active PEs: silicon | analysis |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        cells = [row["layer"], f"{row['silicon']:,}"]
        for name in ("tool", "analysis", "machine"):
            cells += [f"{row[name]:,} ({row[name] / row['silicon']:.3f})"]
        cells += [str(row["silicon_active_pes"]), str(row["analysis_active_pes"])]
        lines.append("| " + " | ".join(cells) + " |")
    errors = [f"{100 * mean_error(rows, name):.1f}%" for name in ("tool", "analysis", "machine")]
    lines.append(f"| mean absolute error | | {' | '.join(errors)} | | |")
    return lines
