"""A dataflow as MAESTRO writes it: maps of dimensions, split into clusters.

Kwon et al., "Understanding Reuse, Performance, and Hardware Cost of DNN Dataflows: A Data-Centric
Approach Using MAESTRO" (MICRO 2019), section 3. Numbers are elements of a dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["CONV", "DSCONV", "NGCONV", "TRCONV", "GEMM", "BMM"]
Role = Literal["input", "filter", "output"]
ROLES: Final[tuple[Role, ...]] = ("input", "filter", "output")
SLIDING: Final[Mapping[str, str]] = {"Y": "R", "X": "S"}
"""The dimension of the filter that slides over a dimension of the input."""


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
    """``Cluster(units)``: what follows is inside of groups of so many sub-clusters or PEs."""

    units: int

    def __str__(self) -> str:
        return f"Cluster({self.units},P)"


Directive = DimMap | Cluster
Dataflow = tuple[Directive, ...]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One layer: its kind, the sizes of its dimensions as declared, and its stride.

    ``sizes`` has Y and X, the input's rows and columns with padding, also where Y' and X' were
    declared. ``stride`` is that of Y and of X.
    """

    name: str
    kind: Kind
    sizes: Mapping[str, int]
    stride: tuple[int, int] = (1, 1)

    def stride_of(self, dim: str) -> int:
        """Give the stride of a dimension: 1 of all but Y and X."""
        return {"Y": self.stride[0], "X": self.stride[1]}.get(dim, 1)

    @property
    def slides(self) -> bool:
        """Whether a filter slides over rows and columns: a convolution of any kind."""
        return self.kind not in {"GEMM", "BMM"}

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the layer, from its dimensions and stride."""
        found = 1
        for dim, size in self.sizes.items():
            if self.slides and dim in SLIDING:
                found *= max((size - self.sizes[SLIDING[dim]]) // self.stride_of(dim) + 1, 0)
            else:
                found *= size
        return found


def couplings(problem: Problem) -> Mapping[Role, tuple[str, ...]]:
    """Give the dimensions that index each tensor; Y and X of the output stand for Y' and X'.

    Rules of MAESTRO: N counts where the layer declares it; NGCONV has C as a dimension of the
    output, so that nothing is summed over C.
    """
    batch = ("N",) if "N" in problem.sizes else ()
    if problem.kind == "GEMM":
        return {"input": ("M", "K"), "filter": ("K", "N"), "output": ("M", "N")}
    if problem.kind == "BMM":
        return {"input": ("B", "M", "K"), "filter": ("B", "K", "N"), "output": ("B", "M", "N")}
    if problem.kind == "DSCONV":
        image = (*batch, "C", "Y", "X")
        return {"input": image, "filter": ("C", "R", "S"), "output": image}
    if problem.kind == "NGCONV":
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
