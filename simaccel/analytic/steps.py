"""What a block takes that PEs with memories go through in steps: cycles, and bytes that move.

Along a rank a block is cut for rows and columns, and what a PE gets by the loops in it, each time
into pieces of one size but for the last. A step is what the lanes of a PE do side by side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from simaccel.analytic.family import Fan, Ints, ints
from simaccel.analytic.pieces import Box, Cuts, Terms, cut, number, tiles
from simaccel.analytic.pointwise import larger, plain, smaller
from simaccel.numbers import PACKED_BITS, in_bytes

Sizes = dict[str, Ints]
Dims = tuple[Terms, ...]
"""The dimensions of a tensor in ranks that loops cut."""
Slide = tuple[str, int]
"""A rank along which windows slide, and its coefficient."""
_Slid = tuple[str, int, Ints, Ints]
"""The same, with the size by which they slid, and of what was in the place of a box before."""
_ONE: Ints = plain(ints(1))
_LANES = ("vectors", "lanes")


@dataclass
class Division:
    """How PEs divide the blocks that arrive at the outermost fan-out of a path (``first``).

    Bytes are those that are read or written outside the PEs, once (``outer``), or those that each
    of them gets or gives (``inner``).
    """

    cuts: Cuts

    def __post_init__(self) -> None:
        """Sort the tiles of each rank: of rows and columns, and of the loops in a PE."""
        entries = self.cuts.entries
        fans = (n for n, entry in enumerate(entries) if isinstance(entry, Fan))
        self.first = next(fans, len(entries))
        self.laned: set[str] = set()
        self.sides: dict[str, list[Ints]] = {}
        self.loops: dict[str, list[Ints]] = {}
        for entry in entries[self.first :]:
            for rank, tile in tiles(entry):
                if isinstance(entry, Fan) and entry.level in _LANES:
                    self.laned.add(rank)
                else:
                    found = self.sides if isinstance(entry, Fan) else self.loops
                    found.setdefault(rank, []).append(plain(tile))

    @cached_property
    def full(self) -> Sizes:
        """The sizes of a full block."""
        return {rank: plain(size) for rank, size in self.cuts.full[self.first].items()}

    def block(self, sizes: Sizes, ranks: Collection[str]) -> Sizes:
        """Return what is there at once of some ranks, which loops inside may cut."""
        return {rank: smaller(sizes[rank], self.full[rank]) for rank in ranks}

    def steps(self, sizes: Sizes) -> Ints:
        """Count the steps of a block over the ranks of an operator: those of its first PE."""
        return _product(self._steps(rank, size) for rank, size in sizes.items())

    def spread(
        self, dims: Dims, sizes: Sizes, bits: int, slide: Slide | None = None, *, inner: bool
    ) -> Ints:
        """Return the bytes of a block that PEs keep, less those that sliding windows had before."""
        boxes = {
            rank: self._parts(rank, size) if inner else [(_ONE, size)]
            for rank, size in sizes.items()
        }
        if slide is None:
            return self._n_bytes(dims, boxes, bits)
        full = self.full[slide[0]]
        before = self._part(slide[0], full) if inner else full
        return self._n_bytes(dims, boxes, bits, (*slide, full, before))

    def accesses(
        self, dims: Dims, sizes: Sizes, bits: int, *, inner: bool, first: bool = False
    ) -> Ints:
        """Return the bytes that the steps of a block access; ``first``: of sums for the first time.

        What PEs need in the same step is accessed once outside: in one box where their positions
        adjoin, so where the rank has one step.
        """
        mine, boxes = ranks_of(dims), {}
        for rank, size in sizes.items():
            if rank in mine:
                boxes[rank] = (self._every_step if inner else self._joint)(rank, size)
            elif inner:
                boxes[rank] = (self._parts if first else self._every_step)(rank, size)
            elif not first:
                boxes[rank] = [(self._steps(rank, size), _ONE)]
        return self._n_bytes(dims, boxes, bits)

    def _part(self, rank: str, size: Ints) -> Ints:
        """Return the size of the first PE's part."""
        for tile in self.sides.get(rank, ()):
            size = smaller(size, tile)
        return size

    def _steps(self, rank: str, size: Ints) -> Ints:
        part = self._part(rank, size)
        if rank not in self.laned:
            return part
        return plain(number(_cut([(_ONE, part)], self.loops.get(rank, ()))))

    def _parts(self, rank: str, size: Ints) -> list[Box]:
        return _cut([(_ONE, size)], self.sides.get(rank, ()))

    def _every_step(self, rank: str, size: Ints) -> list[Box]:
        if rank not in self.laned:
            return [(size, _ONE)]
        return _cut(self._parts(rank, size), self.loops.get(rank, ()))

    def _joint(self, rank: str, size: Ints) -> list[Box]:
        """Return the boxes that PEs need in the same steps, along a rank of a tensor."""
        part = step = self._part(rank, self.full[rank])
        for tile in self.loops.get(rank, ()):
            step = smaller(step, tile)
        several = part > (step if rank in self.laned else _ONE)
        every = ((n * several, one) for n, one in self._every_step(rank, size))
        return [*every, (_ONE - several, size)]

    @staticmethod
    def _n_bytes(
        dims: Dims, boxes: dict[str, list[Box]], bits: int, slid: _Slid | None = None
    ) -> Ints:
        """Sum the bytes of a tensor's boxes over all combinations of those of the ranks.

        Ranks that the tensor lacks repeat them; each box is packed on its own.
        """
        mine = ranks_of(dims)
        repeats = _product(_sum(n for n, _ in boxes[rank]) for rank in boxes if rank not in mine)
        spans = [_spans(dim, boxes, slid) for dim in dims]
        elements = _product(_sum(n * extent for n, extent in one) for one in spans)
        if bits != PACKED_BITS:
            return in_bytes(repeats * elements, bits)
        # a box has an odd number of elements where all its sides are odd
        odd = _product(_sum(n * (extent % 2) for n, extent in one) for one in spans)
        return repeats * (elements + odd) // 2


def ranks_of(dims: Dims) -> dict[str, None]:
    """Return the ranks that move a tensor."""
    return dict.fromkeys(rank for dim in dims for rank, _ in dim)


def _spans(dim: Terms, boxes: dict[str, list[Box]], slid: _Slid | None) -> list[Box]:
    """Return how many combinations of boxes there are of each extent along a dimension."""
    ((rank, factor), *rest) = dim
    if not rest and factor == 1:
        return boxes[rank]
    found = []
    for one in itertools.product(*(boxes[rank] for rank, _ in dim)):
        extent = 1 + _sum(c * (size - 1) for (_, c), (_, size) in zip(dim, one, strict=True))
        if slid is not None and rest and slid[:2] in dim:
            extent = extent - _shared(dim, one, slid)
        found.append((_product(n for n, _ in one), extent))
    return found


def _shared(dim: Terms, boxes: Sequence[Box], slid: _Slid) -> Ints:
    """Return what a window shares with the one in its place before."""
    rank, c, step, before = slid
    reach = 1 - c * step
    for (one, factor), (_, size) in zip(dim, boxes, strict=True):
        reach = reach + factor * ((before if one == rank else size) - 1)
    return larger(reach, 0)


def _cut(boxes: list[Box], every: Sequence[Ints]) -> list[Box]:
    for tile in every:
        boxes = cut(boxes, tile)
    return boxes


def _sum(numbers: Iterable[Ints]) -> Ints:
    return sum(numbers)  # type: ignore[return-value]


def _product(numbers: Iterable[Ints]) -> Ints:
    return math.prod(numbers)  # type: ignore[return-value]
