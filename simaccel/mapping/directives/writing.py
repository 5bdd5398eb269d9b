"""From a mapping tree back to directives, where there are some that say the same.

The way back is not a rule but a guess that is checked: directives are written down from the
loops and spreads, and stand only if ``directed_mapping`` makes the same loops and spreads of them.
What a tree keeps in the buffer, directives don't say.
"""

from __future__ import annotations

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.directives.dataflow import Cluster, DimMap, Directive
from simaccel.mapping.directives.reading import Directed
from simaccel.mapping.directives.translating import directed_mapping
from simaccel.mapping.tree import BUFFER, Fork, Group, Keep, Loop, Part, Spread
from simaccel.workload import Einsum, Workload, operands_of
from simaccel.workload.described import DescribedLayer
from simaccel.workload.layers import layers_workload

Step = tuple[bool, str, int]
"""A spread (or a loop), its rank and its tile."""
_RANKS = ("b", "m", "k", "n")


def directed_of(workload: Workload, group: Group, accelerator: Accelerator) -> Directed | None:
    """Return a matrix product's tree as directives; None where none say the same.

    Raises:
        NotSpatialError: the accelerator's array is systolic.

    """
    layer = _layer(workload, group)
    maps = None if layer is None else _levels(group, layer)
    if layer is None or maps is None:
        return None
    written: list[Directive] = [*maps[0]]
    spreads = [node for node in group.tree if isinstance(node, Spread)]
    for at, own in enumerate(maps[1:], start=1):
        written += [Cluster(_units(group, layer, spreads[at])), *own]
    found = Directed(layer=layer, dataflow=tuple(written))
    described = layers_workload(workload.name, {layer.name: layer.shape()})
    try:
        (again,) = directed_mapping([found], described, accelerator).groups
    except SimaccelError:
        return None
    return found if _steps(again) == _steps(group) else None


def _layer(workload: Workload, group: Group) -> DescribedLayer | None:
    """Return the product that a group is, if it is one."""
    operator = workload.operator(group.operators[0])
    plain = not group.merged and not group.padded and len(group.operators) == 1
    plain = plain and not any(isinstance(node, Fork | Part) for node in group.tree)
    if not plain or not isinstance(operator, Einsum) or {*operator.ranks} - {*_RANKS}:
        return None
    sizes = {rank.upper(): operator.ranks.get(rank, 1) for rank in _RANKS}
    many = sizes["B"] > 1
    if not many:
        del sizes["B"]
    layer = DescribedLayer(name=operator.name, kind="BMM" if many else "GEMM", sizes=sizes)
    described = layers_workload("described", {layer.name: layer.shape()}).operator(layer.name)
    seen, meant = (
        [{rank for rank in given.ranks if one.ranks[rank] > 1} for _, given in operands_of(one)]
        for one in (operator, described)
    )
    return layer if seen == meant else None


def _levels(group: Group, layer: DescribedLayer) -> list[list[DimMap]] | None:
    """Write the maps of each level: loops in order, each level's spread where its loop stands."""
    spreads = [node for node in group.tree if isinstance(node, Spread)]
    if not spreads or len({one.rank for one in spreads}) < len(spreads):
        return None
    levels: list[list[DimMap]] = [[] for _ in spreads]
    at = 0
    for node in group.tree:
        if isinstance(node, Keep) and node.level != BUFFER:
            break
        if not isinstance(node, Loop):
            continue
        of = next((n for n, one in enumerate(spreads) if one.rank == node.rank), None)
        at = max(at, of or 0)
        spatial = of == at
        size = spreads[at].tile if spatial else node.tile
        levels[at].append(DimMap(node.rank.upper(), size, size, spatial))
    for own, spread in zip(levels, spreads, strict=True):
        dim = spread.rank.upper()
        if not any(one.spatial for one in own):
            own.append(DimMap(dim, spread.tile, spread.tile, spatial=True))
        if len({one.dim for one in own}) < len(own) or dim not in layer.sizes:
            return None
    return levels


def _units(group: Group, layer: DescribedLayer, spread: Spread) -> int:
    """Return how many pieces a spread has."""
    left = layer.sizes[spread.rank.upper()]
    for node in group.tree:
        if node is spread:
            break
        if isinstance(node, Loop | Spread) and node.rank == spread.rank:
            left = min(left, node.tile)
    return -(-left // spread.tile)


def _steps(group: Group) -> tuple[list[Step], list[Step]]:
    """Return loops and spreads outside of what PEs keep in order, and the others by their rank."""
    inside = False
    found: tuple[list[Step], list[Step]] = ([], [])
    for node in group.tree:
        if isinstance(node, Keep):
            inside = inside or node.level != BUFFER
        elif isinstance(node, Loop | Spread):
            found[inside].append((isinstance(node, Spread), node.rank, node.tile))
    return found[0], sorted(found[1])
