"""How a block of an einsum divides over PEs and lanes, and what that makes tensors move.

Along a rank a block is cut into parts, one for each PE, and a part into steps, in each of which
the lanes of a PE work side by side. All have one size but for the last (Ruby, equation 5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from simaccel.mapping.view import View
from simaccel.numbers import PACKED_BITS, in_bytes
from simaccel.program.program import Moved

Boxes = tuple[tuple[int, int], ...]
"""Boxes along a rank: (how many, their size)."""
Sizes = Mapping[str, int]


def cut(size: int, piece: int) -> Boxes:
    """Cut a rank into pieces, of which the last may be smaller.

    >>> cut(10, 4), cut(3, 4)
    (((2, 4), (1, 2)), ((1, 3),))
    """
    full, rest = divmod(size, piece)
    return tuple(box for box in ((full, piece), (min(rest, 1), rest)) if box[0])


def _count(boxes: Boxes) -> int:
    return sum(n for n, _ in boxes)


@dataclass(frozen=True)
class Slide:
    """A window that moves along a rank by ``step``: before, its boxes had the size ``full``."""

    rank: str
    step: int
    full: int


def volume(view: View, boxes: Mapping[str, Boxes], bits: int, slide: Slide | None = None) -> int:
    """Sum the bytes of a tensor's bounding boxes over all combinations of the boxes of ranks.

    Ranks that the tensor lacks repeat them. With ``slide``: less what each box shares with the
    one that was in its place before. ``bits``: of an element; each box is packed on its own.
    """
    repeats = math.prod(_count(one) for rank, one in boxes.items() if rank not in view.names)
    spans = [_spans(dim, boxes, slide) for dim in view.terms]
    elements = math.prod(sum(n * extent for n, extent in one) for one in spans)
    if bits != PACKED_BITS:
        return in_bytes(repeats * elements, bits)
    # a box has an odd number of elements where all its sides are odd
    odd = math.prod(sum(n for n, extent in one if extent % 2) for one in spans)
    return repeats * (elements + odd) // 2


def _spans(
    dim: Sequence[tuple[str, int]], boxes: Mapping[str, Boxes], slide: Slide | None
) -> list[tuple[int, int]]:
    """Return how many combinations of boxes there are of each extent along one dimension."""
    found = []
    for one in product(*(boxes[rank] for rank, _ in dim)):
        sizes = {rank: size for (rank, _), (_, size) in zip(dim, one, strict=True)}
        extent = 1 + sum(c * (sizes[rank] - 1) for rank, c in dim)
        if slide is not None and slide.rank in sizes:
            c = dict(dim)[slide.rank]
            before = extent + c * (slide.full - sizes[slide.rank])
            extent -= max(0, before - c * slide.step)
        found.append((math.prod(n for n, _ in one), extent))
    return found


@dataclass(frozen=True)
class Division:
    """Full sizes by rank: of a pass, of a row of PEs in it, of a PE's part, of a step's lanes."""

    block: Sizes
    row: Sizes
    part: Sizes
    lanes: Sizes

    def parts(self, sizes: Sizes) -> dict[str, Boxes]:
        """Return the parts of PEs along each rank of a block of these sizes."""
        return {rank: cut(size, self.part[rank]) for rank, size in sizes.items()}

    def pes(self, sizes: Sizes) -> tuple[int, int]:
        """Count the rows, and the columns of the first row, that work on a block."""
        rows = math.prod(-(-size // self.row[rank]) for rank, size in sizes.items())
        cols = (min(size, self.row[rank]) for rank, size in sizes.items())
        return rows, math.prod(
            -(-size // self.part[rank]) for rank, size in zip(sizes, cols, strict=True)
        )

    def steps(self, sizes: Sizes) -> int:
        """Count the steps of a pass, which lasts as long as its first PE."""
        return math.prod(self._steps(rank, size) for rank, size in sizes.items())

    def _steps(self, rank: str, size: int) -> int:
        return -(-min(size, self.part[rank]) // self.lanes[rank])

    def spread(self, view: View, sizes: Sizes, bits: int, slide: Slide | None = None) -> Moved:
        """Bytes of a block that PEs keep: read or written outside once, in each PE its own."""
        inside = None
        if slide is not None:
            part = min(self.part[slide.rank], slide.full)
            inside = Slide(slide.rank, slide.step, part)
        parts, whole = self.parts(sizes), {rank: ((1, size),) for rank, size in sizes.items()}
        return Moved(volume(view, whole, bits, slide), volume(view, parts, bits, inside))

    def accesses(self, view: View, sizes: Sizes, bits: int) -> Moved:
        """Bytes that the steps of a pass access: over all PEs, each of them its own.

        Outside them, what PEs need in the same step is accessed once: in one box where their
        positions adjoin, so where the rank has one step.
        """
        steps = {rank: self._every_step(rank, size) for rank, size in sizes.items()}
        joint = {
            rank: self._joint(rank, size) if rank in view.names else ((self._steps(rank, size), 1),)
            for rank, size in sizes.items()
        }
        return Moved(volume(view, joint, bits), volume(view, steps, bits))

    def first_accesses(self, view: View, sizes: Sizes, bits: int) -> Moved:
        """Bytes of sums that start from nothing: outside once, in each PE its own."""
        mine = {rank: size for rank, size in sizes.items() if rank in view.names}
        steps = {rank: self._every_step(rank, size) for rank, size in mine.items()}
        joint = {rank: self._joint(rank, size) for rank, size in mine.items()}
        return Moved(volume(view, joint, bits), volume(view, {**self.parts(sizes), **steps}, bits))

    def _joint(self, rank: str, size: int) -> Boxes:
        """Return the boxes that PEs need in the same steps, along a rank of the tensor."""
        apart = self.part[rank] > self.lanes[rank]
        return self._every_step(rank, size) if apart else ((1, size),)

    def _every_step(self, rank: str, size: int) -> Boxes:
        return tuple(
            (n * m, lanes)
            for n, part in cut(size, self.part[rank])
            for m, lanes in cut(part, self.lanes[rank])
        )
