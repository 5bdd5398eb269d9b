"""Figures 10 to 12 and Table 5 of the paper, in the default reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import attrgetter, itemgetter
from typing import Any

from simaccel.papers.maestro.analysis.analysis import LayerAnalysis, analyse_layer
from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
from simaccel.papers.maestro.analysis.paper import PAPER
from simaccel.papers.maestro.dataflows.dataflow import couplings
from simaccel.papers.maestro.dataflows.described import DescribedLayer
from simaccel.papers.maestro.dataflows.reading import DirectedLayer, parse_directives
from validation.maestro.machine import ran
from validation.maestro.networks import DATAFLOWS, NETWORKS, OF_THE_PAPER, Case, cases

Row = dict[str, Any]
OPERATORS = {
    "early layer": ("ResNet-50", "CONV1"),
    "late layer": ("VGG16", "CONV11"),
    "grouped": ("ResNeXt50", "CONV2_1_2"),
    "depth-wise": ("MobileNetV2", "Bottleneck1_1_2"),
    "point-wise": ("MobileNetV2", "Bottleneck2_1_1"),
}
"""As Fig. 11 chooses them; VGG16's CONV13 has CONV11's sizes. What it calls the depth-wise layer of
ResNeXt50 has 32 groups of 4 channels; a depth-wise one of MobileNetV2 is beside it."""
KINDS = (
    *("early layers", "late layers", "fully connected", "point-wise", "depth-wise", "residual"),
    *("aggregated", "transposed"),
)
"""The operators of Table 4."""
PUBLISHED_TABLE_5 = {
    "reference": (48.6, 5.26e9),
    "small bandwidth": (34.54, 5.26e9),
    "no multicast": (33.39, 7.56e9),
    "no spatial reduction": (32.05, 7.77e9),
}
"""Throughput in MACs per cycle and energy in MACs, Table 5."""


def _kc_p(sizes: str, cluster: int) -> DirectedLayer:
    text = f"""Network t {{ Layer CONV2 {{ Type: CONV Dimensions {{ {sizes} }} Dataflow {{
      SpatialMap(1,1) K; TemporalMap({cluster},{cluster}) C; TemporalMap(Sz(R),Sz(R)) R;
      TemporalMap(Sz(S),Sz(S)) S; TemporalMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X;
      Cluster({cluster}, P); SpatialMap(1,1) C; }} }} }}"""
    return parse_directives(text).layers[0]


def kc_p(layer: DirectedLayer, cluster: int) -> DirectedLayer:
    """Return KC-P with clusters of another size for a layer."""
    sizes = ", ".join(f"{dim}: {size}" for dim, size in layer.layer.sizes.items())
    return _kc_p(sizes, cluster)


@dataclass(frozen=True)
class Measured:
    """A layer with a dataflow: how many it is, cycles and energy of the analysis, the machine's."""

    network: str
    kind: str
    layer: str
    dataflow: str
    count: int
    cycles: int
    energy: float
    machine: int


def measured(machine: Sequence[Row]) -> list[Measured]:
    """Give all layers of all networks with all dataflows at 32 elements per cycle."""
    cycles = {
        (row["network"], row["layer"], row["dataflow"]): row["machine_cycles"]
        for row in ran(machine)
        if row["noc_bandwidth"] == 32
    }
    results = []
    for network in NETWORKS:
        for case in cases(network):
            figures = _analysed(case.directed).figures()
            name = case.directed.name
            results.append(
                Measured(
                    network,
                    operator_kind(case.directed.layer),
                    name,
                    case.dataflow,
                    case.count,
                    int(figures["runtime_cycles"] or 0),
                    float(figures["energy_total_xmac"] or 0),
                    cycles.get((network, name, case.dataflow), 0),
                )
            )
    return results


def operator_kind(layer: DescribedLayer) -> str:
    """Name the operator of Table 4 that a layer is; early layers have more rows than channels.

    The border, rows of 1.5 times the channels, is where its examples of VGG16 and UNet put it.
    """
    sizes = layer.sizes
    if layer.kind == "NGCONV":
        return "aggregated"
    if layer.kind == "TRCONV":
        return "transposed"
    if layer.kind == "DSCONV":
        return "residual" if "Residual" in layer.name else "depth-wise"
    if layer.outputs == (1, 1):
        return "fully connected"
    if sizes["R"] == sizes["S"] == 1:
        return "point-wise"
    return "early layers" if sizes["Y"] > 1.5 * sizes["C"] else "late layers"


def fig_10(layers: Sequence[Measured]) -> Iterator[Row]:
    """Yield cycles and energy of each network and dataflow, and of the best dataflow per layer."""
    for network in NETWORKS:
        yield from _with_adaptive("network", network, [x for x in layers if x.network == network])


def fig_10_operators(layers: Sequence[Measured]) -> Iterator[Row]:
    """Yield the same for each operator of Table 4, over the paper's five networks."""
    some = [one for one in layers if one.network in OF_THE_PAPER]
    for kind in KINDS:
        yield from _with_adaptive("operator", kind, [one for one in some if one.kind == kind])
    yield from _with_adaptive("operator", "all", some)


def _with_adaptive(column: str, name: str, layers: Sequence[Measured]) -> Iterator[Row]:
    for dataflow in DATAFLOWS:
        some = [one for one in layers if one.dataflow == dataflow]
        yield {column: name, "dataflow": dataflow} | _totals(some, some, some)
    by_layer: dict[tuple[str, str], list[Measured]] = {}
    for one in layers:
        by_layer.setdefault((one.network, one.layer), []).append(one)
    best = ([min(some, key=of) for some in by_layer.values()] for of in _OF.values())
    yield {column: name, "dataflow": "adaptive"} | _totals(*best)


_OF: Mapping[str, Callable[[Measured], float]] = {
    "analysis_cycles": attrgetter("cycles"),
    "energy_xmac": attrgetter("energy"),
    "machine_cycles": attrgetter("machine"),
}


def _totals(*layers: Sequence[Measured]) -> Row:
    """Sum up each figure over layers of its own."""
    return {
        name: round(sum(one.count * of(one) for one in some))
        for (name, of), some in zip(_OF.items(), layers, strict=True)
    }


def fig_11_and_12() -> Iterator[Row]:
    """Yield reuse, bandwidth and energy by part of four operators with five dataflows."""
    for operator, (network, layer) in OPERATORS.items():
        macs_of_first = 0
        for case in _of_layer(network, layer):
            analysed = _analysed(case.directed)
            figures = {name: float(value or 0) for name, value in analysed.figures().items()}
            macs_of_first = macs_of_first or int(figures["energy_mac_xmac"])
            yield {
                "operator": operator,
                "layer": f"{network} {layer}",
                "dataflow": case.dataflow,
                "input_reuse": figures["input_l1_read"] / figures["input_l2_read"],
                "filter_reuse": figures["filter_l1_read"] / figures["filter_l2_read"],
                "input_reuse_most": _most(analysed, "input"),
                "filter_reuse_most": _most(analysed, "filter"),
                "bandwidth_mean": figures["avg_noc_bw_req"],
                "bandwidth_peak": figures["peak_noc_bw_req"],
                "mac": figures["energy_mac_xmac"] / macs_of_first,
                "l1": (figures["energy_l1_read_xmac"] + figures["energy_l1_write_xmac"])
                / macs_of_first,
                "l2": (figures["energy_l2_read_xmac"] + figures["energy_l2_write_xmac"])
                / macs_of_first,
            }


def _most(analysed: LayerAnalysis, role: str) -> float:
    """Return the algorithmic maximum of reuse: MACs for each element of the tensor."""
    layer = analysed.layer
    dims = couplings(layer)["input" if role == "input" else "filter"]
    return layer.macs / prod(layer.sizes[dim] for dim in dims)


def table_5() -> list[Row]:
    """Give the four design points of Table 5: KC-P, 56 PEs in clusters of 8, on VGG16's CONV2."""
    directed = _kc_p("K: 64, C: 64, R: 3, S: 3, Y: 224, X: 224", 8)
    every = frozenset(range(4))
    points: Mapping[str, tuple[int, Any]] = {
        "reference": (40, PAPER),
        "small bandwidth": (24, PAPER),
        "no multicast": (40, replace(PAPER, no_multicast=every)),
        "no spatial reduction": (40, replace(PAPER, no_reduction=every)),
    }
    results = []
    for name, (bandwidth, reading) in points.items():
        hardware = [DirectiveHardware(pes=56, noc_bandwidth=(bandwidth,))]
        figures = analyse_layer(directed.layer, directed.dataflow, hardware, reading).figures()
        results.append(
            {
                "design": name,
                "noc_bandwidth": bandwidth,
                "throughput": figures["throughput_macs_per_cycle"],
                "published_throughput": PUBLISHED_TABLE_5[name][0],
                "energy_xmac": figures["energy_total_xmac"],
                "published_energy_xmac": PUBLISHED_TABLE_5[name][1],
            }
        )
    return results


def table_5_lines(rows: Sequence[Row]) -> list[str]:
    """Write Table 5 relative to its first row, which is what can be compared."""
    first = rows[0]
    lines = [
        "| design | MACs/cycle | of reference | paper | energy (MACs) | of reference | paper |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        cells = (
            row["design"],
            f"{row['throughput']:.1f}",
            f"{row['throughput'] / first['throughput']:.2f}",
            f"{row['published_throughput'] / first['published_throughput']:.2f}",
            f"{row['energy_xmac']:.3g}",
            f"{row['energy_xmac'] / first['energy_xmac']:.2f}",
            f"{row['published_energy_xmac'] / first['published_energy_xmac']:.2f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def fig_10_lines(rows: Sequence[Row]) -> list[str]:
    """Write who is fastest and leanest in each network, or operator, and what adapting saves."""
    column = next(iter(rows[0]))
    lines = [
        f"| {column} | fastest (analysis) | fastest (machine) | least energy | adaptive: cycles |"
    ]
    lines[0] += " machine cycles | energy |"
    lines.append("|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(row[column] for row in rows):
        single = [r for r in rows if r[column] == name and r["dataflow"] != "adaptive"]
        (best,) = (r for r in rows if r[column] == name and r["dataflow"] == "adaptive")
        cells = [name]
        savings = []
        for figure in ("analysis_cycles", "machine_cycles", "energy_xmac"):
            least = min(single, key=itemgetter(figure))
            cells.append(least["dataflow"])
            savings.append(f"{100 * (best[figure] / least[figure] - 1):+.1f}%")
        lines.append("| " + " | ".join([*cells, *savings]) + " |")
    return lines


def _of_layer(network: str, layer: str) -> list[Case]:
    return [case for case in cases(network) if case.directed.name == layer]


def _analysed(directed: DirectedLayer) -> LayerAnalysis:
    return analyse_layer(directed.layer, directed.dataflow, [DirectiveHardware()])
