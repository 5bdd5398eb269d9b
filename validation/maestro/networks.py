"""The distinct layers of the networks that were run, with the five dataflows of Table 3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Mapping
from simaccel.papers.maestro.dataflows.reading import DirectedLayer, parse_directives
from simaccel.papers.maestro.dataflows.translating import directed_mapping
from simaccel.workload import Workload
from simaccel.workload.layers import layers_workload
from validation.maestro import described
from validation.maestro.reference import all_runs, description

TABLES = {
    "VGG16": "table3_vgg16",
    "ResNet-50": "table3_resnet50",
    "MobileNetV2": "table3_mobilenetv2",
    "AlexNet": "table3_alexnet_n1",
    "Transformer": "table3_transformer",
}
NETWORKS = (*TABLES, *described.NETWORKS)
OF_THE_PAPER = ("ResNet-50", "VGG16", "ResNeXt50", "MobileNetV2", "UNet")
"""The networks of the paper's Fig. 10."""
DATAFLOWS = ("C-P", "X-P", "YX-P", "YR-P", "KC-P")


@dataclass(frozen=True)
class Case:
    """A layer of a network with a dataflow; ``count``: how many layers of the network it is."""

    network: str
    dataflow: str
    directed: DirectedLayer
    count: int

    @property
    def workload(self) -> Workload:
        """The layer alone."""
        return layers_workload("layer", {self.directed.name: self.directed.layer.shape()})

    def mapping(self, workload: Workload, accelerator: Accelerator) -> Mapping:
        """Give the mapping of the dataflow."""
        return directed_mapping([self.directed], workload, accelerator)


def cases(network: str) -> Iterator[Case]:
    """Yield the distinct layers of a network, each with each dataflow."""
    found: dict[tuple[str, object, object], list[DirectedLayer]] = {}
    for name, directed, repeats in _layers(network):
        layer = directed.layer
        shape = (layer.kind, tuple(layer.sizes.items()), layer.stride)
        key = name, shape, directed.dataflow
        found.setdefault(key, []).extend([directed] * repeats)
    known: Counter[tuple[str, str]] = Counter()
    for (dataflow, _, _), same in found.items():
        known[dataflow, same[0].name] += 1
        yield Case(network, dataflow, _numbered(same[0], known[dataflow, same[0].name]), len(same))


def _numbered(directed: DirectedLayer, number: int) -> DirectedLayer:
    """Tell layers of one name apart; MobileNetV2's model has two Bottleneck5_2_3."""
    if number == 1:
        return directed
    name = f"{directed.name}_{number}"
    return replace(directed, layer=replace(directed.layer, name=name))


def _layers(network: str) -> Iterator[tuple[str, DirectedLayer, int]]:
    """Yield dataflow, layer and how often it is there, of what ran or of a network's paper."""
    if network in described.NETWORKS:
        for row in described.described_rows(network):
            yield row["mapping_name"], parse_directives(description(row)).layers[0], 1
        return
    for runs in all_runs([TABLES[network]]):
        repeats = len({row["layer"] for row in runs.rows})
        yield runs.rows[0]["mapping_name"], runs.directed(), repeats
