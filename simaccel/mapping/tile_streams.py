"""Tensors that one group hands to another, on other cores, tile by tile.

Groups on other cores than the one that makes a tensor wait for its end, unless the outermost loops
of both cut the tensor into the same tiles in the same order: then each tile is read as it comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from simaccel.mapping.classes import Terms
from simaccel.mapping.cores import core_spreads
from simaccel.mapping.space import IterationSpace, aliases_of, space_of
from simaccel.mapping.tree import BUFFER, Group, Keep, Loop, Mapping
from simaccel.mapping.view import TensorView
from simaccel.workload import Workload


@dataclass(frozen=True)
class TileStream:
    """A tensor that a group makes and another reads tile by tile.

    ``maker`` and ``reader``: their names. ``maker_ranks`` and ``reader_ranks``: of the outermost
    loops of each, as many, that cut the tensor into the same tiles.
    """

    tensor: str
    maker: str
    reader: str
    maker_ranks: tuple[str, ...]
    reader_ranks: tuple[str, ...]


@dataclass(frozen=True)
class _Cut:
    """A loop that cuts a dimension of a tensor (by its number, and ``size``) into tiles."""

    rank: str
    dimension: int
    size: int
    tile: int

    def is_like(self, other: _Cut) -> bool:
        """Return whether another loop makes the same tiles."""
        mine, others = (self.dimension, self.size, self.tile), (other.dimension, other.size)
        return mine == (*others, other.tile)


def tile_streams(workload: Workload, mapping: Mapping) -> tuple[TileStream, ...]:
    """Return the tensors that groups with places hand on tile by tile, in order of their readers.

    Both groups are in the same layer, on different cores.
    """
    return tuple(
        stream
        for _, run in groupby(mapping.body, lambda one: _times(workload, one))
        for stream in _streams_of(workload, [one for one in run if isinstance(one, Group)])
    )


def _times(workload: Workload, one: object) -> int:
    return workload.times(one.operators[0]) if isinstance(one, Group) else 0


def _streams_of(workload: Workload, groups: list[Group]) -> Iterator[TileStream]:
    makers: dict[str, Group] = {}
    for reader in groups:
        if reader.place is not None:
            for tensor in _read_tensors(workload, reader):
                maker = makers.get(tensor, reader)
                if maker.place is not None and set(maker.place).isdisjoint(reader.place):
                    yield from _stream(workload, tensor, maker, reader)
        makers |= {workload.operator(name).output.tensor: reader for name in reader.operators}


def _read_tensors(workload: Workload, group: Group) -> tuple[str, ...]:
    operators = map(workload.operator, group.operators)
    return tuple(dict.fromkeys(given.tensor for one in operators for given in one.inputs))


def _stream(workload: Workload, tensor: str, maker: Group, reader: Group) -> Iterator[TileStream]:
    """Yield the stream of a tensor, if tiles of one group are those of the other."""
    cuts: list[tuple[_Cut, _Cut]] = []
    for made, read in zip(
        _outer_cuts(workload, tensor, maker), _outer_cuts(workload, tensor, reader), strict=False
    ):
        if not made.is_like(read):
            break
        cuts.append((made, read))
    if cuts:
        ranks = tuple(made.rank for made, _ in cuts), tuple(read.rank for _, read in cuts)
        yield TileStream(tensor, maker.name, reader.name, *ranks)


def _outer_cuts(workload: Workload, tensor: str, group: Group) -> Iterator[_Cut]:
    """Yield the outermost loops around a group's tile of a tensor that all cut the tensor.

    A loop that makes one piece is none. One that goes through a vector operator's axis may run
    twice.
    """
    space, spreads = space_of(workload, group), core_spreads(group)
    aliases = aliases_of(space, group.tree, ())
    uses = [
        (aliases.get(use, use), view)
        for seen in space.operators
        for use, view in seen.uses
        if view.name == tensor
    ]
    kept, unfit = {use for use, _ in uses}, {spread.rank for spread in spreads}
    unfit |= {*space.axes.values(), *group.padded}
    for node in group.tree[len(spreads) :]:
        if isinstance(node, Keep) and (node.level != BUFFER or node.tensor not in kept):
            continue
        if not isinstance(node, Loop) or node.rank in unfit:
            return
        if space.sizes[node.rank] <= node.tile:
            continue
        dimension = _cut_dimension(space, node.rank, [view for _, view in uses])
        if dimension is None:
            return
        unfit.add(node.rank)
        yield _Cut(node.rank, dimension, space.sizes[node.rank], node.tile)


def _cut_dimension(space: IterationSpace, rank: str, views: list[TensorView]) -> int | None:
    """Return the dimension that a rank is, in all views of a tensor alike; None if it isn't one."""
    found = {
        tuple(at for at, dim in enumerate(view.terms) if _wide_terms(space, dim) == ((rank, 1),))
        for view in map(space.plain, views)
    }
    (dimensions,) = found if len(found) == 1 else ((),)
    return dimensions[0] if len(dimensions) == 1 else None


def _wide_terms(space: IterationSpace, dim: Terms) -> Terms:
    """Return the terms of a dimension whose ranks have several positions."""
    return tuple((rank, factor) for rank, factor in dim if space.sizes.get(rank, 1) > 1)
