"""Completion of a dataflow: maps that cluster levels inherit or unroll, and strides.

The rules are those of MAESTRO (its public tool, head 4eb08d1), so that a description has the same
meaning here:

1. Y' and X' become Y and X: their size grows by the map of R (S) at the same level, less 1.
2. A dimension that the level above maps and this one doesn't is mapped in time, as there. Such
   maps are put in front, the last inherited first.
3. Dimensions of the inputs that are still missing are unrolled after them, alphabetically.
4. A stride shortens maps of Y and X that hold at least a filter to what their outputs read,
   and lengthens the offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from simaccel.papers.maestro.dataflows.dataflow import Cluster, Dataflow, DimMap, couplings
from simaccel.papers.maestro.dataflows.described import OF_INPUT, SLIDING, DescribedLayer


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

    PEs that don't fill a cluster stay idle. The dataflow must have no ``faults``.
    """
    written, clusters = split(dataflow)
    sizes: dict[str, int] = dict(layer.sizes)
    above: tuple[DimMap, ...] = ()
    levels = []
    for depth, own in enumerate(written):
        units = clusters[depth - 1] if depth else pes // prod(clusters)
        maps = _unroll_maps(layer, sizes, _inherit_maps(above, _by_inputs(own)))
        maps = tuple(_shorten_map(layer, directive, is_top=depth == 0) for directive in maps)
        levels.append(ClusterLevel(maps, dict(sizes), units))
        above = maps
        known = {directive.dim: directive for directive in maps}
        inputs = _input_dims(layer)
        sizes = {dim: min(known[dim].size, sizes[dim]) for dim in inputs if dim in known}
    return tuple(levels)


def _input_dims(layer: DescribedLayer) -> list[str]:
    """Return the dimensions of the input and the filter in alphabetical order."""
    coupled = couplings(layer)
    return sorted({*coupled["input"], *coupled["filter"]})


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


def _inherit_maps(above: tuple[DimMap, ...], own: list[DimMap]) -> list[DimMap]:
    mapped = {one.dim for one in own}
    missing = [replace(one, spatial=False) for one in above if one.dim not in mapped]
    return [*reversed(missing), *own]


def _unroll_maps(
    layer: DescribedLayer, sizes: Mapping[str, int], maps: list[DimMap]
) -> tuple[DimMap, ...]:
    mapped = {one.dim for one in maps}
    missing = [dim for dim in _input_dims(layer) if dim not in mapped and dim in sizes]
    return (*maps, *(DimMap(dim, sizes[dim], sizes[dim]) for dim in missing))


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
