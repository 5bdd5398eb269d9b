"""FLAT: L, softmax and A fused under shared outer loops, and flash, with key tiles.

A FLAT-tile (FLAT, section 5.1) holds rows of the intermediate from L to A: of all heads of
all samples (M), of whole samples (B), of whole heads (H), or row blocks of one head (R).
Where K and V of a head don't fit beside a row block they are tiled and streamed again for
each row block. ``flash`` tiles the keys of the intermediate too, with online softmax
(FlashAttention, Dao et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from simaccel.analytic.attention import AttentionProblem
from simaccel.analytic.estimate import attention_problem
from simaccel.analytic.fused import fused_work
from simaccel.analytic.row_blocks import FusedTiles
from simaccel.analytic.work import Ints
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.choices import FusedGroup, FusedMapping, Group, Mapping
from simaccel.schedulers.flex import GRANULARITIES, schedule
from simaccel.schedulers.problems import Options, heads_per_sample
from simaccel.schedulers.search import (
    GemmSearch,
    NothingFitsError,
    best,
    capacity,
    dram_bytes,
    tile_sizes,
)
from simaccel.workload import Workload

Tiles = tuple[int, int, int]
"""Heads, rows and keys of a FLAT-tile."""


def flat_tiles(
    problem: AttentionProblem, per_sample: int, granularity: str, accelerator: Accelerator
) -> list[Tiles]:
    """Candidate FLAT-tiles of one granularity."""
    g, q, c = problem.g, problem.q, problem.c
    keys = tile_sizes(c, accelerator.array.cols)
    rows = [r for r in tile_sizes(q, accelerator.array.rows) if r < q] or [q]
    rows += [r for r in (1, 2, 4, 8, 16) if r < min(q, accelerator.array.rows)]
    if granularity == "m":
        return [(g, q, k) for k in keys]
    if granularity == "b":
        counts = [h for h in _multiples(per_sample, g) if h < g] or [g]
        return [(h, q, k) for h in counts for k in keys]
    if granularity == "h":
        counts = [h for h in _multiples(1, per_sample) if h < per_sample] or [1]
        return [(h, q, k) for h in counts for k in keys]
    return [(1, r, k) for r in sorted(set(rows)) for k in keys]


def _multiples(unit: int, most: int) -> Iterator[int]:
    count = unit
    while count <= most:
        yield count
        count *= 2


def flash_tiles(problem: AttentionProblem, accelerator: Accelerator) -> list[Tiles]:
    """Candidate row and key blocks of flash."""
    rows = tile_sizes(problem.q, accelerator.array.rows)
    keys = tile_sizes(problem.c, accelerator.array.cols)
    return [(1, r, k) for r in rows for k in keys]


def fused_group(
    problem: AttentionProblem,
    part: tuple[str, str, str],
    tiles: list[Tiles],
    accelerator: Accelerator,
    *,
    online: bool,
    pipeline: bool,
) -> FusedGroup:
    """Find the fastest fused mapping among ``tiles`` and stationarities.

    Raises:
        NothingFitsError: names the smallest FLAT-tile and its tiles in bytes.

    """
    grid = np.array(tiles, dtype=np.int64)
    limit = capacity(accelerator)
    for slots in ((2, 2, 2),) if pipeline else ((2, 2, 1), (1, 1, 1)):
        options = [
            FusedTiles(
                heads=grid[:, 0],
                rows=grid[:, 1],
                keys=grid[:, 2],
                online=online,
                pipelined=pipeline,
                stationarity=pair,
                slots=slots,
            )
            for pair in product(STATIONARITIES, STATIONARITIES)
        ]
        works = [fused_work(problem, option, accelerator) for option in options]
        cycles, dram, space = (
            np.stack([np.broadcast_to(f(w), len(grid)) for w in works])
            for f in (lambda w: w.cycles(), dram_bytes, lambda w: w.buffer_bytes)
        )
        index = best(cycles, dram, space, limit)
        if index is not None:
            return FusedGroup(operators=part, mapping=_mapping(options, index, len(grid)))
    raise NothingFitsError(_too_large(part, grid, space, works[0].tiles, limit))


def _mapping(options: list[FusedTiles], index: int, n_tiles: int) -> FusedMapping:
    which, at = divmod(index, n_tiles)
    chosen = options[which]
    return FusedMapping(
        heads=int(chosen.heads[at]),
        rows=int(chosen.rows[at]),
        keys=int(chosen.keys[at]),
        online=chosen.online,
        pipelined=chosen.pipelined,
        logit_stationarity=chosen.stationarity[0],
        attend_stationarity=chosen.stationarity[1],
        in_slots=chosen.slots[0],
        out_slots=chosen.slots[1],
        tile_slots=chosen.slots[2],
    )


def _too_large(
    part: tuple[str, str, str],
    grid: Ints,
    space: Ints,
    tiles: dict[str, tuple[Ints, Ints]],
    limit: int,
) -> str:
    at = int(np.argmin(space[0]))
    heads, rows, keys = (int(x) for x in grid[at])
    sizes = ", ".join(
        f"{name.upper()} {int(np.broadcast_to(slots, len(grid))[at])} x "
        f"{int(np.broadcast_to(n, len(grid))[at])} B"
        for name, (n, slots) in tiles.items()
    )
    return (
        f"{'+'.join(part)}: the smallest FLAT-tile ({heads} heads, {rows} rows, K and V in tiles "
        f"of {keys} keys) needs {int(space[0][at])} B, the buffer has {limit} B: {sizes}"
    )


def _flat(granularities: str, name: str) -> Callable[[Workload, Accelerator, Options], Mapping]:
    def scheduler(workload: Workload, accelerator: Accelerator, options: Options) -> Mapping:
        def attention(workload: Workload, part: tuple[str, str, str]) -> Group:
            problem = attention_problem(workload, part)
            per_sample = heads_per_sample(workload, part[0])
            tiles = [
                t for x in granularities for t in flat_tiles(problem, per_sample, x, accelerator)
            ]
            return fused_group(
                problem, part, tiles, accelerator, online=False, pipeline=options.pipeline
            )

        return schedule(workload, name, GemmSearch(accelerator), attention)

    scheduler.__doc__ = f"Schedule {name}: attention fused, granularity {granularities}."
    return scheduler


def flash(workload: Workload, accelerator: Accelerator, options: Options) -> Mapping:
    """Schedule attention with key tiles and online softmax."""

    def attention(workload: Workload, part: tuple[str, str, str]) -> Group:
        problem = attention_problem(workload, part)
        tiles = flash_tiles(problem, accelerator)
        return fused_group(
            problem, part, tiles, accelerator, online=True, pipeline=options.pipeline
        )

    return schedule(workload, "flash", GemmSearch(accelerator), attention)


SCHEDULERS = {f"flat-{x}": _flat(x, f"flat-{x}") for x in GRANULARITIES}
SCHEDULERS["flat"] = _flat(GRANULARITIES, "flat")
SCHEDULERS["flash"] = flash
