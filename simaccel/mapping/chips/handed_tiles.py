"""Overlap of exchanges with computation: which tiles move one by one, as they are made or read.

It applies to exchanges that a chip's links do beside its cores. A message moves its maker's tiles,
if its only reader has the same ones; a collective those of its maker, of its only reader, or of
both. A tile of a dimension that is scattered or gathered belongs to one chip. Each chip begins with
the tile of another (a rotated order, as in Wang et al., "Overlap communication with dependent
computation via decomposition", 2023), so that each step moves as many bytes over each link as a
tile with parts for all chips would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from simaccel.hardware.cores import CHIP, REMOTE
from simaccel.mapping.chips.exchanges import Exchange, HandedTiles
from simaccel.mapping.chips.layout import ChipLayout
from simaccel.mapping.tile_streams import (
    TileCut,
    TileStream,
    matching_cuts,
    outer_cuts,
    stream_of,
    tile_streams,
)
from simaccel.mapping.tree import Group, Mapping
from simaccel.numbers import blocks
from simaccel.workload import Workload


def hand_tiles(workload: Workload, mapping: Mapping, exchange: Exchange) -> Exchange:
    """Return an exchange with the tiles that it moves one by one (`Exchange.streamed`), if any.

    ``workload`` and ``mapping``: of one chip of each place.
    """
    if exchange.cores is None or exchange.cores[0] % CHIP != REMOTE:
        return exchange
    ends = _ExchangeEnds.of_exchange(workload, mapping, exchange)
    tiles = ends.message_tiles() if exchange.is_message else ends.collective_tiles()
    return replace(exchange, streamed=tiles)


@dataclass(frozen=True)
class _ExchangeEnds:
    """The only group that makes an exchange's tensor, and the only one that reads it, or None."""

    workload: Workload
    mapping: Mapping
    exchange: Exchange
    maker: Group | None
    reader: Group | None

    @classmethod
    def of_exchange(cls, workload: Workload, mapping: Mapping, exchange: Exchange) -> _ExchangeEnds:
        """Return the groups at both ends; a reader counts if it runs as often as the exchange."""
        made = [op.name for op in workload.operators if op.output.tensor == exchange.source]
        readers = [
            group
            for group in mapping.groups
            for name in group.operators
            if any(operand.tensor == exchange.target for operand in workload.operator(name).inputs)
        ]
        times = workload.times(exchange.after)
        makers = [group for group in mapping.groups if exchange.after in group.operators]
        readers = [group for group in readers if workload.times(group.operators[0]) == times]
        return cls(
            workload,
            mapping,
            exchange,
            makers[0] if made == [exchange.after] else None,
            readers[0] if len(readers) == 1 else None,
        )

    def message_tiles(self) -> HandedTiles | None:
        """Return the tiles that a message moves one by one; None if it moves all at once."""
        exchange = self.exchange
        is_whole = exchange.source_layout.dims == exchange.target_layout.dims
        if self.maker is None or self.reader is None or not is_whole:
            return None
        read = outer_cuts(self.workload, exchange.target, self.reader)
        cuts = matching_cuts(self._made_cuts(), read)
        if not cuts:
            return None
        stream = stream_of(exchange.target, self.maker, self.reader, cuts)
        return HandedTiles(stream, self._tiles(cuts[0][0]))

    def collective_tiles(self) -> HandedTiles | None:
        """Return the tiles that a collective moves one by one; None if it moves all at once."""
        exchange, made, read = self.exchange, self._made_cuts(), list[TileCut]()
        if exchange.is_halo:
            return None
        made = [
            cut
            for cut in made
            if self._can_hand(cut, exchange.source_layout, exchange.target_layout)
        ]
        if self.reader is not None:
            cuts = islice(outer_cuts(self.workload, exchange.target, self.reader), 1)
            read = [
                cut
                for cut in cuts
                if self._can_hand(cut, exchange.target_layout, exchange.source_layout)
            ]
        if not made and not read:
            return None
        if made and read and made[0] != replace(read[0], rank=made[0].rank):
            read = []
        cut = (made or read)[0]
        stream = TileStream(
            exchange.target,
            self.maker.name if made and self.maker is not None else "",
            self.reader.name if read and self.reader is not None else "",
            tuple(tiles.rank for tiles in made),
            tuple(tiles.rank for tiles in read),
            cut.count,
            cut.count,
        )
        return HandedTiles(stream, self._tiles(cut))

    def _made_cuts(self) -> Sequence[TileCut]:
        """Return the maker's outermost loop as a list; empty if it doesn't cut the tensor.

        It is empty, too, if other streams of the tensor are cut by more loops or another one.
        """
        if self.maker is None:
            return []
        cuts = list(islice(outer_cuts(self.workload, self.exchange.source, self.maker), 1))
        streams = tile_streams(self.workload, self.mapping)
        known = {one.maker_ranks for one in streams if one.tensor == self.exchange.source}
        return [cut for cut in cuts if known <= {(cut.rank,)}]

    def _can_hand(self, cut: TileCut, own: ChipLayout, other: ChipLayout) -> bool:
        """Return whether tiles on one side of a collective can move one by one.

        ``own`` and ``other``: the layouts on that side and on the other. Where the other side cuts
        the dimension, each tile has to lie in one of its parts.
        """
        exchange = self.exchange
        grows = exchange.most // min(exchange.elements)
        is_even = all(size % grows == 0 for _, size in self._tiles(cut))
        if not cut.is_plain or exchange.most % cut.size or not is_even:
            return False
        shape = self.workload.shapes[
            exchange.source if own is exchange.source_layout else exchange.target
        ]
        parts = [
            math.prod(digit.size for digit in other.dims[at] if digit not in own.dims[at])
            for at in cut.dimensions
            if shape[at] > 1
        ] or [1]
        if set(parts[1:]) > {1} or exchange.kind == "all_to_all":
            return math.prod(parts) == 1
        return parts[0] == 1 or cut.size // parts[0] % cut.tile == 0

    def _tiles(self, cut: TileCut) -> tuple[tuple[int, int], ...]:
        """Return (number, elements of each) of a cut's full tiles and of the smaller last one."""
        each = self.exchange.most // cut.size
        return tuple((trips, size * each) for _, trips, size in blocks(cut.size, cut.tile))
