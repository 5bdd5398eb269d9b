"""Analysis of layers with their dataflows at many hardware points, in one call.

Figures have the names that published runs of the tool have as columns; elements where nothing
else is said. What doesn't depend on bandwidths, latencies and lanes is computed once for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simaccel.errors import SimaccelError
from simaccel.papers.maestro.analysis.counts import Counts, mean, output_elements, paper_counts
from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
from simaccel.papers.maestro.analysis.invocations import CaseCosts, Invocation, Invocations, Known
from simaccel.papers.maestro.analysis.paper import (
    CORRECTIONS,
    PAPER,
    DirectiveReading,
    layer_axes,
    paper_costs,
)
from simaccel.papers.maestro.analysis.prices import L1_ENERGY, L2_ENERGY, PRESENT
from simaccel.papers.maestro.analysis.states import Ints
from simaccel.papers.maestro.analysis.times import InvocationTimes, points_of
from simaccel.papers.maestro.dataflows.dataflow import (
    ROLES,
    Dataflow,
    complete,
    over_outputs,
    pes_of_cluster,
)
from simaccel.papers.maestro.dataflows.described import DescribedLayer
from simaccel.papers.maestro.dataflows.reading import DirectedLayer

Column = NDArray[Any]
"""A figure over hardware points: whole numbers (int64) or not (float64)."""
_MOST_HALVINGS = 62


class NothingComputedError(SimaccelError):
    """A dataflow computes nothing, or divides by zero in the released tool."""


class NotAnalysedError(SimaccelError):
    """Several dataflows can't be analysed; the message has a line for each."""


@dataclass(frozen=True, eq=False)
class DataflowTimes:
    """The invocations of a dataflow on some PEs, and their times at all points of those."""

    top: Invocation
    times: InvocationTimes
    counts: Counts

    @property
    def intensity(self) -> float:
        """MACs per element of an input that comes from L2."""
        fetched = sum(self.counts[f"{role}_l2_read"] for role in ("input", "filter"))
        return self.counts["macs_counted"] / fetched if fetched else float("inf")

    @property
    def pes(self) -> int:
        """PEs of these points."""
        return self.times.points.pes


@dataclass(frozen=True, eq=False)
class LayerAnalysis:
    """A layer's analysis: columns over hardware points; ``runs`` by number of PEs."""

    layer: DescribedLayer
    dataflow: Dataflow
    hardware: tuple[DirectiveHardware, ...]
    reading: DirectiveReading
    columns: Mapping[str, Column]
    runs: Mapping[int, DataflowTimes] = field(repr=False)

    def figures(self, point: int = 0) -> dict[str, float | int | None]:
        """Return the figures of one hardware point; what is no finite number is None."""
        found: dict[str, float | int | None] = {}
        for name, column in self.columns.items():
            value = column[point].item()
            found[name] = value if np.isfinite(value) else None
        return found


DataflowRunner = Callable[
    [DescribedLayer, Dataflow, Sequence[DirectiveHardware], DirectiveReading, Known], DataflowTimes
]
LayerAnalyser = Callable[
    [DescribedLayer, Dataflow, Sequence[DirectiveHardware], DirectiveReading], LayerAnalysis
]


def analyse(
    directed: Sequence[DirectedLayer],
    hardware: Sequence[DirectiveHardware],
    reading: DirectiveReading = PAPER,
    analyse_one: LayerAnalyser | None = None,
) -> list[LayerAnalysis]:
    """Return the analyses of layers with their dataflows, each at all hardware points.

    ``analyse_one``: another analysis of a layer than ``analyse_layer``.

    Raises:
        NotDirectedError: a dataflow that the default reading refuses.
        NothingComputedError: a dataflow that computes nothing.
        NotAnalysedError: several such dataflows.
    """
    known: dict[object, LayerAnalysis] = {}
    analyses = []
    errors: list[SimaccelError] = []
    for mapped in directed:
        layer = mapped.layer
        key = (layer.kind, tuple(layer.sizes.items()), layer.stride, mapped.dataflow)
        try:
            if key not in known:
                known[key] = (analyse_one or analyse_layer)(
                    layer, mapped.dataflow, hardware, reading
                )
            analyses.append(replace(known[key], layer=layer))
        except SimaccelError as error:
            errors.append(error)
    if len(errors) > 1:
        raise NotAnalysedError("\n".join(map(str, errors)))
    if errors:
        raise errors[0]
    return analyses


def analyse_layer(
    layer: DescribedLayer,
    dataflow: Dataflow,
    hardware: Sequence[DirectiveHardware],
    reading: DirectiveReading = PAPER,
    run_on: DataflowRunner | None = None,
) -> LayerAnalysis:
    """Return the analysis of one layer at all hardware points; raises as ``analyse``.

    ``run_on``: other counts and times than the paper's, of the points with as many PEs.
    """
    known: Known = {}
    runs: dict[int, DataflowTimes] = {}
    columns: dict[str, Column] = {}
    for pes in dict.fromkeys(point.pes for point in hardware):
        places = np.array([at for at, point in enumerate(hardware) if point.pes == pes])
        points = [hardware[at] for at in places]
        run = (run_on or _run)(layer, dataflow, points, reading, known)
        _require_work(layer, run)
        runs[pes] = run
        for name, part in _columns(layer, run, reading).items():
            whole = columns.setdefault(name, np.empty(len(hardware), dtype=part.dtype))
            whole[places] = part
    return LayerAnalysis(layer, dataflow, tuple(hardware), reading, columns, runs)


def _require_work(layer: DescribedLayer, run: DataflowTimes) -> None:
    """Refuse a dataflow that computes nothing; the released tool divides by zero or says 0."""
    if not len(run.top.cases):
        raise NothingComputedError(f"layer {layer.name}: no tile of this dataflow has an output")
    if (run.times.steps(run.top).compute == 0).any():
        raise NothingComputedError(
            f"layer {layer.name}: sub-clusters of this dataflow have tiles without an output; the "
            "released tool divides by zero here"
        )


def _run(
    layer: DescribedLayer,
    dataflow: Dataflow,
    hardware: Sequence[DirectiveHardware],
    reading: DirectiveReading,
    known: Known,
) -> DataflowTimes:
    """Return the invocations of a dataflow on the PEs of these points, and their times."""
    pes, needed = hardware[0].pes, pes_of_cluster(dataflow)
    if pes < needed:
        raise NothingComputedError(
            f"layer {layer.name}: a cluster has {needed} PEs, the accelerator {pes}"
        )
    levels = complete(layer, dataflow, pes)
    times = InvocationTimes(points_of(hardware, len(levels)))
    outputs, axes = over_outputs(layer, levels), layer_axes(layer)

    def costs_of(depth: int, _: object, sizes: Mapping[str, int]) -> CaseCosts:
        return paper_costs(axes, outputs[depth], sizes, reading.at_level(depth))

    invocation = Invocations(outputs, costs_of, known).top()
    return DataflowTimes(invocation, times, paper_counts(layer, outputs[0], invocation, reading))


def _columns(
    layer: DescribedLayer, run: DataflowTimes, reading: DirectiveReading
) -> dict[str, Column]:
    """Return all figures of a run, in the order of the published columns."""
    top, times, counts = run.top, run.times, run.counts
    points = times.points
    each: Ints = np.ones(points.count, dtype=np.int64)
    runtime = _runtime(layer, run, reading)
    macs = counts["macs_counted"]
    is_complete = macs == layer.macs
    columns: dict[str, Column] = {
        "macs_true": layer.macs * each,
        "macs_counted": macs * each,
        "macs_match": int(is_complete) * each,
        "runtime_cycles": runtime,
        "throughput_macs_per_cycle": macs / np.maximum(runtime, 1),
    }
    columns |= {name: counts[name] * each for name in counts if name != "macs_counted"}
    columns |= {name: value * each for name, value in energies(counts).items()}
    columns |= _bandwidths(run, reading)
    step = run.times.steps(run.top)
    weights = run.top.valid_values(run.top.costs.occurrences)
    parts = {"ingress": step.ingress, "egress": step.egress, "compute": np.maximum(step.compute, 1)}
    for name, values in parts.items():
        columns[f"{name}_delay_min"] = values.min(axis=0)
        columns[f"{name}_delay_max"] = values.max(axis=0)
        columns[f"{name}_delay_avg"] = mean(weights, values)
    active = times.active_pes(top)
    columns["avg_utilized_pes"] = active * np.ones(points.count)
    columns["utilization"] = active / (run.pes * each)
    columns["arithmetic_intensity"] = run.intensity * np.ones(points.count)
    columns |= _hardware(run)
    return columns


def energies(counts: Counts) -> dict[str, float | int]:
    """Return energies in multiples of a MAC's, from counts."""
    prices = {"l2": L2_ENERGY, "l1": L1_ENERGY}
    found: dict[str, float | int] = {
        f"energy_{level}_{way}_xmac": price * sum(counts[f"{role}_{level}_{way}"] for role in ROLES)
        for level, price in prices.items()
        for way in ("write", "read")
    }
    found["energy_mac_xmac"] = counts["macs_counted"]
    found["energy_total_xmac"] = sum(found.values())
    return found


def _runtime(layer: DescribedLayer, run: DataflowTimes, reading: DirectiveReading) -> Ints:
    """Return the cycles at each point, waits for off-chip memory included."""
    top, times = run.top, run.times
    bandwidth = times.points.offchip_bandwidth
    if not reading.offchip:
        out, into = _offchip_needs(run.counts)
        slowest = np.maximum(out // bandwidth // 2, into // bandwidth // 2)
        delays = np.maximum(times.delays(top), slowest)
        cycles: Ints = (top.valid_values(top.costs.occurrences)[:, None] * delays).sum(axis=0)
        return cycles
    moved = sum(run.counts[f"{role}_l2_write"] for role in ("input", "filter"))
    moved += output_elements(layer)
    return np.maximum(times.runtime(top), -(-moved // bandwidth))


def _offchip_needs(counts: Counts) -> tuple[int, int]:
    """Return a step's off-chip traffic as the tool has it: its buffer requirements."""
    into = counts["input_l2_size_req"] + counts["filter_l2_size_req"]
    return counts["output_l2_size_req"], into


def _bandwidths(run: DataflowTimes, reading: DirectiveReading) -> dict[str, Column]:
    """Return the bandwidths that would hide all transfers, in elements per cycle."""
    top, times = run.top, run.times
    compute = np.maximum(times.steps(top).compute, 1)
    needed = np.maximum(top.valid_values(top.costs.arriving), top.valid_values(top.costs.leaving))[
        :, None
    ]
    weights = top.valid_values(top.costs.occurrences)[:, None]
    average = (weights * needed // compute).sum(axis=0) / max(top.total, 1)
    peak = (needed // compute).max(axis=0, initial=0)
    offchip: Ints = peak * 0
    if not reading.offchip:
        out, into = _offchip_needs(run.counts)
        step = np.maximum(np.maximum(out // compute, into // compute), 0)
        halvings = np.minimum(np.arange(len(step), 0, -1), _MOST_HALVINGS)[:, None]
        offchip = (step >> halvings).max(axis=0, initial=0)
    else:
        moved = sum(run.counts[f"{role}_l2_write"] for role in ROLES)
        offchip = -(-moved // np.maximum(times.runtime(top), 1))
    return {"peak_noc_bw_req": peak, "avg_noc_bw_req": average, "offchip_bw_req": offchip}


def _hardware(run: DataflowTimes) -> dict[str, Column]:
    points, counts = run.times.points, run.counts
    parts = (
        run.pes,
        points.simd_lanes,
        points.noc_bandwidth[:, 0],
        counts["l1_size_req_total"],
        counts["l2_size_req_total"],
    )
    return {"area_um2": PRESENT.area_um2(*parts), "power_mw": PRESENT.power_mw(*parts)}


Effects = dict[str, dict[str, float]]
_FIGURES: Final = (
    "macs_counted",
    "runtime_cycles",
    "input_l2_read",
    "filter_l2_read",
    "output_l2_read",
    "output_l2_write",
    "input_l1_write",
    "filter_l1_write",
    "l2_size_req_total",
    "l1_size_req_total",
    "offchip_bw_req",
    "energy_total_xmac",
)


def effects(
    analysed: LayerAnalysis, hardware: Sequence[DirectiveHardware], point: int = 0
) -> Effects:
    """Return, by correction, what it adds to each figure that it changes, at one point."""
    by_correction: Effects = {}
    kept = analysed.figures(point)
    for name in CORRECTIONS:
        reading = replace(analysed.reading, **{name: False})  # type: ignore[arg-type]
        try:
            other = analyse_layer(
                analysed.layer, analysed.dataflow, [hardware[point]], reading
            ).figures()
        except SimaccelError:
            by_correction[name] = {
                "macs_counted": float(kept["macs_counted"] or 0)
            }  # nothing without it
            continue
        by_correction[name] = {
            figure: (kept[figure] or 0) - (other[figure] or 0)
            for figure in _FIGURES
            if kept[figure] != other[figure]
        }
    return by_correction
