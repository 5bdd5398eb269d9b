"""All mappings of a mapspace, in blocks."""

from collections.abc import Iterator

import numpy as np

from simaccel.analytic.family import Ints
from simaccel.search.mapspace.space import EinsumMapspace, Genes
from simaccel.search.mapspace.tiling_batch import TilingBatch


def blocks(space: EinsumMapspace, block: int = 1 << 14) -> Iterator[tuple[int, TilingBatch]]:
    """Yield all mappings within the fan-outs by block, and the number of those examined."""
    for start in range(0, space.combinations, block):
        tried, genes, factors = space.block(start, min(start + block, space.combinations))
        yield tried, space.candidates(*in_all_orders(space, genes, factors))


def in_all_orders(space: EinsumMapspace, genes: Genes, factors: Ints) -> tuple[Genes, Ints]:
    """Return tilings with each of their orders."""
    counts = space.book.counts(factors)
    copies = counts.prod(axis=1)
    row = np.repeat(np.arange(len(genes)), copies)
    within = np.arange(len(row)) - np.repeat(np.cumsum(copies) - copies, copies)
    orders = np.empty((len(row), counts.shape[1]), dtype=np.int64)
    for at in range(counts.shape[1]):
        within, orders[:, at] = np.divmod(within, counts[row, at])
    return Genes(genes.chains[row], orders, genes.keeps[row]), factors[row]
