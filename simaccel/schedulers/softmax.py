"""Blocks of rows for a softmax on its own."""

from __future__ import annotations

import numpy as np

from simaccel.analytic.attention import AttentionProblem, softmax_work
from simaccel.hardware import Accelerator
from simaccel.mapping.choices import SoftmaxMapping
from simaccel.schedulers.search import NothingFitsError, best, capacity, dram_bytes, tile_sizes


def softmax_mapping(
    problem: AttentionProblem,
    operator: str,
    accelerator: Accelerator,
    *,
    rows: int | None = None,
    spare_bytes: int = 0,
) -> SoftmaxMapping:
    """Find the fastest block of rows that fits beside ``spare_bytes``; ``rows`` fixes its height.

    Rows that don't fit whole are cut into segments of columns and read twice.

    Raises:
        NothingFitsError: not even one element at a time fits.

    """
    limit = capacity(accelerator) - spare_bytes
    heights = [min(rows, problem.q)] if rows else tile_sizes(problem.q, accelerator.array.rows)
    widths = [problem.c, *tile_sizes(problem.c, accelerator.array.cols)[::-1]]
    for chosen in (heights, [1]):
        grid = np.array([(h, w) for h in chosen for w in widths], dtype=np.int64)
        found: list[tuple[int, SoftmaxMapping]] = []
        for slots in (1, 2, 3):
            work = softmax_work(problem, grid[:, 0], grid[:, 1], slots, accelerator)
            columns = (work.cycles(), dram_bytes(work), work.buffer_bytes)
            cycles, moved, space = (np.broadcast_to(f, len(grid)) for f in columns)
            index = best(cycles, moved, space, limit)
            if index is not None:
                high, wide = (int(x) for x in grid[index])
                mapping = SoftmaxMapping(rows=high, cols=wide, slots=slots)
                found.append((int(cycles[index]), mapping))
        if found:
            return min(found, key=lambda pair: pair[0])[1]
    raise NothingFitsError(f"{operator}: not even a part of one row fits into {limit} B")
