"""Fig. 13: the design spaces of KC-P and YR-P on an early and a late layer of VGG16."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simaccel import load_accelerator
from simaccel.papers.maestro.analysis.design import (
    OBJECTIVES,
    Design,
    DesignLimits,
    Designs,
    DirectiveSpace,
    sweep,
)
from simaccel.papers.maestro.analysis.prices import PAPER_ERA
from simaccel.papers.maestro.commands.design_space import DirectedSpace, on_the_machine
from simaccel.papers.maestro.dataflows.reading import DirectedLayer
from simaccel.workload.layers import layers_workload
from validation.maestro.exhibits import kc_p
from validation.maestro.networks import cases

Row = dict[str, Any]
_Key = tuple[str, str, int, int]
"""Layer, dataflow, PEs and bandwidth."""
LAYERS = ("CONV2", "CONV11")
LIMITS = DesignLimits(area_um2=16e6, power_mw=450)
"""Chip area and power of Eyeriss, as in the paper."""
SPACE = DirectiveSpace(pes=range(2, 257, 2), bandwidths=range(1, 129))
CLUSTERS = (8, 16, 32, 64)
"""KC-P's channels at once: the paper's designs have as few as 56 PEs, so not its 64 alone."""


def variants(layer: str) -> dict[str, DirectedLayer]:
    """Give the dataflows that are explored for a layer."""
    found = {case.dataflow: case.directed for case in cases("VGG16") if case.directed.name == layer}
    by_cluster = {f"KC-P {size}": kc_p(found["KC-P"], size) for size in CLUSTERS}
    return by_cluster | {"YR-P": found["YR-P"]}


def explore() -> tuple[list[Row], list[Row], list[str]]:
    """Give a sample of the designs, the best of each space, and what was swept how fast."""
    points: list[Row] = []
    best: list[Row] = []
    told = [
        "| layer | dataflow | designs | valid | seconds | designs/s |",
        "|---|---|---|---|---|---|",
    ]
    for layer in LAYERS:
        for name, directed in variants(layer).items():
            started = time.process_time()
            designs = sweep(directed.layer, directed.dataflow, SPACE, PAPER_ERA, LIMITS)
            seconds = time.process_time() - started
            told.append(
                f"| {layer} | {name} | {designs.count:,} | {int(designs.is_valid.sum()):,} | "
                f"{seconds:.2f} | {designs.count / seconds:,.0f} |"
            )
            points += _points(layer, name, designs)
            best += [
                {
                    "layer": layer,
                    "dataflow": name,
                    "objective": objective,
                    **vars(designs.best(objective)),
                }
                for objective in OBJECTIVES
            ]
    return points, best, told


def rate() -> tuple[int, float]:
    """Give the designs of a space of all four parameters, and the seconds that it takes."""
    directed = variants("CONV2")["KC-P 64"]
    space = DirectiveSpace(
        pes=range(64, 257, 4),
        bandwidths=range(1, 129),
        l1_bytes=range(16, 528, 16),
        l2_bytes=range(512, 16_896, 512),
    )
    started = time.process_time()
    designs = sweep(directed.layer, directed.dataflow, space, PAPER_ERA, LIMITS)
    for objective in OBJECTIVES:
        designs.best(objective)
    return designs.count, time.process_time() - started


def _points(layer: str, name: str, found: Designs) -> list[Row]:
    """Give every eighth valid design."""
    return [
        {"layer": layer, "dataflow": name, **vars(found.design(tuple(map(int, at))))}
        for at in np.argwhere(found.is_valid)[::8]
    ]


def best_on_the_machine(best: Sequence[Row]) -> dict[_Key, int]:
    """Run the best designs of each objective on the machine, equal ones once; give their cycles."""
    cycles: dict[_Key, int] = {}
    for row in best:
        if _key(row) in cycles:
            continue
        directed = variants(row["layer"])[row["dataflow"]]
        space = DirectedSpace(
            directed=directed,
            workload=layers_workload("layer", {directed.name: directed.layer.shape()}),
            accelerator=load_accelerator("maestro_256"),
        )
        cycles[_key(row)] = on_the_machine(space, row["pes"], row["bandwidth"])
    return cycles


def _key(row: Row) -> _Key:
    return row["layer"], row["dataflow"], row["pes"], row["bandwidth"]


def best_lines(rows: Sequence[Row], measured: Mapping[_Key, int]) -> list[str]:
    """Write the best designs of each objective; of all clusters of KC-P the best."""
    lines = [
        "| layer | dataflow | best | PEs | el/cycle | buffers | MACs/cycle | energy | area mm2 |"
    ]
    lines[0] += " power mW | machine: MACs/cycle |"
    lines.append("|---|---|---|---|---|---|---|---|---|---|---|")
    for layer in LAYERS:
        for family in ("KC-P", "YR-P"):
            for objective in OBJECTIVES:
                layer_rows = [
                    row
                    for row in rows
                    if row["layer"] == layer
                    and row["dataflow"].startswith(family)
                    and row["objective"] == objective
                ]
                row = min(layer_rows, key=lambda row: _value(row, objective))
                lines.append(_best_line(row, measured))
    return lines


def _value(row: Row, objective: str) -> float:
    if objective == "energy":
        return float(row["energy_xmac"])
    return float(row["cycles"]) * (float(row["energy_xmac"]) if objective == "edp" else 1)


def _design(row: Row) -> Design:
    return Design(**{name: row[name] for name in Design.__dataclass_fields__})


def _best_line(row: Row, measured: Mapping[_Key, int]) -> str:
    design = _design(row)
    cells = (
        row["layer"],
        row["dataflow"],
        row["objective"],
        design.pes,
        design.bandwidth,
        f"{design.buffer_bytes:,} B",
        f"{design.throughput:.1f}",
        f"{design.energy_xmac:.3g}",
        f"{design.area_um2 / 1e6:.1f}",
        f"{design.power_mw:.0f}",
        f"{design.throughput * design.cycles / measured[_key(row)]:.1f}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"
