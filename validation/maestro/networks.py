"""The distinct layers of the networks that were run, with the five dataflows of Table 3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simaccel.hardware import Accelerator
from simaccel.mapping.directives.reading import Directed
from simaccel.mapping.directives.translating import directed_mapping
from simaccel.mapping.tree import Mapping
from simaccel.workload import Workload
from simaccel.workload.layers import layers_workload
from validation.maestro.reference import all_runs

TABLES = {
    "VGG16": "table3_vgg16",
    "ResNet-50": "table3_resnet50",
    "MobileNetV2": "table3_mobilenetv2",
    "AlexNet": "table3_alexnet_n1",
    "Transformer": "table3_transformer",
}
DATAFLOWS = ("C-P", "X-P", "YX-P", "YR-P", "KC-P")


@dataclass(frozen=True)
class Case:
    """A layer of a network with a dataflow; ``count``: how many layers of the network it is."""

    network: str
    dataflow: str
    directed: Directed
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
    found: dict[tuple[str, object, object], list[Directed]] = {}
    for runs in all_runs([TABLES[network]]):
        directed = runs.directed()
        layer = directed.layer
        shape = (layer.kind, tuple(layer.sizes.items()), layer.stride)
        rows = runs.rows[0]["mapping_name"], shape, directed.dataflow
        repeats = len({row["layer"] for row in runs.rows})
        found.setdefault(rows, []).extend([directed] * repeats)
    for (dataflow, _, _), same in found.items():
        yield Case(network, dataflow, same[0], len(same))
