"""All mappings of a mapspace, in blocks."""

from collections.abc import Iterator

from simaccel.search.mapspace.space import EinsumMapspace
from simaccel.search.mapspace.tiling_batch import TilingBatch


def blocks(space: EinsumMapspace, block: int = 1 << 14) -> Iterator[tuple[int, TilingBatch]]:
    """Yield all mappings within the fan-outs by block, and the number of those examined."""
    for start in range(0, space.combinations, block):
        gone, genes, factors = space.block(start, min(start + block, space.combinations))
        yield gone, space.candidates(*space.in_all_orders(genes, factors))
