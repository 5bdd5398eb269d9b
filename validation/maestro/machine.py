"""The machine against the analysis: cycles and traffic of seven networks x five dataflows."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from simaccel import load_accelerator, simulate
from simaccel.errors import SimaccelError
from simaccel.papers.maestro.analysis.analysis import LayerAnalysis, analyse_layer
from simaccel.papers.maestro.analysis.hardware import hardware_of
from simaccel.papers.maestro.analysis.times import limits_of
from simaccel.study.experiment import ExperimentResult
from simaccel.study.parallel import open_workers
from validation.maestro.networks import DATAFLOWS, NETWORKS, Case, cases

BANDWIDTHS = (8, 32, 1000)
"""Elements per cycle of the NoC, each way."""
_BYTES = 2
Row = dict[str, Any]


def compare(networks: Sequence[str] = NETWORKS, every: int = 1) -> Iterator[Row]:
    """Yield a row for each layer, dataflow and bandwidth; each ``every``-th layer."""
    some = [case for network in networks for case in list(cases(network))[::every]]
    every_run = [(case, bandwidth) for case in some for bandwidth in BANDWIDTHS]
    with open_workers(os.cpu_count() or 1) as team:
        yield from team.run_each(_row, every_run)


def _row(task: tuple[Case, int]) -> Row:
    case, bandwidth = task
    row: Row = {
        "network": case.network,
        "layer": case.directed.name,
        "count": case.count,
        "dataflow": case.dataflow,
        "noc_bandwidth": bandwidth,
    }
    link = f"link_bytes_per_cycle={_BYTES * bandwidth}"
    accelerator = load_accelerator(
        "maestro_256", [f"noc.distribution.{link}", f"noc.collection.{link}"]
    )
    directed = case.directed
    analysed = analyse_layer(directed.layer, directed.dataflow, [hardware_of(accelerator)])
    figures = analysed.figures()
    workload = case.workload
    try:
        mapping = case.mapping(workload, accelerator)
    except SimaccelError as error:
        return row | {"refused": str(error)}
    result = simulate(workload, accelerator, mapping)
    cycles = int(figures["runtime_cycles"] or 0)
    run, bound = result.run, result.prediction.bound_cycles
    return row | {
        "machine_cycles": run.cycles,
        "analysis_cycles": cycles,
        "analysis_over_machine": round(cycles / run.cycles, 4),
        "bound_over_machine": round(bound / run.cycles, 4),
        "first_fill_share": round(_fill_share(analysed), 4),
        "machine_waits_for": _waits(result),
        **_traffic(result, analysed, directed.name),
    }


def _fill_share(analysed: LayerAnalysis) -> float:
    """Give the part of the analysis's cycles that are first fills of inner levels."""
    (run,) = analysed.runs.values()
    inner = limits_of(run.top, run.times)[1:]
    total = sum(limits_of(run.top, run.times)[0].cycles.values())
    return sum(level.cycles["first fill"] for level in inner) / max(total, 1)


def _waits(result: ExperimentResult) -> str:
    """Name what the array mostly waits for, if it does for more than 2% of the time."""
    array = result.run.engines["array"]
    cause, cycles = max(array.stalls.items(), key=lambda one: one[1], default=("nothing", 0))
    return cause if cycles > 0.02 * result.run.cycles else "nothing"


def _traffic(result: ExperimentResult, analysed: LayerAnalysis, layer: str) -> Row:
    """Compare the elements that the NoC carried with those of the analysis."""
    moved, figures = result.run.moved, analysed.figures()
    counted = {
        "input": (("noc_distribution", f"{layer}.I"), figures["input_l2_read"]),
        "filter": (("noc_distribution", f"{layer}.W"), figures["filter_l2_read"]),
        "output": (("noc_collection", f"{layer}.O"), figures["output_l2_write"]),
    }
    return {
        f"{name}_machine_minus_analysis": moved.get(key, 0) // _BYTES - int(value or 0)
        for name, (key, value) in counted.items()
    }


def write(rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def ran(rows: Sequence[Row]) -> list[Row]:
    """Give the rows that ran on the machine."""
    return [row for row in rows if "refused" not in row]


def tables(rows: Sequence[Row]) -> list[str]:
    """Write the tables of the README."""
    found = ["| network | dataflow | " + " | ".join(f"{b} el/cycle" for b in BANDWIDTHS) + " |"]
    found.append("|---|---|" + "---|" * len(BANDWIDTHS))
    for network in dict.fromkeys(row["network"] for row in rows):
        for dataflow in DATAFLOWS:
            cells = [_totals(rows, network, dataflow, bandwidth) for bandwidth in BANDWIDTHS]
            found.append(f"| {network} | {dataflow} | " + " | ".join(cells) + " |")
    return found


def _totals(rows: Sequence[Row], network: str, dataflow: str, bandwidth: int) -> str:
    """Give total analysis / total machine, and the range over layers."""
    selected = [
        row
        for row in ran(rows)
        if (row["network"], row["dataflow"], row["noc_bandwidth"]) == (network, dataflow, bandwidth)
    ]
    if not selected:
        return "-"
    analysis = sum(row["count"] * row["analysis_cycles"] for row in selected)
    machine = sum(row["count"] * row["machine_cycles"] for row in selected)
    ratios = [row["analysis_over_machine"] for row in selected]
    return f"{analysis / machine:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def worst(rows: Sequence[Row], count: int = 10) -> list[str]:
    """Write the rows that are farthest apart, with the reason."""
    apart = sorted(ran(rows), key=lambda row: -_apart(row))[:count]
    lines = ["| layer | dataflow | el/cycle | machine | analysis | ratio | reason |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in apart:
        cells = (
            f"{row['network']} {row['layer']}",
            row["dataflow"],
            row["noc_bandwidth"],
            f"{row['machine_cycles']:,}",
            f"{row['analysis_cycles']:,}",
            f"{row['analysis_over_machine']:.2f}",
            reason(row),
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def _apart(row: Row) -> float:
    ratio = float(row["analysis_over_machine"])
    return max(ratio, 1 / ratio)


def reason(row: Row) -> str:
    """Say why machine and analysis differ, from what both say they wait for."""
    ratio = float(row["analysis_over_machine"])
    if ratio > 1:
        share = row["first_fill_share"]
        return f"{100 * share:.0f}% of the analysis is the first fill of each inner invocation"
    moved = sum(row[f"{name}_machine_minus_analysis"] for name in ("input", "filter", "output"))
    if moved:
        return "the machine also moves the rows that the stride leaves out"
    return (
        f"short steps: their way through the NoC and back takes longer than two slots hide (the "
        f"array waits for {row['machine_waits_for']})"
    )


def summary(rows: Sequence[Row]) -> list[str]:
    """Write what all rows say together."""
    ran_rows = ran(rows)
    ratios = [row["analysis_over_machine"] for row in ran_rows]
    names = ("input", "filter", "output")
    same = [all(row[f"{n}_machine_minus_analysis"] == 0 for n in names) for row in ran_rows]
    refused = Counter(row["refused"].split(": ")[-1] for row in rows if "refused" in row)
    within = sum(abs(ratio - 1) <= 0.05 for ratio in ratios)
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    close = f"within 5% in {within} ({100 * within / len(ran_rows):.0f}%)"
    bounds = [row["bound_over_machine"] for row in ran_rows]
    lines = [
        f"- {len(ran_rows)} runs; the NoC carries exactly what the analysis counts in {sum(same)}.",
        f"- Analysis / machine: median {median(ratios):.3f}, {spread}; {close}.",
        f"- Lower bound / machine: median {median(bounds):.3f}, least {min(bounds):.3f}.",
    ]
    return lines + [f"- refused {count}: {text}" for text, count in refused.items()]
