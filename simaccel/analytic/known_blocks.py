"""A cache of fold figures by block size: candidates are many, the sizes of their blocks few."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, TypeVar

import numpy as np

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
_MOST_BLOCKS: Final = 2**14
"""The most blocks of a kind; with more the cache is emptied."""
_FEW: Final = 4
"""With more blocks for each size that is given, all combinations are made, not sorted."""
_KINDS: Final = 48
"""Kinds that are kept; those of four layers."""
_RECENT: Final = 6
_SINGLE: Final = 2**12
_Of = TypeVar("_Of", bound=FoldFigures)


@dataclass
class KnownBlocks:
    """The known figures of blocks of one kind by their sizes; a size below 0 means no block.

    ``codes``: the sizes of each block packed into one number, ascending, with a final sentinel.
    ``figures``: (figure, block).
    """

    bits: Bits
    codes: Ints = field(default_factory=lambda: ints([2**63 - 1]))
    figures: Ints = field(default_factory=lambda: ints([[0]]))

    def find(self, blocks: Numbered, price: Callable[[Shape], Ints]) -> Ints:
        """Return the figures of blocks; ``price`` computes those of new sizes, each once."""
        codes, number = blocks
        at = np.searchsorted(self.codes, codes)
        is_new = self.codes[at] != codes
        if np.count_nonzero(is_new):
            new = codes[is_new]
            if new.size + self.codes.size > _MOST_BLOCKS:
                new, self.codes, self.figures = codes, self.codes[-1:], ints([[0]])
            self._add(new, price(self._unpack(new)))
            at = np.searchsorted(self.codes, codes)
        return self.figures.take(at, axis=1).take(number, axis=1)

    def _add(self, codes: Ints, figures: Ints) -> None:
        known = np.broadcast_to(self.figures, (len(figures), self.codes.size))
        at = np.searchsorted(self.codes, codes)
        self.codes = np.insert(self.codes, at, codes)
        self.figures = np.insert(known, at, figures, axis=1)

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


@dataclass(frozen=True)
class ManyBlocks:
    """Blocks of candidates; equal if the contents of their arrays are.

    ``which``: the stationarity of each, as in `by_stationarity`.
    """

    shape: Shape = field(compare=False)
    which: Ints | int = field(compare=False)
    content: tuple[object, ...] = ()

    @classmethod
    def of_shape(cls, shape: Shape, which: Ints | int) -> ManyBlocks:
        """Return blocks of sizes (g, m, k, n) with their content as key."""
        arrays = (np.asarray(one) for one in (*shape, which))
        return cls(shape, which, tuple((array.shape, array.tobytes()) for array in arrays))


def find_known(
    made: type[_Of],
    of: Callable[..., _Of],
    accelerator: Accelerator,
    bits: Bits,
    blocks: ManyBlocks,
    kind: tuple[tuple[str, object], ...],
) -> list[_Of]:
    """Return the figures ``of`` blocks by stationarity, evaluated once for each size.

    ``kind``: further arguments of ``of``.
    """
    return [made(figures) for figures in _find_figures(of, accelerator, bits, blocks, kind)]


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


@lru_cache(_RECENT)
def _find_figures(
    of: Callable[..., FoldFigures],
    accelerator: Accelerator,
    bits: Bits,
    blocks: ManyBlocks,
    kind: tuple[tuple[str, object], ...],
) -> list[Ints]:
    """Return figures of blocks; the last results are cached, as similar families repeat them."""
    numbered = number_blocks(blocks.shape, bits) if sum(bits) <= _MOST_BITS else None

    def find(stationarity: Stationarity) -> Ints:
        price = partial(of, accelerator, stationarity=stationarity, **dict(kind))
        if numbered is None:
            return price(blocks.shape).figures
        known = _known_blocks(bits, accelerator.timed, of, stationarity, kind)
        return known.find(numbered, lambda shape: price(shape).figures)

    return by_stationarity(blocks.which, find)
