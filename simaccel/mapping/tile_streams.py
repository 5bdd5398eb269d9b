"""Tile streams: tensors that one group passes to another, on other cores, tile by tile.

A group that reads a tensor made on other cores waits until all of it is made, unless the outermost
loops of both groups cut the tensor into the same tiles in the same order: then it reads each tile
as soon as it is made. The reader's tiles of the innermost such loop may overlap, as windows do.
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

    ``maker`` and ``reader``: names of the groups. ``maker_ranks`` and ``reader_ranks``: the ranks
    of the outermost loops, outside in, by which each cuts the tensor into the same tiles. ``made``
    and ``read``: how many tiles the innermost of these loops has. ``ahead``: how many tiles after
    tile i must be made before the reader's iteration i (2 for a 3-row window over one-row tiles).
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
    """A loop over ``rank`` that cuts a dimension of a tensor into tiles.

    ``size``: of the rank; ``tile``: of a piece of it. ``dimensions``: indices of the dimension, or
    of several that are merged into one rank. ``step``: coefficient of the rank in the dimension (a
    stride); ``reach``: positions that a window's other ranks add, 2 for three filter rows.
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
        """Whether its tiles partition the dimension, without overlaps or gaps."""
        return (self.step, self.reach) == (1, 0)

    def begins_with(self, made: TileCut) -> bool:
        """Return whether each of its tiles begins where that of a plain cut begins."""
        return (self.dimensions, self.step * self.tile) == (made.dimensions, made.tile)


def tile_streams(workload: Workload, mapping: Mapping) -> tuple[TileStream, ...]:
    """Return the tile streams between groups placed on different cores, in order of their readers.

    Both groups run equally often (in the repeated layer, or once).
    """
    if all(group.place is None for group in mapping.groups):
        return ()
    body = mapping.body  # parts that are no groups have no streams
    times = [workload.times(p.operators[0]) if isinstance(p, Group) else 0 for p in body]
    return tuple(
        stream
        for _, run in groupby(zip(times, body, strict=True), lambda pair: pair[0])
        for stream in _streams_of(workload, [part for _, part in run if isinstance(part, Group)])
    )


def _streams_of(workload: Workload, groups: list[Group]) -> Iterator[TileStream]:
    makers: dict[str, Group] = {}
    for reader in groups:
        if reader.place is not None:
            inputs = (workload.operator(name).inputs for name in reader.operators)
            for tensor in dict.fromkeys(operand.tensor for read in inputs for operand in read):
                maker = makers.get(tensor, reader)
                if maker.place is not None and set(maker.place).isdisjoint(reader.place):
                    cuts = matching_cuts(
                        outer_cuts(workload, tensor, maker), outer_cuts(workload, tensor, reader)
                    )
                    if cuts:
                        yield stream_of(tensor, maker, reader, cuts)
        makers |= {workload.operator(name).output.tensor: reader for name in reader.operators}


def matching_cuts(
    made: Iterable[TileCut], read: Iterable[TileCut]
) -> list[tuple[TileCut, TileCut]]:
    """Return the pairs of outermost loops by which maker and reader cut a tensor alike."""
    cuts: list[tuple[TileCut, TileCut]] = []
    for of_maker, of_reader in zip(made, read, strict=False):
        if not of_maker.is_plain or not of_reader.begins_with(of_maker):
            break
        cuts.append((of_maker, of_reader))
        if not of_reader.is_plain or of_maker.size != of_reader.size:
            break
    return cuts


def stream_of(
    tensor: str, maker: Group, reader: Group, cuts: Sequence[tuple[TileCut, TileCut]]
) -> TileStream:
    """Return the stream of a tensor by the loops that cut it in both groups (`matching_cuts`)."""
    made, read = cuts[-1]
    ranks = tuple(cut.rank for cut, _ in cuts), tuple(cut.rank for _, cut in cuts)
    ahead = max(0, -(-(read.reach - read.step + 1) // made.tile))
    return TileStream(tensor, maker.name, reader.name, *ranks, made.count, read.count, ahead)


def outer_cuts(workload: Workload, tensor: str, group: Group) -> Iterator[TileCut]:
    """Yield a group's outermost loops that cut a tensor, up to the first that doesn't.

    Loops of one piece are passed over. A loop over a vector operator's axis ends them, as it may
    run twice; and so does one over a padded rank.
    """
    space, spreads = space_of(workload, group), core_spreads(group)
    aliases = aliases_of(space, group.tree, ())
    uses = [
        (aliases.get(use, use), view)
        for op in space.operators
        for use, view in op.uses
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
    """Return how a loop cuts a tensor; None if it moves several dimensions, or views differ."""
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
