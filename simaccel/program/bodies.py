"""The outline of a group: nested loop bodies with their operators, and tiles that move in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from functools import cached_property

from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import BUFFER, STREAM, Do
from simaccel.mapping.view import TensorView
from simaccel.numbers import in_bytes
from simaccel.program.division import Division, SlidingWindow, volume
from simaccel.program.program import Load, Node, Reserve, Store, Tile, TransferTraffic
from simaccel.workload.names import tensor_of


@dataclass(eq=False)
class TilePlacement:
    """A tile of a tensor: its memory, slots, and transfers.

    ``use``: the tensor's name in the tree. ``block``: rank sizes at its ``keep``. ``maker``: the
    operator of the group that writes it. ``stores``: the tensors stored from it to the next memory
    outside. ``buffered``: its other side is a tile in the buffer, not DRAM.
    """

    use: str
    view: TensorView
    place: str
    slots: int
    block: Map[str, int]
    queue: int
    maker: BoundOperator | None = None
    loads: bool = True
    stores: tuple[TensorView, ...] = ()
    spills: bool = False
    buffered: bool = False
    slides: str = ""
    """Rank along which its innermost loop slides it; empty if it does not slide."""
    step: int = 0
    tile: str = ""
    """Name of the tile."""
    division: Division | None = None
    """Its division over PEs, if they keep it or it streams to them."""
    user: str = ""
    """The operator whose PEs keep it or receive its stream."""
    returns: bool = False
    """Whether partial sums in PEs go to this tile in the buffer and come back."""


@dataclass(eq=False)
class OperatorLeaf:
    """An operator at the leaf of a tree; ``division``: over PEs, if these have memories."""

    do: Do
    op: BoundOperator
    division: Division | None
    folds: tuple[int | None, int | None]
    outer: Map[str, int]
    """Operands that a keep around the group holds, with the number of the keep."""

    @property
    def leaves(self) -> tuple[OperatorLeaf, ...]:
        """The leaf itself."""
        return (self,)


@dataclass(eq=False)
class RankParts:
    """A rank cut into parts: (start, size, body) of each."""

    rank: str
    parts: list[tuple[int, int, Body]]

    @cached_property
    def leaves(self) -> tuple[OperatorLeaf, ...]:
        """All leaves below."""
        return tuple(leaf for _, _, body in self.parts for leaf in body.leaves)


@dataclass(eq=False)
class Body:
    """The body of a loop, of the whole group, or of a part of a rank."""

    rank: str = ""
    tile: int = 0
    part: str = ""
    """The rank of which this is a part; empty if it is none."""
    least: int = 1
    """The fewest trips of the loop in any of its executions."""
    holds: list[TilePlacement] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    ahead: int = 0
    """Items that run one iteration early."""
    doubled: bool = False
    """Whether a vector operator whose axis this loop cuts runs it twice (statistics, normalise)."""
    online: tuple[OperatorLeaf, ...] = ()
    """Online vector operators: this is the outermost shared loop that cuts their axis."""

    @cached_property
    def leaves(self) -> tuple[OperatorLeaf, ...]:
        """All leaves below."""
        return tuple(leaf for item in self.items for leaf in item.leaves)

    @cached_property
    def adders(self) -> frozenset[str]:
        """Operators below that accumulate sums or statistics over this loop's rank."""
        return frozenset(leaf.op.name for leaf in self.leaves if self.rank in leaf.op.reduced)

    @property
    def slides(self) -> bool:
        """Whether a tile of this body slides."""
        return any(held.slides for held in self.holds)


Item = Body | RankParts | OperatorLeaf


@dataclass(frozen=True)
class Outline:
    """The bodies of a group; ``aliases``: tensors made in place, in the tile of another."""

    top: Body
    aliases: Map[str, str]


def settle(item: Item, axes: Map[str, str | None], around: Sequence[Body] = ()) -> None:
    """Mark the loops that cut the axis of a vector operator (``axes``), and sort their tiles."""
    if isinstance(item, OperatorLeaf):
        axis = axes.get(item.op.name)
        cutting = [body for body in around if axis and body.rank == axis]
        if cutting and cutting[0].leaves == (item,):
            cutting[0].doubled = True
        elif cutting:
            cutting[0].online = (*cutting[0].online, item)
    elif isinstance(item, RankParts):
        for _, _, body in item.parts:
            settle(body, axes, around)
    else:
        item.holds.sort(key=lambda held: (held.place != BUFFER, held.queue))
        for inner in item.items:
            settle(inner, axes, (*around, item))


@dataclass(frozen=True)
class BodyState:
    """The sizes and flags that distinguish two executions of one body.

    ``sizes``: of the group's ranks. ``begun``: operators whose sums or statistics were begun in an
    enclosing loop. ``slides``: this is not the first iteration of the loop around. ``tiles``: those
    in scope, innermost last. ``step``: of vector operators whose axis is cut in their own branch.
    """

    sizes: tuple[tuple[str, int], ...]
    begun: frozenset[str] = frozenset()
    slides: bool = False
    tiles: tuple[tuple[TilePlacement, Tile], ...] = ()
    step: str = ""

    def tile(self, use: str, user: str = "") -> tuple[TilePlacement, Tile] | None:
        """Return the innermost tile of a tensor in the buffer, or in the PEs of ``user``."""
        for held, tile in reversed(self.tiles):
            if held.use == use and held.user in ("", user):
                return held, tile
        return None


@dataclass(frozen=True)
class GroupTiles:
    """The declarations, loads and stores of one group's tiles."""

    space: IterationSpace

    def _sizes(self, held: TilePlacement, state: BodyState) -> dict[str, int]:
        """Return the sizes of a tile's block; for ranks that it lacks, the current ones."""
        found = {rank: min(size, held.block[rank]) for rank, size in state.sizes}
        return self.space.widen(found)

    def tile(self, held: TilePlacement, state: BodyState) -> Tile:
        """Return a tile for a block of the state's sizes."""
        sizes = self._sizes(held, state)
        part = 0 if held.place == STREAM else None
        if held.place not in (BUFFER, STREAM):
            division = self._division(held)
            parts = {rank: min(size, division.part[rank]) for rank, size in sizes.items()}
            part = in_bytes(math.prod(held.view.extent(parts)), held.view.bits)
        name = held.tile
        if state.step == "normalise" and held.stores and not held.maker:
            name = held.stores[0].name
        return Tile(
            name=name,
            view=held.view,
            shape=held.view.extent(sizes),
            slots=held.slots,
            place=held.place,
            part_bytes=part,
        )

    @staticmethod
    def _division(held: TilePlacement) -> Division:
        assert held.division is not None  # noqa: S101 - only tiles for PEs have other places
        return held.division

    def bring(self, held: TilePlacement, tile: Tile, state: BodyState) -> Iterator[Node]:
        """Yield the load of a tile, or the reservation of a slot for sums that start at zero."""
        source = self._buffer_tile(held, state)
        if held.maker is None:
            width = self.space.workload.tensors[tensor_of(held.use)].bits
            tensor = None if width == held.view.bits else held.view.as_wide(width)
            slides = bool(held.slides) and state.slides
            moved = self._transfer_traffic(held, state)
            yield Load(
                tile=tile, queue=held.queue, view=tensor, source=source, moved=moved, slides=slides
            )
            return
        if held.spills:
            if held.maker.name not in state.begun:
                yield Reserve(tile=tile, queue=held.queue, noc=source is not None)
            else:
                moved, back = self._transfer_traffic(held, state), source is not None
                yield Load(tile=tile, queue=held.queue, source=source, moved=moved, back=back)
        if held.place == BUFFER and held.returns:
            yield Reserve(tile=tile, queue=held.queue, noc=True)

    def _buffer_tile(self, held: TilePlacement, state: BodyState) -> Tile | None:
        found = state.tile(held.use) if held.buffered else None
        return found[1] if found else None

    def take(self, held: TilePlacement, tile: Tile, state: BodyState) -> Iterator[Node]:
        """Yield the stores of a tile."""
        if held.place != BUFFER:
            if held.maker is not None:
                moved = self._transfer_traffic(held, state)
                yield Store(tile=tile, target=self._buffer_tile(held, state), moved=moved)
        elif state.step != "statistics":
            for view in held.stores:
                other = None if view == tile.view else view
                yield Store(tile=tile, view=other, moved=self._transfer_traffic(held, state))

    def _transfer_traffic(self, held: TilePlacement, state: BodyState) -> TransferTraffic | None:
        """Return the bytes of a transfer; None for a whole tile of the buffer."""
        slide = None
        if held.slides and state.slides:
            slide = SlidingWindow(held.slides, held.step)
        if held.place == BUFFER and slide is None:
            return None
        view, sizes = self.space.plain(held.view), self._sizes(held, state)
        if held.place == STREAM:
            return self._division(held).accesses(view, sizes, view.bits)
        if held.place != BUFFER:
            return self._division(held).spread(view, sizes, view.bits, slide)
        n = volume(view, {rank: ((1, sizes[rank]),) for rank in view.names}, view.bits, slide)
        return TransferTraffic(n, n)
