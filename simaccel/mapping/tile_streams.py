"""Tensors that one group hands to another, on other cores, tile by tile.

Groups on other cores than the one that makes a tensor wait for its end, unless the outermost loops
of both cut the tensor into the same tiles in the same order: then each tile is read as it comes.
Tiles of the innermost of these loops may overlap where they are read, as windows do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass
from itertools import groupby

from simaccel.mapping.cores import core_spreads
from simaccel.mapping.space import IterationSpace, aliases_of, space_of
from simaccel.mapping.tree import BUFFER, Group, Keep, Loop, Mapping
from simaccel.mapping.view import TensorView
from simaccel.workload import Workload


@dataclass(frozen=True)
class TileStream:
    """A tensor that a group makes and another reads tile by tile.

    ``maker`` and ``reader``: their names. ``maker_ranks`` and ``reader_ranks``: of the outermost
    loops of each, as many, that cut the tensor into the same tiles. ``made`` and ``read``: tiles of
    the innermost of them. ``ahead``: tiles behind its own that the reader needs of each.
    """

    tensor: str
    maker: str
    reader: str
    maker_ranks: tuple[str, ...]
    reader_ranks: tuple[str, ...]
    made: int
    read: int
    ahead: int = 0


@dataclass(frozen=True)
class TileCut:
    """A loop over a rank of a ``size`` that cuts a dimension of a tensor into tiles.

    ``dimensions``: that one, or those of a tensor that the group sees as one. A position of the
    rank is ``step`` positions of the dimension, and ``reach`` more: those of the other ranks of a
    window.
    """

    rank: str
    dimensions: tuple[int, ...]
    size: int
    tile: int
    step: int
    reach: int

    @property
    def count(self) -> int:
        """Number of tiles."""
        return -(-self.size // self.tile)

    @property
    def is_plain(self) -> bool:
        """Whether its tiles do not overlap, and have no gaps between them."""
        return (self.step, self.reach) == (1, 0)

    def advances_like(self, made: TileCut) -> bool:
        """Return whether its tiles begin where those of a plain cut do."""
        return (self.dimensions, self.step * self.tile) == (made.dimensions, made.tile)


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
    cuts = matching_cuts(outer_cuts(workload, tensor, maker), outer_cuts(workload, tensor, reader))
    if cuts:
        yield stream_of(tensor, maker, reader, cuts)


def matching_cuts(
    made: Iterable[TileCut], read: Iterable[TileCut]
) -> list[tuple[TileCut, TileCut]]:
    """Return the outermost loops of a maker and a reader that cut a tensor into the same tiles."""
    cuts: list[tuple[TileCut, TileCut]] = []
    for of_maker, of_reader in zip(made, read, strict=False):
        if not of_maker.is_plain or not of_reader.advances_like(of_maker):
            break
        cuts.append((of_maker, of_reader))
        if not of_reader.is_plain or of_maker.size != of_reader.size:
            break
    return cuts


def stream_of(
    tensor: str, maker: Group, reader: Group, cuts: Sequence[tuple[TileCut, TileCut]]
) -> TileStream:
    """Return the stream of a tensor whose tiles are those of some loops of both groups."""
    made, read = cuts[-1]
    ranks = tuple(cut.rank for cut, _ in cuts), tuple(cut.rank for _, cut in cuts)
    ahead = max(0, -(-(read.reach - read.step + 1) // made.tile))
    return TileStream(tensor, maker.name, reader.name, *ranks, made.count, read.count, ahead)


def outer_cuts(workload: Workload, tensor: str, group: Group) -> Iterator[TileCut]:
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
    unfit |= {*group.padded, *(rank for name in space.axes for rank in space.axis_ranks(name))}
    for node in group.tree[len(spreads) :]:
        if isinstance(node, Keep) and (node.level != BUFFER or node.tensor not in kept):
            continue
        if not isinstance(node, Loop) or node.rank in unfit:
            return
        if space.sizes[node.rank] <= node.tile:
            continue
        cut = _find_cut(space, node, [view for _, view in uses], group.merged)
        if cut is None:
            return
        unfit.add(node.rank)
        yield cut


def _find_cut(
    space: IterationSpace,
    loop: Loop,
    views: list[TensorView],
    merged: Map[str, tuple[str, ...]],
) -> TileCut | None:
    """Return how a loop cuts the only dimension that it moves; None where views differ."""
    cuts: set[TileCut] = set()
    for view in map(space.plain, views):
        widths = [len(merged.get(rank, (rank,))) for rank in view.ranks]
        moved = [at for at, dim in enumerate(view.terms) if loop.rank in dict(dim)]
        if len(moved) != 1:
            return None
        terms = dict(view.terms[moved[0]])
        step = terms.pop(loop.rank)
        reach = sum(factor * (space.sizes[rank] - 1) for rank, factor in terms.items())
        size = space.sizes[loop.rank]
        first = sum(widths[: moved[0]])
        dimensions = tuple(range(first, first + widths[moved[0]]))
        cuts.add(TileCut(loop.rank, dimensions, size, loop.tile, step, reach))
    return cuts.pop() if len(cuts) == 1 else None
