"""A dataflow as MAESTRO writes it: maps of dimensions, split into clusters.

Kwon et al., "Understanding Reuse, Performance, and Hardware Cost of DNN Dataflows: A Data-Centric
Approach Using MAESTRO" (MICRO 2019), section 3. Numbers are elements of a dimension.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final, Literal

from simaccel.errors import SimaccelError
from simaccel.papers.maestro.dataflows.described import OF_INPUT, SLIDING, DescribedLayer
from simaccel.workload.conv import positions

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


@dataclass(frozen=True)
class ClusterLevel:
    """One cluster level, complete: its maps from the outermost, and its sub-clusters.

    ``sizes`` are the nominal sizes of the dimensions at this level (of a full tile of the level
    above); ``units`` is how many sub-clusters (at the innermost level: PEs) share the work.
    """

    maps: tuple[DimMap, ...]
    sizes: Mapping[str, int]
    units: int


def split(dataflow: Dataflow) -> tuple[list[list[DimMap]], list[int]]:
    """Return the maps of each level as written, and the sizes of the clusters between them."""
    maps: list[list[DimMap]] = [[]]
    clusters = []
    for directive in dataflow:
        if isinstance(directive, Cluster):
            clusters.append(directive.units)
            maps.append([])
        else:
            maps[-1].append(directive)
    return maps, clusters


def pes_of_cluster(dataflow: Dataflow) -> int:
    """Return the PEs of one top-level cluster, the least number that can work."""
    return prod(split(dataflow)[1])


def complete(layer: DescribedLayer, dataflow: Dataflow, pes: int) -> tuple[ClusterLevel, ...]:
    """Return the levels from the outermost to the innermost.

    The rules are those of MAESTRO (its public tool, head 4eb08d1), so that a description has the
    same meaning here:

    1. Y' and X' become Y and X: their size grows by the map of R (S) at the same level, less 1.
    2. A dimension that the level above maps and this one doesn't is mapped in time, as there. Such
       maps are put in front, the last inherited first.
    3. Dimensions of the inputs that are still missing are unrolled after them, alphabetically.
    4. A stride shortens maps of Y and X that hold at least a filter to what their outputs read,
       and lengthens the offset.

    PEs that don't fill a cluster stay idle. The dataflow must have no ``faults``.
    """
    (written, clusters), coupled = split(dataflow), couplings(layer)
    inputs = sorted({*coupled["input"], *coupled["filter"]})
    sizes: dict[str, int] = dict(layer.sizes)
    above: tuple[DimMap, ...] = ()
    levels = []
    for depth, own in enumerate(written):
        units = clusters[depth - 1] if depth else pes // prod(clusters)
        mapped = _by_inputs(own)
        known = {directive.dim for directive in mapped}
        taken = [replace(outer, spatial=False) for outer in above if outer.dim not in known]
        mapped = [*reversed(taken), *mapped]
        known |= {directive.dim for directive in taken}
        unrolled = (dim for dim in inputs if dim not in known and dim in sizes)
        mapped += [DimMap(dim, sizes[dim], sizes[dim]) for dim in unrolled]
        maps = tuple(_shorten_map(layer, directive, is_top=depth == 0) for directive in mapped)
        levels.append(ClusterLevel(maps, dict(sizes), units))
        above = maps
        tiles = {directive.dim: directive.size for directive in maps}
        sizes = {dim: min(tiles[dim], sizes[dim]) for dim in inputs if dim in tiles}
    return tuple(levels)


def _by_inputs(maps: list[DimMap]) -> list[DimMap]:
    """Turn maps of outputs (Y', X') into maps of the inputs that they read."""
    mapped = {one.dim: one for one in maps}
    found = []
    for one in maps:
        dim = OF_INPUT.get(one.dim)
        if dim is None or dim in mapped:
            found.append(one)
        else:
            reach = mapped[SLIDING[dim]].size
            found.append(replace(one, dim=dim, size=one.size + reach - 1))
    return found


def _shorten_map(layer: DescribedLayer, one: DimMap, *, is_top: bool) -> DimMap:
    """Shorten a map of Y or X to the positions that its outputs read, if the stride isn't 1."""
    stride = layer.stride_of(one.dim)
    if one.dim not in SLIDING or not layer.slides or stride == 1:
        return one
    reach = layer.sizes[SLIDING[one.dim]]
    if one.size < reach:
        return one
    outputs = (one.size + stride - reach) // stride
    size = outputs * min(stride, reach) + max(reach - stride, 0)
    step = reach if not is_top and reach < stride else stride
    return replace(one, size=size, offset=outputs * step)


OUTPUT_OF: Mapping[str, str] = {dim: outer for outer, dim in OF_INPUT.items()}


class NotDirectedError(SimaccelError):
    """A dataflow whose maps don't compute a layer; the message names it map and why."""


@dataclass(frozen=True)
class OutputLevel:
    """A cluster level over outputs: its maps, their nominal sizes, and its sub-clusters.

    One map is spatial. Offsets may be smaller than sizes (outputs made again) or larger (left out).
    """

    maps: tuple[DimMap, ...]
    sizes: Mapping[str, int]
    units: int

    @property
    def spatial(self) -> DimMap:
        """The map over sub-clusters."""
        return next(one for one in self.maps if one.spatial)


def over_outputs(
    layer: DescribedLayer, levels: tuple[ClusterLevel, ...]
) -> tuple[OutputLevel, ...]:
    """Return the levels with maps of outputs instead of inputs.

    MAESTRO maps rows of the input, Y, over which the filter's R slides; the tile of a map holds
    some rows of outputs. Here each level has maps of Y' and X' instead, in outputs, so that all
    dimensions are independent: what a tile reads follows from outputs, filter and stride. Maps of
    Y and R that move over PEs together (a diagonal, one row of outputs) are a map of R.

    Raises:
        NotDirectedError: a map that doesn't say which outputs a tile has, or two spatial maps at
            a level that are no diagonal.
    """
    converted = []
    sizes = dict(levels[0].sizes)
    for dim, outer in OUTPUT_OF.items() if layer.slides else ():
        sizes[outer] = positions(sizes[dim], sizes[SLIDING[dim]], layer.stride_of(dim))
    for depth, level in enumerate(levels):
        maps = list(level.maps)
        for dim, count in Counter(directive.dim for directive in maps).items():
            if count > 1:
                text = f"layer {layer.name}: {dim} is mapped twice at level {depth}"
                raise NotDirectedError(text)
        for dim, outer in OUTPUT_OF.items() if layer.slides else ():
            maps = _of_outputs(layer, level, maps, dim, sizes[outer])
        spatial = [directive for directive in maps if directive.spatial]
        if len(spatial) != 1:
            names = " and ".join(map(str, spatial))
            raise NotDirectedError(
                f"layer {layer.name}: {names} at level {depth} share the sub-clusters; two spatial "
                "maps have to be of Y and R, or X and S, with the same size and offset"
            )
        own = {directive.dim: sizes[directive.dim] for directive in maps}
        converted.append(OutputLevel(tuple(maps), own, level.units))
        sizes = {directive.dim: min(directive.size, own[directive.dim]) for directive in maps}
    return tuple(converted)


def _of_outputs(
    layer: DescribedLayer, level: ClusterLevel, maps: list[DimMap], dim: str, outputs: int
) -> list[DimMap]:
    """Replace the map of Y (or X) by one of the outputs that its tiles hold."""
    known = {directive.dim: directive for directive in maps}
    rows, reach = known[dim], known[SLIDING[dim]]
    at = maps.index(rows)
    filter_rows = level.sizes[SLIDING[dim]]
    alike = (rows.size, rows.offset) == (reach.size, reach.offset)
    if outputs == 1 and rows.spatial and reach.spatial and alike:
        maps[at] = DimMap(OUTPUT_OF[dim], 1, 1)
        return maps
    if filter_rows == 1 and rows.spatial and reach.spatial:
        maps[maps.index(reach)] = DimMap(reach.dim, 1, 1)  # all units have its one row
    if rows.size < filter_rows:
        raise NotDirectedError(
            f"layer {layer.name}: {rows} holds no whole filter of {filter_rows} rows, and is no "
            f"diagonal with {reach}"
        )
    stride = layer.stride_of(dim)
    held, step = rows.size - filter_rows + 1, rows.offset
    if stride > filter_rows:  # completion has left out rows that no filter reads
        held = step = rows.size // filter_rows
    elif stride > 1:  # completion has made the tile a whole number of outputs
        held = step = (rows.size - filter_rows) // stride + 1
    maps[at] = DimMap(OUTPUT_OF[dim], held, step, rows.spatial)
    return maps
