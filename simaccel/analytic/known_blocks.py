"""Blocks whose folds are known: candidates are many, but the sizes of their blocks are few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np

from simaccel.analytic.array import FoldFigures
from simaccel.analytic.family import Ints, ints
from simaccel.hardware import Accelerator

Shape = tuple[Ints, Ints, Ints, Ints]
"""Sizes g, m, k, n of blocks; arrays that broadcast against each other."""
Bits = tuple[int, int, int, int]
"""Bits that these sizes have at most."""
_MOST_BITS: Final = 62
"""Bits of all four up to which they are packed into one number."""
_MOST_BLOCKS: Final = 2**15
"""Blocks of a kind beyond which these are forgotten."""
_KINDS: Final = 256
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
        new = np.unique(flat[self.codes[at] != flat])
        if new.size:
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


def find_known(
    made: type[_Of],
    of: Callable[..., _Of],
    accelerator: Accelerator,
    bits: Bits,
    shape: Shape,
    **kind: Any,  # noqa: ANN401 - what else ``of`` takes
) -> _Of:
    """Return what ``of`` returns of blocks, which is evaluated once for each size."""
    if sum(bits) > _MOST_BITS:
        return of(accelerator, shape, **kind)
    known = _known_blocks(bits, accelerator.timed, of, *kind.values())
    return made(known.find(shape, lambda new: of(accelerator, new, **kind).figures))
