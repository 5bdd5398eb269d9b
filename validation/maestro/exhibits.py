"""Figures 10 to 12 and Table 5 of the paper, in the default reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from operator import itemgetter
from typing import Any

from simaccel.analytic.directives.analysis import Analysed, analyse_layer
from simaccel.analytic.directives.hardware import DirectiveHardware
from simaccel.analytic.directives.reading import PAPER
from simaccel.mapping.directives.dataflow import couplings
from simaccel.mapping.directives.reading import Directed, parse_directives
from validation.maestro.machine import ran
from validation.maestro.networks import DATAFLOWS, TABLES, Case, cases

Row = dict[str, Any]
OPERATORS = {
    "early layer": ("ResNet-50", "CONV1"),
    "late layer": ("VGG16", "CONV11"),
    "depth-wise": ("MobileNetV2", "Bottleneck1_1_2"),
    "point-wise": ("MobileNetV2", "Bottleneck2_1_1"),
}
"""As Fig. 11 chooses them; VGG16's CONV13 has CONV11's sizes; a depth-wise layer of MobileNetV2."""
PUBLISHED_TABLE_5 = {
    "reference": (48.6, 5.26e9),
    "small bandwidth": (34.54, 5.26e9),
    "no multicast": (33.39, 7.56e9),
    "no spatial reduction": (32.05, 7.77e9),
}
"""Throughput in MACs per cycle and energy in MACs, Table 5."""


def _kc_p(sizes: str, cluster: int) -> Directed:
    text = f"""Network t {{ Layer CONV2 {{ Type: CONV Dimensions {{ {sizes} }} Dataflow {{
      SpatialMap(1,1) K; TemporalMap({cluster},{cluster}) C; TemporalMap(Sz(R),Sz(R)) R;
      TemporalMap(Sz(S),Sz(S)) S; TemporalMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X;
      Cluster({cluster}, P); SpatialMap(1,1) C; }} }} }}"""
    return parse_directives(text).layers[0]


def kc_p(layer: Directed, cluster: int) -> Directed:
    """Return KC-P with clusters of another size for a layer."""
    sizes = ", ".join(f"{dim}: {size}" for dim, size in layer.layer.sizes.items())
    return _kc_p(sizes, cluster)


def fig_10(machine: Sequence[Row]) -> Iterator[Row]:
    """Yield cycles and energy of each network and dataflow, and of the best dataflow per layer."""
    measured = {
        (row["network"], row["layer"], row["dataflow"]): row["machine_cycles"]
        for row in ran(machine)
        if row["noc_bandwidth"] == 32
    }
    for network in TABLES:
        found: dict[str, dict[str, tuple[int, int, float, int]]] = {}
        for case in cases(network):
            figures = _analysed(case.directed).figures()
            name = case.directed.name
            found.setdefault(name, {})[case.dataflow] = (
                case.count,
                int(figures["runtime_cycles"] or 0),
                float(figures["energy_total_xmac"] or 0),
                measured.get((network, name, case.dataflow), 0),
            )
        for dataflow in DATAFLOWS:
            yield _totals(network, dataflow, [one[dataflow] for one in found.values()])
        best = {
            name: [min(one.values(), key=itemgetter(at)) for one in found.values()]
            for name, at in (("cycles", 1), ("energy", 2), ("machine", 3))
        }
        yield {
            **_totals(network, "adaptive", best["cycles"]),
            "energy_xmac": _totals(network, "", best["energy"])["energy_xmac"],
            "machine_cycles": _totals(network, "", best["machine"])["machine_cycles"],
        }


def _totals(network: str, dataflow: str, rows: Sequence[tuple[int, int, float, int]]) -> Row:
    return {
        "network": network,
        "dataflow": dataflow,
        "analysis_cycles": sum(count * cycles for count, cycles, _, _ in rows),
        "energy_xmac": round(sum(count * energy for count, _, energy, _ in rows)),
        "machine_cycles": sum(count * machine for count, _, _, machine in rows),
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


def _most(analysed: Analysed, role: str) -> float:
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
    found = []
    for name, (bandwidth, reading) in points.items():
        hardware = [DirectiveHardware(pes=56, noc_bandwidth=(bandwidth,))]
        figures = analyse_layer(directed.layer, directed.dataflow, hardware, reading).figures()
        found.append(
            {
                "design": name,
                "noc_bandwidth": bandwidth,
                "throughput": figures["throughput_macs_per_cycle"],
                "published_throughput": PUBLISHED_TABLE_5[name][0],
                "energy_xmac": figures["energy_total_xmac"],
                "published_energy_xmac": PUBLISHED_TABLE_5[name][1],
            }
        )
    return found


def table_5_lines(rows: Sequence[Row]) -> list[str]:
    """Write Table 5 relative to its first row, which is what can be compared."""
    first = rows[0]
    found = [
        "| design | MACs/cycle | of reference | paper | energy (MACs) | of reference | paper |"
    ]
    found.append("|---|---|---|---|---|---|---|")
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
        found.append("| " + " | ".join(cells) + " |")
    return found


def fig_10_lines(rows: Sequence[Row]) -> list[str]:
    """Write who is fastest and leanest in each network, and what adapting saves."""
    found = [
        "| network | fastest (analysis) | fastest (machine) | least energy | adaptive: cycles |"
    ]
    found[0] += " machine cycles | energy |"
    found.append("|---|---|---|---|---|---|---|")
    for network in dict.fromkeys(row["network"] for row in rows):
        single = [r for r in rows if r["network"] == network and r["dataflow"] != "adaptive"]
        (best,) = (r for r in rows if r["network"] == network and r["dataflow"] == "adaptive")
        cells = [network]
        savings = []
        for name in ("analysis_cycles", "machine_cycles", "energy_xmac"):
            least = min(single, key=itemgetter(name))
            cells.append(least["dataflow"])
            savings.append(f"{100 * (best[name] / least[name] - 1):+.1f}%")
        found.append("| " + " | ".join([*cells, *savings]) + " |")
    return found


def _of_layer(network: str, layer: str) -> list[Case]:
    return [case for case in cases(network) if case.directed.name == layer]


def _analysed(directed: Directed) -> Analysed:
    return analyse_layer(directed.layer, directed.dataflow, [DirectiveHardware()])
