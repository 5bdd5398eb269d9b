"""Cluster levels over outputs: loops that don't slide, and how many PEs share each.

MAESTRO maps rows of the input, Y, over which the filter's R slides; the tile of a map holds some
rows of outputs. Here each level has maps of Y' and X' instead, in outputs, so that all dimensions
are independent: what a tile reads follows from outputs, filter and stride. Maps of Y and R that
move over PEs together (a diagonal, one row of outputs) are a map of R.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simaccel.errors import SimaccelError
from simaccel.papers.maestro.dataflows.dataflow import DimMap
from simaccel.papers.maestro.dataflows.described import OF_INPUT, SLIDING, DescribedLayer
from simaccel.papers.maestro.dataflows.levels import ClusterLevel
from simaccel.workload.conv import positions

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

    Raises:
        NotDirectedError: a map that doesn't say which outputs a tile has, or two spatial maps at
            a level that are no diagonal.

    """
    converted = []
    sizes = dict(levels[0].sizes)
    for dim, outer in OUTPUT_OF.items() if layer.slides else ():
        sizes[outer] = positions(sizes[dim], sizes[SLIDING[dim]], layer.stride_of(dim))
    for depth, level in enumerate(levels):
        _require_once(layer, level, depth)
        maps = list(level.maps)
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


def _require_once(layer: DescribedLayer, level: ClusterLevel, depth: int) -> None:
    dims = [one.dim for one in level.maps]
    for dim in dict.fromkeys(dims):
        if dims.count(dim) > 1:
            raise NotDirectedError(f"layer {layer.name}: {dim} is mapped twice at level {depth}")


def _of_outputs(
    layer: DescribedLayer, level: ClusterLevel, maps: list[DimMap], dim: str, outputs: int
) -> list[DimMap]:
    """Replace the map of Y (or X) by one of the outputs that its tiles hold."""
    known = {directive.dim: directive for directive in maps}
    rows, reach = known[dim], known[SLIDING[dim]]
    at = maps.index(rows)
    filter_rows = level.sizes[SLIDING[dim]]
    if outputs == 1 and rows.spatial and reach.spatial and _is_alike(rows, reach):
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
    if stride > 1:  # completion has made the tile a whole number of outputs
        held = _held_outputs(rows.size, filter_rows, stride)
        step = held
    else:
        held, step = rows.size - filter_rows + 1, rows.offset
    maps[at] = DimMap(OUTPUT_OF[dim], held, step, rows.spatial)
    return maps


def _held_outputs(rows: int, filter_rows: int, stride: int) -> int:
    """Return the outputs of a tile of rows from which those that no filter reads are left out."""
    if stride > filter_rows:
        return rows // filter_rows
    return (rows - filter_rows) // stride + 1


def _is_alike(rows: DimMap, reach: DimMap) -> bool:
    return (rows.size, rows.offset) == (reach.size, reach.offset)
