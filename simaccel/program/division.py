"""The division of a block over PEs and lanes, and the bytes that its tensors move.

Along a rank a block is cut over the rows, a row's part over the columns, and a PE's part by the
PE's loops, each time into pieces of one size, of which the last may be smaller (Ruby, equation 5).
In a step all lanes of a PE work once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from simaccel.mapping.view import TensorView
from simaccel.numbers import PACKED_BITS, in_bytes
from simaccel.program.program import TransferTraffic

Boxes = tuple[tuple[int, int], ...]
"""Boxes along a rank: (number of boxes, their size)."""
Sizes = Mapping[str, int]
"""By rank, the size of a block."""
Tiles = Mapping[str, tuple[int, ...]]
"""By rank, the tile sizes of successive cuts, outermost first."""


def cut(size: int, *tiles: int) -> Boxes:
    """Return the pieces of a rank that is cut by a sequence of tile sizes.

    The last piece of each cut may be smaller.

    >>> cut(10, 4), cut(3, 4), cut(5, 4, 3)
    (((2, 4), (1, 2)), ((1, 3),), ((1, 3), (2, 1)))
    """
    boxes = {size: 1}
    for tile in tiles:
        counts: dict[int, int] = {}
        for piece, n in boxes.items():
            full, rest = divmod(piece, tile)
            for extent, m in ((tile, full), (rest, 1)):
                if extent and m:
                    counts[extent] = counts.get(extent, 0) + n * m
        boxes = counts
    return tuple((n, piece) for piece, n in boxes.items())


def _count(boxes: Boxes) -> int:
    return sum(n for n, _ in boxes)


@dataclass(frozen=True)
class SlidingWindow:
    """A window that slides along a rank by ``step``, the size of the previous block."""

    rank: str
    step: int

    def boxes(self, size: int, *tiles: int) -> list[tuple[int, int, int]]:
        """Return the pieces of `cut` as (number, size, size of the previous piece).

        >>> SlidingWindow("p", 5).boxes(4, 3), SlidingWindow("p", 5).boxes(5, 3)
        ([(1, 3, 3), (1, 1, 2)], [(1, 3, 3), (1, 2, 2)])
        """
        boxes = [(1, size, self.step)]
        for tile in tiles:
            pieces = []
            for n, piece, before in boxes:
                full, rest = divmod(piece, tile)
                last = min(tile, before - full * tile)
                both = (n * full, tile, tile), (n, rest, last)
                pieces += [triple for triple in both if triple[0] * triple[1]]
            boxes = pieces
        return boxes


def volume(
    view: TensorView,
    boxes: Mapping[str, Boxes],
    bits: int,
    slide: SlidingWindow | None = None,
    tiles: Sequence[int] = (),
) -> int:
    """Return the bytes of a tensor's bounding boxes, over all combinations of its ranks' boxes.

    Ranks that the tensor lacks repeat the boxes. With ``slide``, elements that a box shares with
    its predecessor don't count; ``tiles`` are those that cut the sliding rank. ``bits``: of an
    element; each box is packed into bytes separately.
    """
    repeats = math.prod(_count(pieces) for rank, pieces in boxes.items() if rank not in view.names)
    spans = [_spans(dim, boxes, slide, tiles) for dim in view.terms]
    elements = math.prod(sum(n * extent for n, extent in span) for span in spans)
    if bits != PACKED_BITS:
        return in_bytes(repeats * elements, bits)
    # a box has an odd number of elements where all its sides are odd
    odd = math.prod(sum(n for n, extent in span if extent % 2) for span in spans)
    return repeats * (elements + odd) // 2


def _spans(
    dim: Sequence[tuple[str, int]],
    boxes: Mapping[str, Boxes],
    slide: SlidingWindow | None,
    tiles: Sequence[int],
) -> list[tuple[int, int]]:
    """Return (extent along one dimension, number of combinations of boxes with it)."""
    pieces_by_rank = {rank: [(n, size, size) for n, size in boxes[rank]] for rank, _ in dim}
    shift = 0
    if slide is not None and slide.rank in pieces_by_rank:
        whole = sum(n * size for n, size in boxes[slide.rank])
        pieces_by_rank[slide.rank] = slide.boxes(whole, *tiles)
        shift = dict(dim)[slide.rank] * slide.step
    spans = []
    for pieces in product(*pieces_by_rank.values()):
        sizes = [
            (stride, size, before)
            for (_, stride), (_, size, before) in zip(dim, pieces, strict=True)
        ]
        extent = 1 + sum(stride * (size - 1) for stride, size, _ in sizes)
        if shift:
            extent -= max(0, 1 + sum(stride * (before - 1) for stride, _, before in sizes) - shift)
        spans.append((math.prod(n for n, _, _ in pieces), extent))
    return spans


@dataclass(frozen=True)
class Division:
    """The tiles that cut a block, by rank: over ``rows``, over ``cols``, and in the PEs' ``loops``.

    ``lane_ranks``: ranks over a PE's lanes: a step takes all their positions inside the loops.
    ``part``: sizes of a full PE's part.
    """

    rows: Tiles
    cols: Tiles
    loops: Tiles
    lane_ranks: frozenset[str]
    part: Sizes

    def parts(self, sizes: Sizes) -> dict[str, Boxes]:
        """Return the parts of a block that PEs have, by rank."""
        return {rank: cut(size, *self._fan_out_tiles(rank)) for rank, size in sizes.items()}

    def _fan_out_tiles(self, rank: str) -> tuple[int, ...]:
        return (*self.rows.get(rank, ()), *self.cols.get(rank, ()))

    def pes(self, sizes: Sizes) -> tuple[int, int]:
        """Return the rows, and the columns of the first row, that work on a block."""
        rows = cols = 1
        for rank, size in sizes.items():
            tiles = self.rows.get(rank, ())
            rows *= _count(cut(size, *tiles))
            cols *= _count(cut(min((size, *tiles)), *self.cols.get(rank, ())))
        return rows, cols

    def steps(self, sizes: Sizes) -> int:
        """Return the steps of a pass, which are those of the first PE."""
        return math.prod(self._steps(rank, size) for rank, size in sizes.items())

    def _steps(self, rank: str, size: int) -> int:
        first = min(size, self.part[rank])
        return _count(cut(first, *self.loops.get(rank, ()))) if rank in self.lane_ranks else first

    def spread(
        self, view: TensorView, sizes: Sizes, bits: int, slide: SlidingWindow | None = None
    ) -> TransferTraffic:
        """Return the bytes of loading a block into PEs: read once outside, written in each PE."""
        parts, whole = self.parts(sizes), {rank: ((1, size),) for rank, size in sizes.items()}
        tiles = self._fan_out_tiles(slide.rank) if slide else ()
        return TransferTraffic(
            volume(view, whole, bits, slide), volume(view, parts, bits, slide, tiles)
        )

    def accesses(self, view: TensorView, sizes: Sizes, bits: int) -> TransferTraffic:
        """Return the bytes that the steps of a pass access, summed over all PEs.

        Outside of the PEs, elements that several PEs need in the same step are accessed once, and
        as one box if the rank has one step, so that their positions are adjacent.
        """
        steps = {rank: self._step_boxes(rank, size) for rank, size in sizes.items()}
        shared = {
            rank: self._shared_boxes(rank, size)
            if rank in view.names
            else ((self._steps(rank, size), 1),)
            for rank, size in sizes.items()
        }
        return TransferTraffic(volume(view, shared, bits), volume(view, steps, bits))

    def first_accesses(self, view: TensorView, sizes: Sizes, bits: int) -> TransferTraffic:
        """Return the bytes of sums that start at zero: one access outside, and one in each PE."""
        own_sizes = {rank: size for rank, size in sizes.items() if rank in view.names}
        steps = {rank: self._step_boxes(rank, size) for rank, size in own_sizes.items()}
        shared = {rank: self._shared_boxes(rank, size) for rank, size in own_sizes.items()}
        return TransferTraffic(
            volume(view, shared, bits), volume(view, {**self.parts(sizes), **steps}, bits)
        )

    def _shared_boxes(self, rank: str, size: int) -> Boxes:
        """Return the boxes that are accessed outside of the PEs, along a rank of the tensor."""
        part = self.part[rank]
        step = min((part, *self.loops.get(rank, ()))) if rank in self.lane_ranks else 1
        return self._step_boxes(rank, size) if part > step else ((1, size),)

    def _step_boxes(self, rank: str, size: int) -> Boxes:
        """Return the boxes that the steps of all PEs access, along a rank."""
        if rank not in self.lane_ranks:
            return ((size, 1),)
        return cut(size, *self._fan_out_tiles(rank), *self.loops.get(rank, ()))
