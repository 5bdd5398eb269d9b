"""From a dataflow to a mapping tree: the same loops, spreads and tiles, on an array of PEs.

Maps in time are loops in the same order, maps in space are loops over as many pieces as there are
sub-clusters, and a spread of those. The loops of inner levels stand outside of all spreads, as
the sub-clusters go through them together; where a loop cuts what an outer level spreads, it
stands after the spreads, with those that follow it. A PE's tile, in two slots, is the innermost
level's, or all that such loops go through; in the buffer, a tensor has what is used again later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from simaccel.errors import Fault, InputError
from simaccel.hardware import Accelerator, SpatialArraySpec
from simaccel.hardware.spatial import Fan
from simaccel.mapping.space import NotThisWorkloadError
from simaccel.mapping.tree import (
    BUFFER,
    PE,
    Do,
    Group,
    Keep,
    Loop,
    Mapping,
    Node,
    Spread,
    WorkloadReference,
)
from simaccel.papers.maestro.dataflows.dataflow import (
    NotDirectedError,
    OutputLevel,
    complete,
    over_outputs,
    pes_of_cluster,
)
from simaccel.papers.maestro.dataflows.described import DescribedLayer
from simaccel.papers.maestro.dataflows.reading import (
    DirectedLayer,
    Directives,
    parse_directives,
    require_pes,
)
from simaccel.units import MAC
from simaccel.workload import Einsum, Workload, operands_of

DIRECTIVES = "directives"
"""The name of the dataflow of mappings that are made here."""
_RANKS = {"N": "n", "G": "g", "K": "m", "C": "c", "R": "r", "S": "s", "Y'": "p", "X'": "q"}
_ROLES = ("input", "weight", "output")


def directives_for(workload: Workload) -> Directives:
    """Return the layers of a workload with the dataflows of its description.

    Raises:
        InputError: the workload is not from a description, or what is wrong with its dataflows.
        NotThisWorkloadError: an operator has other sizes than its layer.
    """
    file, text = workload.source
    if not text:
        allowed = f"a MAESTRO description with --dataflow {DIRECTIVES}"
        raise InputError([Fault("command line", "--workload", workload.name, allowed)])
    every = parse_directives(text, file)
    layers = tuple(layer for layer in every.layers if layer.name in workload.by_name)
    for layer in layers:
        if workload.operator(layer.name).ranks != layer.layer.shape().ranks:
            raise NotThisWorkloadError(f"layer {layer.name}: another size than in {file}")
    return replace(every, layers=layers)


def schedule(workload: Workload, accelerator: Accelerator, _options: object) -> Mapping:
    """Return the mapping of the dataflow `directives`: that of a description for its layers.

    Raises:
        InputError: as of ``directives_for``, or a cluster has more PEs than the array.
        NotThisWorkloadError: as of ``directives_for``.
        NotDirectedError, NotSpatialError: as of ``directed_mapping``.
    """
    directives = directives_for(workload)
    require_pes(directives, accelerator.spatial.rows * accelerator.spatial.cols)
    return directed_mapping(directives.layers, workload, accelerator)


def directed_mapping(
    directed: Sequence[DirectedLayer], workload: Workload, accelerator: Accelerator
) -> Mapping:
    """Return the mapping of described layers, which are the workload's operators.

    Raises:
        NotDirectedError: a dataflow that no tree says, or PEs that the array hasn't got.
        NotSpatialError: the accelerator's array is systolic.
    """
    groups = []
    for described in directed:
        operator = workload.operator(described.name)
        assert isinstance(operator, Einsum)  # noqa: S101 - layers are einsums
        groups.append(_group(described, operator, accelerator.spatial))
    return Mapping(
        workload=WorkloadReference(workload.name, workload.fingerprint),
        dataflow=DIRECTIVES,
        body=tuple(groups),
    )


@dataclass
class _TreeNest:
    """The nodes of a tree while it is written, and what loops have left of each rank."""

    sizes: dict[str, int]
    outside: list[Loop] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)
    inside: list[Loop] = field(default_factory=list)


def _group(described: DirectedLayer, operator: Einsum, array: SpatialArraySpec) -> Group:
    layer, pes = described.layer, array.rows * array.cols
    if layer.up is not None:
        raise NotDirectedError(
            f"layer {described.name}: directives don't say how a TRCONV up-samples"
        )
    needed = pes_of_cluster(described.dataflow)
    if needed > pes:
        raise NotDirectedError(
            f"layer {described.name}: a cluster has {needed} PEs, the array {pes}"
        )
    levels = over_outputs(layer, complete(layer, described.dataflow, pes))
    nest = _nest(layer, levels, _fans(described.name, levels, array))
    work = [Loop(rank, 1) for rank, size in nest.sizes.items() if size > 1]
    keeps = [Keep(operand.tensor, PE, 2) for _, operand in operands_of(operator)]
    tree: list[Node] = [
        *_add_keeps(operator, nest, array),
        *nest.spreads,
        *keeps,
        *nest.inside,
        *work,
        Do(operator.name, MAC),
    ]
    return Group(operators=(operator.name,), tree=tuple(tree))


def _nest(layer: DescribedLayer, levels: Sequence[OutputLevel], fans: Sequence[Fan]) -> _TreeNest:
    """Write the loops and spreads of all levels."""
    ranks = {dim: _rank(layer, dim) for dim in levels[0].sizes}
    nest = _TreeNest({ranks[dim]: size for dim, size in levels[0].sizes.items()})
    spread: set[str] = set()
    is_inside = False
    for level, fan in zip(levels, fans, strict=True):
        for directive in level.maps:
            rank = ranks[directive.dim]
            at_once = directive.size * (level.units if directive.spatial else 1)
            if directive.offset != directive.size < level.sizes[directive.dim]:
                raise NotDirectedError(
                    f"layer {layer.name}: {directive} (over outputs) repeats or leaves out "
                    "positions; a tree cuts a rank into pieces that follow each other"
                )
            if at_once >= level.sizes[directive.dim]:
                continue
            is_inside = is_inside or rank in spread
            if is_inside and directive.spatial:
                raise NotDirectedError(
                    f"layer {layer.name}: {directive} takes several rounds inside of a loop that "
                    "cuts what an outer level spreads; a tree has all spreads outside of such loops"
                )
            (nest.inside if is_inside else nest.outside).append(Loop(rank, at_once))
            nest.sizes[rank] = min(nest.sizes[rank], at_once)
        spatial = level.spatial
        if (
            spatial.size < level.sizes[spatial.dim] or not nest.spreads
        ):  # PEs loop behind a spread only
            tile = min(spatial.size, level.sizes[spatial.dim])
            nest.spreads.append(Spread(ranks[spatial.dim], tile, fan))
            spread.add(ranks[spatial.dim])
        for each in level.maps:
            rank = ranks[each.dim]
            nest.sizes[rank] = min(nest.sizes[rank], each.size)
    return nest


def _rank(layer: DescribedLayer, dim: str) -> str:
    """Return the operator's rank of a dimension; channels of a depth-wise layer are its groups."""
    if not layer.slides:
        return dim.lower()
    if layer.kind == "DSCONV":
        return {"C": "g", "K": "m"}.get(dim, _RANKS.get(dim, dim))
    return _RANKS.get(dim, dim)


def _fans(name: str, levels: Sequence[OutputLevel], array: SpatialArraySpec) -> list[Fan]:
    """Return each level rows or columns of the array: outer levels rows, where there are any."""
    needed = [  # sub-clusters of a level that have work at once
        min(level.units, -(-level.sizes[level.spatial.dim] // level.spatial.size))
        for level in levels
    ]
    for border in range(len(levels), -1, -1):
        rows, cols = prod(needed[:border]), prod(needed[border:])
        if rows <= array.rows and cols <= array.cols:
            by_rows: list[Fan] = ["rows"] * border
            by_cols: list[Fan] = ["cols"] * (len(levels) - border)
            return [*by_rows, *by_cols]
    shape = " x ".join(map(str, needed))
    raise NotDirectedError(
        f"layer {name}: {shape} sub-clusters of its levels don't fit {array.rows} rows and "
        f"{array.cols} columns, outer levels on rows and inner ones on columns"
    )


def _add_keeps(operator: Einsum, nest: _TreeNest, array: SpatialArraySpec) -> list[Node]:
    """Put the keeps of the buffer among the loops outside.

    A tensor is used again by the outermost loop that doesn't move it while a loop inside does: it
    stays around that loop; one that isn't used again stays around the spreads.
    """
    keeps: dict[int, list[Node]] = {}
    for role, (_, operand) in zip(_ROLES, operands_of(operator), strict=True):
        if role in array.bypass_buffer:
            continue
        moves = [loop.rank in operand.ranks for loop in nest.outside]
        last = max((at for at, is_moved in enumerate(moves) if is_moved), default=-1)
        border = next((at for at in range(last) if not moves[at]), len(moves))
        slots = 2 if any(moves[:border]) else 1
        keeps.setdefault(border, []).append(Keep(operand.tensor, BUFFER, slots))
    nodes: list[Node] = []
    for at, loop in enumerate(nest.outside):
        nodes += [*keeps.get(at, []), loop]
    return nodes + keeps.get(len(nest.outside), [])
