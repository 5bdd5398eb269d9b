"""FLAT: L, softmax and A fused under shared outer loops; and flash, which tiles the keys, too.

Granularities of a FLAT-tile (FLAT, section 5.1): all samples (M), whole samples (B), whole heads
(H), or row blocks of one head (R).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from simaccel.analytic.family import Family
from simaccel.analytic.sizes import even_pieces
from simaccel.hardware import Accelerator
from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import Group
from simaccel.schedulers.attention import (
    AttentionProblem,
    FlatTile,
    flat_families,
    tiled_families,
)
from simaccel.schedulers.group_search import GroupSearch
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity
from simaccel.search.effort import EFFORT
from simaccel.search.neighbours import tile_sizes
from simaccel.search.problems import Options

_NESTED = 16
"""About how many FLAT-tiles are tried with tiles of L and A inside."""
_KEY_SIDES = 8
"""Key tiles of up to this many array sides are all candidates."""
_ROWS = 256
"""Most numbers of rows that are tried; of more, evenly spaced ones, and local search looks between.
"""
_HEADS = (2, 3, 4, 6, 8)
"""Numbers of whole heads that flash may have on chip at once."""
_INNER = 4
"""About how many sizes of rows, and of keys, are tried for the tiles of L and A in it."""


def flat_tiles(
    problem: AttentionProblem, granularity: str, accelerator: Accelerator, keys: Sequence[int] = ()
) -> list[FlatTile]:
    """Return the candidate FLAT-tiles of a granularity; heads and rows need not divide evenly.

    ``keys``: sizes of key tiles (empty: chosen here).
    """
    every, side = problem.size((problem.key_rank,)), accelerator.array.cols
    # whole array sides, as what rows leave of a buffer is little
    sides = {side * n for n in range(1, _KEY_SIDES + 1) if side * n < every}
    keys = keys or sorted({*tile_sizes(every, side), *sides})
    blocks = _blocks(problem, granularity, accelerator)
    return [(heads, rows, k) for heads, rows in blocks for k in keys]


def _blocks(
    problem: AttentionProblem, granularity: str, accelerator: Accelerator
) -> list[tuple[int, int]]:
    """Return the candidate (heads, rows) that are on chip at once."""
    g, q, sample = problem.size(problem.heads), problem.size(problem.rows), problem.per_sample
    if granularity == "m":
        return [(g, q)]
    if granularity == "b":
        return [(n * sample, q) for n in block_sizes(g // sample)[:-1]] or [(g, q)]
    if granularity == "h":
        return [(n, q) for n in block_sizes(g) if n < sample] or [(1, q)]
    rows = {r for r in tile_sizes(q, accelerator.array.rows) if r < q} or {q}
    rows |= set(range(1, min(q, accelerator.array.rows)))
    return [(1, r) for r in sorted(rows)]


def fitting_kinds(
    problem: AttentionProblem, kinds: Sequence[str], accelerator: Accelerator
) -> list[str]:
    """Return the kinds of attention that may fit the buffer, and the last `flat` kind anyhow.

    A `flat` kind may fit if the intermediate of its smallest block of rows is smaller than the
    buffer; other kinds are not checked.
    """
    flat = [kind for kind in kinds if kind.startswith("flat")]
    fewest = {
        kind: min(heads * rows for heads, rows in _blocks(problem, kind[-1], accelerator))
        for kind in flat
    }
    most = capacity(accelerator)
    fit = [kind for kind in flat if fewest[kind] * problem.row_bytes < most] or flat[-1:]
    return [kind for kind in kinds if kind not in flat or kind in fit]


def other_rows(problem: AttentionProblem, accelerator: Accelerator) -> list[FlatTile]:
    """Return the fitting FLAT-tiles with numbers of rows that `flat_tiles` leaves out.

    If they are many, only the smallest for each number of blocks, and multiples of the array side:
    a larger block only makes the last one smaller.
    """
    q, side = problem.size(problem.rows), accelerator.array.rows
    most = min(q - 1, capacity(accelerator) // problem.row_bytes)
    known = {rows for _, rows in _blocks(problem, "r", accelerator)}
    rows = {r for r in block_sizes(q) if r <= most} | {*range(side, most + 1, side)}
    counts = sorted((rows if most > _ROWS else {*range(1, most + 1)}) - known)
    keys = _sample_sizes(tile_sizes(problem.size((problem.key_rank,)), accelerator.array.cols))
    return [(1, r, k) for r in counts[:: -(-len(counts) // _ROWS) or 1] for k in keys]


def block_sizes(extent: int) -> list[int]:
    """Return the smallest block size for each number of blocks that a rank can be cut into.

    A larger block that gives the same number of blocks needs more room and moves as much. Ranks of
    few positions have all sizes, as in `tile_sizes`.

    >>> block_sizes(18), block_sizes(7)
    ([1, 2, 3, 4, 5, 6, 9, 18], [1, 2, 3, 4, 5, 6, 7])
    """
    if extent <= EFFORT.every_size:
        return list(range(1, extent + 1))
    return list(even_pieces(extent).tolist())


def candidates(
    problem: AttentionProblem, search: TreeSearch, options: Options, kind: str
) -> GroupSearch:
    """Return the search of an attention as one group; ``kind``: such as ``flat-b`` or ``flash``."""
    group = Group(operators=problem.part, tree=(), merged=problem.merged)
    family, _, granularity = kind.partition("-")

    def families_of(space: IterationSpace) -> Iterator[list[Family]]:
        return _families(replace(problem, space=space), search.accelerator, options, granularity)

    blocks = _blocks(problem, granularity, search.accelerator) if granularity else []
    # granularities with the same blocks share a search: all samples and one, if there is one
    key = family, *blocks, granularity == "r", options.pipeline, problem.per_sample
    return search.group_search(group, problem.space, families_of, key, label=family)


def _families(
    problem: AttentionProblem, accelerator: Accelerator, options: Options, granularity: str
) -> Iterator[list[Family]]:
    """Yield families of a granularity or of flash (``granularity`` is empty), also pipelined.

    Each with the sizes of a grid first, and then with the other numbers of rows.
    """
    if granularity:
        grids: tuple[list[FlatTile], ...] = (flat_tiles(problem, granularity, accelerator),)
    else:  # rows of one head or whole heads: with all keys, and with key tiles (online softmax)
        g, q = problem.size(problem.heads), problem.size(problem.rows)
        c = problem.size((problem.key_rank,))
        blocks = [(1, r) for r in tile_sizes(q, accelerator.array.rows)]
        blocks += [(n, q) for n in _HEADS if n < g]
        keys = [k for k in tile_sizes(c, accelerator.array.cols) if k < c]
        grids = [(*block, c) for block in blocks], [(*b, k) for b in blocks for k in keys]
    rows = other_rows(problem, accelerator) if granularity == "r" else []
    widths = problem.widths(accelerator)
    for is_online, tiles in zip((False, True), grids, strict=False):
        for pipelined in (False, True) if options.pipeline else (False,):
            for sizes in filter(None, (tiles, rows)):
                how = {"online": is_online, "pipelined": pipelined}
                made = list(flat_families(problem, sizes, **how, widths=widths))
                yield from [made] if made else []
    inner = _inner_families(problem, granularity, accelerator) if granularity else []
    yield from [inner] if inner else []


def _inner_families(
    problem: AttentionProblem, granularity: str, accelerator: Accelerator
) -> list[Family]:
    """Return families of a granularity in which L and A have tiles inside the FLAT-tile."""
    array = accelerator.array
    rows = tile_sizes(problem.size(problem.rows), array.rows)
    keys = tile_sizes(problem.size((problem.key_rank,)), array.cols)
    inner = [(r, k) for r in _sample_sizes(rows) for k in _sample_sizes(keys)]
    tiles = flat_tiles(problem, granularity, accelerator, keys[-1:])
    few = tiles[:: -(-len(tiles) // _NESTED)]
    return list(tiled_families(problem, few, inner, problem.widths(accelerator)))


def _sample_sizes(sizes: Sequence[int]) -> list[int]:
    return sorted({*sizes[:: -(-len(sizes) // _INNER)], sizes[-1]})
