"""Blocks whose folds are known: candidates are many, but the sizes of their blocks are few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, TypeVar

import numpy as np

from simaccel.analytic.array import FoldFigures, by_number
from simaccel.analytic.family import Ints, ints
from simaccel.hardware import Accelerator, Stationarity

Shape = tuple[Ints, Ints, Ints, Ints]
"""Sizes g, m, k, n of blocks; arrays that broadcast against each other."""
Bits = tuple[int, int, int, int]
"""Bits that these sizes have at most."""
_MOST_BITS: Final = 62
"""Bits of all four up to which they are packed into one number."""
_MOST_BLOCKS: Final = 2**15
"""Blocks of a kind beyond which these are forgotten."""
_KINDS: Final = 256
_RECENT: Final = 32
_Of = TypeVar("_Of", bound=FoldFigures)


@dataclass
class KnownBlocks:
    """Figures of blocks of one kind by their sizes; what has a size below 0 is no block.

    ``codes``: the sizes of each block packed into one number, in order, and a last one of none;
    ``figures``: along the first axis, by block.
    """

    bits: Bits
    codes: Ints = field(default_factory=lambda: ints([2**63 - 1]))
    figures: Ints = field(default_factory=lambda: ints([[0]]))

    def find(self, shape: Shape, price: Callable[[Shape], Ints]) -> Ints:
        """Return the figures of blocks; those of new ones by ``price``, each size once."""
        codes = self._pack(shape)
        flat = codes.ravel()
        at = np.searchsorted(self.codes, flat)
        is_new = self.codes[at] != flat
        if np.count_nonzero(is_new):
            new = np.unique(flat[is_new])
            if new.size + self.codes.size > _MOST_BLOCKS:
                new, self.codes, self.figures = np.unique(flat), self.codes[-1:], ints([[0]])
            self._add(new, price(self._unpack(new)))
            at = np.searchsorted(self.codes, flat)
        figures: Ints = self.figures[:, at].reshape(-1, *codes.shape)
        return figures

    def _add(self, codes: Ints, figures: Ints) -> None:
        known = np.broadcast_to(self.figures, (len(figures), self.codes.size))
        at = np.searchsorted(self.codes, codes)
        self.codes = np.insert(self.codes, at, codes)
        self.figures = np.insert(known, at, figures, axis=1)

    def _pack(self, shape: Shape) -> Ints:
        code, *others = shape
        for size, bits in zip(others, self.bits[1:], strict=True):
            code = (code << bits) | size
        return ints(code)

    def _unpack(self, codes: Ints) -> Shape:
        sizes = []
        for bits in self.bits[::-1]:
            sizes.append(codes & ((1 << bits) - 1))
            codes = codes >> bits
        n, k, m, g = sizes
        return g, m, k, n


@lru_cache(_KINDS)
def _known_blocks(bits: Bits, *_kind: object) -> KnownBlocks:
    """Return what is known of blocks of a kind, of any candidates."""
    return KnownBlocks(bits)


@dataclass(frozen=True)
class ManyBlocks:
    """Blocks of candidates, equal to others by what is in their arrays.

    ``which``: what the array holds of each, as of `by_number`.
    """

    shape: Shape = field(compare=False)
    which: Ints | int = field(compare=False)
    content: tuple[object, ...] = ()

    @classmethod
    def of_shape(cls, shape: Shape, which: Ints | int) -> ManyBlocks:
        """Return blocks g, m, k, n with their content."""
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
    """Return what ``of`` returns of blocks by stationarity, evaluated once for each size.

    ``kind``: what else ``of`` takes.
    """
    return [made(figures) for figures in _find_figures(of, accelerator, bits, blocks, kind)]


@lru_cache(_RECENT)
def _find_figures(
    of: Callable[..., FoldFigures],
    accelerator: Accelerator,
    bits: Bits,
    blocks: ManyBlocks,
    kind: tuple[tuple[str, object], ...],
) -> list[Ints]:
    """Return figures of blocks; families that are alike ask for what was asked for last."""

    def find(stationarity: Stationarity) -> Ints:
        price = partial(of, accelerator, stationarity=stationarity, **dict(kind))
        if sum(bits) > _MOST_BITS:
            return price(blocks.shape).figures
        known = _known_blocks(bits, accelerator.timed, of, stationarity, kind)
        return known.find(blocks.shape, lambda shape: price(shape).figures)

    return by_number(blocks.which, find)
