"""Searching tile sizes with the closed form: candidates, fit, best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from simaccel.analytic.gemm import GemmProblem, GemmTiles, Shared, gemm_work
from simaccel.analytic.work import Ints, Work
from simaccel.errors import SimaccelError
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.choices import ORDERS, GemmMapping

UNLIMITED = 2**62
_EVEN_PIECES = 4
"""Into how many even pieces ranks are cut at most; more pieces differ little from rounded ones."""


class NothingFitsError(SimaccelError):
    """No mapping of a scheduler fits the buffer; the message says what the smallest needs."""


def capacity(accelerator: Accelerator) -> int:
    """Buffer capacity in bytes; a very large number if unlimited."""
    size = accelerator.buffer.capacity_bytes
    return UNLIMITED if size is None else size


def tile_sizes(extent: int, side: int) -> list[int]:
    """Candidate tile sizes of a rank: the rank, its even cuts, and doublings of an array side.

    Cuts are even, or rounded up to whole array sides so that only the last tile has part folds.

    >>> tile_sizes(512, 32)
    [32, 64, 96, 128, 171, 192, 256, 512]
    >>> tile_sizes(7, 32)
    [1, 2, 3, 4, 7]
    """
    found = {extent}
    for pieces in (2, 3, 4, 6, 8, 12, 16):
        size = -(-extent // pieces)
        if pieces <= _EVEN_PIECES:
            found.add(size)
        found.add(min(extent, -(-size // side) * side) if extent > side else size)
    size = side
    while size < extent:
        found.add(size)
        size *= 2
    if extent <= side:
        found |= {s for s in (1, 2, 4, 8, 16) if s < extent}
    return sorted(s for s in found if s <= extent)


@dataclass(frozen=True)
class Candidates:
    """Evaluated mappings of one GEMM: what is needed to choose among them."""

    tiles: list[GemmTiles]
    """One per loop order and stationarity, all over the same grid of tile sizes."""
    cycles: Ints
    """[order and stationarity, tile sizes]"""
    dram_bytes: Ints
    buffer_bytes: Ints

    def mapping(self, index: int) -> GemmMapping:
        """Give one candidate (flat index) as a mapping."""
        which, at = divmod(index, self.cycles.shape[1])
        tiles = self.tiles[which]
        a_slots, b_slots, out_slots = tiles.slots
        return GemmMapping.model_validate(
            {
                "m": int(tiles.m[at]),
                "k": int(tiles.k[at]),
                "n": int(tiles.n[at]),
                "order": tiles.order,
                "stationarity": tiles.stationarity,
                "a_slots": a_slots,
                "b_slots": b_slots,
                "out_slots": out_slots,
            }
        )


def dram_bytes(work: Work) -> Ints:
    """Bytes that cross the DRAM channels."""
    return np.asarray(
        sum(n for (level, _), n in work.moved.items() if level.startswith("dram")), dtype=np.int64
    )


def candidates(
    problem: GemmProblem, accelerator: Accelerator, slots: tuple[int, int, int] = (2, 2, 2)
) -> Candidates:
    """Evaluate every order, stationarity and tile size of a GEMM."""
    array = accelerator.systolic
    side = max(1, min(array.rows, array.cols))
    sizes = [
        np.array(tile_sizes(extent, side), dtype=np.int64)
        for extent in (problem.m, problem.k, problem.n)
    ]
    m, k, n = np.ix_(*sizes)
    grid = np.broadcast_arrays(m, k, n)
    shared = Shared()
    found: list[GemmTiles] = []
    rows: list[tuple[Ints, Ints, Ints]] = []
    for order, stationarity in product(ORDERS, STATIONARITIES):
        tiles = GemmTiles(m=m, k=k, n=n, order=order, stationarity=stationarity, slots=slots)
        work = gemm_work(problem, tiles, accelerator, shared)
        flat = [one.ravel() for one in grid]
        found.append(replace(tiles, m=flat[0], k=flat[1], n=flat[2]))
        figures = (work.cycles(), dram_bytes(work), work.buffer_bytes)
        rows.append(tuple(np.broadcast_to(f, grid[0].shape).ravel() for f in figures))  # type: ignore[arg-type]
    cycles, moved, space = (np.stack(column) for column in zip(*rows, strict=True))
    return Candidates(found, cycles, moved, space)


def best(
    cycles: np.ndarray, dram: np.ndarray, space: np.ndarray, capacity_bytes: int
) -> int | None:
    """Flat index of the fastest candidate that fits; then fewest DRAM bytes, least buffer."""
    fits = space.ravel() <= capacity_bytes
    if not fits.any():
        return None
    index = np.flatnonzero(fits)
    keys = (space.ravel()[index], dram.ravel()[index], cycles.ravel()[index])
    return int(index[np.lexsort(keys)[0]])


class GemmSearch:
    """Best mappings of GEMMs on one accelerator; equal problems are searched once."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self._seen: dict[tuple[object, ...], Candidates] = {}

    def table(self, problem: GemmProblem, slots: tuple[int, int, int]) -> Candidates:
        """Give all candidates of a problem."""
        key = (replace(problem, names=("a", "b", "out")), slots)
        if key not in self._seen:
            self._seen[key] = candidates(problem, self.accelerator, slots)
        return self._seen[key]

    def best(self, problem: GemmProblem, operator: str) -> GemmMapping:
        """Find the fastest mapping that fits, with double buffering if that fits.

        Raises:
            NothingFitsError: not even the smallest tiles with one slot each fit.

        """
        limit = capacity(self.accelerator)
        for slots in ((2, 2, 2), (1, 1, 1)):
            table = self.table(problem, slots)
            index = best(table.cycles, table.dram_bytes, table.buffer_bytes, limit)
            if index is not None:
                return table.mapping(index)
        raise NothingFitsError(
            f"{operator}: no tiling fits the buffer of {limit} B; the smallest that was tried "
            f"needs {int(table.buffer_bytes.min())} B"
        )
