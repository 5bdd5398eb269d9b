"""A dataflow as MAESTRO writes it: maps of dimensions, split into clusters.

Kwon et al., "Understanding Reuse, Performance, and Hardware Cost of DNN Dataflows: A Data-Centric
Approach Using MAESTRO" (MICRO 2019), section 3. Numbers are elements of a dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from simaccel.papers.maestro.dataflows.described import DescribedLayer

Role = Literal["input", "filter", "output"]
ROLES: Final[tuple[Role, ...]] = ("input", "filter", "output")


@dataclass(frozen=True)
class DimMap:
    """``TemporalMap(size, offset) dim``, or ``SpatialMap`` where it is spatial.

    A sub-cluster (or PE) gets ``size`` positions of a dimension; the next step in time (the next
    sub-cluster) gets those ``offset`` further.
    """

    dim: str
    size: int
    offset: int
    spatial: bool = False

    def __str__(self) -> str:
        kind = "SpatialMap" if self.spatial else "TemporalMap"
        return f"{kind}({self.size},{self.offset}) {self.dim}"


@dataclass(frozen=True)
class Cluster:
    """``Cluster(units)``: the next directives are for groups of ``units`` sub-clusters or PEs."""

    units: int

    def __str__(self) -> str:
        return f"Cluster({self.units},P)"


Directive = DimMap | Cluster
Dataflow = tuple[Directive, ...]


def couplings(layer: DescribedLayer) -> Mapping[Role, tuple[str, ...]]:
    """Return the dimensions that index each tensor; Y and X of the output stand for Y' and X'.

    Rules of MAESTRO: N counts where the layer declares it; NGCONV has C as a dimension of the
    output, so that nothing is summed over C.
    """
    batch = ("N",) if "N" in layer.sizes else ()
    if layer.kind == "GEMM":
        return {"input": ("M", "K"), "filter": ("K", "N"), "output": ("M", "N")}
    if layer.kind == "BMM":
        return {"input": ("B", "M", "K"), "filter": ("B", "K", "N"), "output": ("B", "M", "N")}
    if layer.kind == "DSCONV":
        image = (*batch, "C", "Y", "X")
        return {"input": image, "filter": ("C", "R", "S"), "output": image}
    if layer.kind == "NGCONV":
        return {
            "input": (*batch, "G", "C", "Y", "X"),
            "filter": ("G", "K", "C", "R", "S"),
            "output": (*batch, "G", "K", "C", "Y", "X"),
        }
    return {
        "input": (*batch, "C", "Y", "X"),
        "filter": ("K", "C", "R", "S"),
        "output": (*batch, "K", "Y", "X"),
    }
