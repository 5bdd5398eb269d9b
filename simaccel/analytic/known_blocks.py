"""A cache of fold figures by block size: candidates are many, the sizes of their blocks few."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from simaccel.analytic.array import FoldFigures, by_stationarity
from simaccel.analytic.family import Ints, ints
from simaccel.hardware import Accelerator, Stationarity

Shape = tuple[Ints, Ints, Ints, Ints]
"""Sizes (g, m, k, n) of blocks; arrays that broadcast against each other."""
Bits = tuple[int, int, int, int]
"""The most bits of each of these sizes."""
Numbered = tuple[Ints, Ints]
"""The distinct sizes, packed and ascending; for each block the number of its own."""
_MOST_BITS: Final = 62
"""The most bits of all four sizes that are packed into one number."""
_COMMON_BITS: Final = 14
"""Bits of a size that operators have in common, unless theirs need more: so they share blocks."""
_MOST_BLOCKS: Final = 2**16
"""The most blocks of a kind; with more the cache is emptied."""
_FEW: Final = 4
"""With more blocks for each size that is given, all combinations are made, not sorted."""
_KINDS: Final = 24
"""Kinds that are kept: those of an accelerator with all stationarities and two widths."""
_SINGLE: Final = 2**12
_Of = TypeVar("_Of", bound=FoldFigures)


@dataclass
class KnownBlocks:
    """The known figures of blocks of one kind by their sizes; a size below 0 means no block.

    ``codes``: the sizes of each block packed into one number, ascending, with a final sentinel.
    ``places``: of each block in ``figures`` (figure, place), which has room for more;
    narrow while they are below 2^31.
    """

    bits: Bits
    codes: Ints = field(default_factory=lambda: ints([2**63 - 1]))
    places: Ints = field(default_factory=lambda: ints([0]))
    figures: Ints | npt.NDArray[np.int32] = field(default_factory=lambda: ints([[]]))

    def find(self, blocks: Numbered, price: Callable[[Shape], Ints]) -> Ints:
        """Return the figures of blocks; ``price`` computes those of new sizes, each once."""
        codes, number = blocks
        at = np.searchsorted(self.codes, codes)
        is_new = self.codes[at] != codes
        if np.count_nonzero(is_new):
            new = codes[is_new]
            if new.size + self.codes.size > _MOST_BLOCKS:
                new, self.codes, self.places = codes, self.codes[-1:], self.places[-1:]
            self._add(new, price(self._unpack(new)))
            at = np.searchsorted(self.codes, codes)
        return ints(self.figures.take(self.places[at], axis=1)).take(number, axis=1)

    def _add(self, codes: Ints, figures: Ints) -> None:
        start, stop = self.codes.size, self.codes.size + codes.size
        if stop > self.figures.shape[1]:
            self.figures = np.empty((len(figures), max(stop, _MOST_BLOCKS)), dtype=np.int32)
        if figures.max() > np.iinfo(self.figures.dtype).max:
            self.figures = self.figures.astype(np.int64)
        self.figures[:, start:stop] = figures
        at = np.searchsorted(self.codes, codes)
        self.codes = np.insert(self.codes, at, codes)
        self.places = np.insert(self.places, at, np.arange(start, stop))

    def _unpack(self, codes: Ints) -> Shape:
        sizes = []
        for bits in self.bits[::-1]:
            sizes.append(codes & ((1 << bits) - 1))
            codes = codes >> bits
        n, k, m, g = sizes
        return g, m, k, n


def number_blocks(shape: Shape, bits: Bits) -> Numbered:
    """Return the packed distinct sizes of blocks, and of each block their number."""
    sizes = [np.asarray(size) for size in shape]
    every = np.broadcast_shapes(*(size.shape for size in sizes))
    codes, number, packed = ints([0]), ints(0), ints(0)
    if sum(size.size for size in sizes) * _FEW < math.prod(every):
        for size, width in zip(sizes, bits, strict=True):
            values = ints(sorted(set(size.ravel().tolist())))
            codes = ((codes << width)[:, None] | values).ravel()
            number = number * values.size + np.searchsorted(values, size)
        if codes.size <= number.size:
            occurs = np.zeros(codes.size, dtype=np.bool_)
            occurs[number] = True
            return codes[occurs], (np.cumsum(occurs) - 1)[number]
    for size, width in zip(sizes, bits, strict=True):
        packed = (packed << width) | size
    codes, number = np.unique(packed, return_inverse=True)
    return codes, number.reshape(every)


@lru_cache(_KINDS)
def _known_blocks(bits: Bits, *_kind: object) -> KnownBlocks:
    """Return the cache for blocks of a kind, shared by all candidates."""
    return KnownBlocks(bits)


def common_bits(sizes: Sequence[int]) -> Bits:
    """Return the bits of the largest sizes (g, m, k, n) of an operator, in common if they fit."""
    g, m, k, n = (size.bit_length() for size in sizes)
    common = tuple(max(bits, _COMMON_BITS) for bits in (g, m, k, n))
    return common if sum(common) <= _MOST_BITS else (g, m, k, n)  # type: ignore[return-value]


def find_known(
    made: type[_Of],
    of: Callable[..., _Of],
    accelerator: Accelerator,
    bits: Bits,
    blocks: tuple[Shape, Ints | int],
    kind: tuple[tuple[str, object], ...],
) -> list[_Of]:
    """Return the figures ``of`` blocks by stationarity, evaluated once for each size.

    ``blocks``: their sizes, and the stationarity of each, as in `by_stationarity`. ``kind``:
    further arguments of ``of``.
    """
    shape, which = blocks
    numbered = number_blocks(shape, bits) if sum(bits) <= _MOST_BITS else None

    def find(stationarity: Stationarity) -> Ints:
        price = partial(of, accelerator, stationarity=stationarity, **dict(kind))
        if numbered is None:
            return price(shape).figures
        known = _known_blocks(bits, accelerator.timed, of, stationarity, kind)
        return known.find(numbered, lambda new: price(new).figures)

    return [made(figures) for figures in by_stationarity(which, find)]


@lru_cache(_SINGLE)
def find_single(
    of: Callable[..., FoldFigures],
    accelerator: Accelerator,
    stationarity: Stationarity,
    kind: tuple[tuple[str, object], ...],
    *shape: Ints,
) -> Ints:
    """Return the figures ``of`` one block of a single candidate; ``shape``: (g, m, k, n)."""
    return of(accelerator, shape, stationarity=stationarity, **dict(kind)).figures
