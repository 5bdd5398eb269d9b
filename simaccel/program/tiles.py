"""The tiles of bodies: their declarations, loads, stores and bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import BUFFER, STREAM
from simaccel.numbers import in_bytes
from simaccel.program.bodies import TilePlacement
from simaccel.program.division import Division, SlidingWindow, volume
from simaccel.program.program import Load, Node, Reserve, Store, Tile, TransferTraffic
from simaccel.workload.names import tensor_of


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
        view, sizes = self.space.plain(held.view), self._sizes(held, state)
        slide = None
        if held.slides and state.slides:
            slide = SlidingWindow(held.slides, held.step)
        if held.place == STREAM:
            return self._division(held).accesses(view, sizes, view.bits)
        if held.place != BUFFER:
            return self._division(held).spread(view, sizes, view.bits, slide)
        if slide is None:
            return None
        n = volume(view, {rank: ((1, sizes[rank]),) for rank in view.names}, view.bits, slide)
        return TransferTraffic(n, n)
