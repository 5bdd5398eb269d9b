"""Mappings that a search has been through, so that none is judged twice.

A mapping is a 64-bit code: the sum of what its chains, orders and keeps are, each times a random
number of its own. Of a million mappings any two have one code by a chance of about 1 in 40 million;
the second would not be judged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simaccel.analytic.family import Ints
from simaccel.search.mapspace.space import EinsumMapspace, Genes

Codes = npt.NDArray[np.uint64]


def codes(space: EinsumMapspace, genes: Genes, factors: Ints, *, orders: bool = True) -> Codes:
    """Return a code of each mapping, the same in each mapspace that has it.

    ``factors`` as of `EinsumMapspace.fitting`. Without ``orders``: of each tiling.
    """
    numbers = np.zeros(len(genes), dtype=np.uint64)
    columns = [
        factors[:, level, rank]
        for rank, count in enumerate(space.chain_counts())
        if count > 1
        for level in range(1, factors.shape[1])  # the outermost takes what is left
    ]
    columns.append(genes.keeps)
    if orders:
        columns += [*(genes.orders % space.book.counts(factors)).T]
    for column, weight in zip(columns, _weights(len(columns)), strict=True):
        numbers += column.astype(np.uint64) * weight
    return numbers


def _weights(n: int) -> Codes:
    return np.random.default_rng(0).integers(1, 1 << 64, n, dtype=np.uint64)


class VisitedSet:
    """Codes of mappings; ``parts`` are known from the beginning."""

    def __init__(self, parts: Sequence[VisitedSet] = ()) -> None:
        self.codes: Codes = np.zeros(0, dtype=np.uint64)
        """Rising."""
        for part in parts:
            self.codes = np.union1d(self.codes, part.codes)

    def __len__(self) -> int:
        """Count the mappings."""
        return len(self.codes)

    def fresh(self, asked: Codes) -> Ints:
        """Return which mappings are new, each at its first call; now all are known."""
        each, first = np.unique(asked, return_index=True)
        at = np.searchsorted(self.codes, each)
        new = np.ones(len(each), dtype=np.bool_)
        if len(self):
            new = self.codes[np.minimum(at, len(self) - 1)] != each
        self.codes = np.insert(self.codes, at[new], each[new])
        return np.sort(first[new])
