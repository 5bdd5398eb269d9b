"""Closed form of one block on a systolic array, limited by array, NoC and buffer ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from simaccel.analytic.family import Fan, Ints, ints
from simaccel.analytic.pieces import Cuts
from simaccel.hardware import Accelerator, FoldGrid, Stationarity, spatial
from simaccel.mapping.space import Seen


@dataclass(frozen=True)
class Folded:
    """The folds of one block: cycles as executed, and of compute alone, bytes, ports and pipes."""

    cycles: Ints
    compute: Ints
    a_bytes: Ints
    b_bytes: Ints
    sums_bytes: Ints
    out_bytes: Ints
    a_sent: Ints
    b_sent: Ints
    distribution: Ints
    collection: Ints
    read_port: Ints
    write_port: Ints
    held_read: Ints
    """Bytes of the accumulator, as ``held_write``."""
    held_write: Ints


@dataclass(frozen=True)
class Edges:
    """Cycles around the folds of one block, and who shifts in before them.

    ``lead``: until the stationary operand is in place, ``tail``: until the last result is out,
    ``hidden``: last cycles of the folds in which the next operand may shift in, ``leaving``: cycles
    behind them in which sums keep those of the next block in the rows. ``held``: number of the
    stationary operand; -1 where sums are.
    """

    lead: Ints
    tail: Ints
    hidden: Ints
    leaving: Ints
    held: Ints


Sides = tuple[Ints | None, Ints | None]


def folded(
    accelerator: Accelerator,
    shape: tuple[Ints, Ints, Ints, Ints],
    stationarity: Stationarity,
    widths: tuple[int, int, int],
    *,
    accumulate: bool,
    sides: Sides = (None, None),
) -> Folded:
    """Charge out[g, m, n] (+)= a[g, m, k] b[g, k, n].

    Bytes follow from reuse: the stationary operand is read once per fold, the streamed one
    once per strip of columns, partial sums once per row fold after the first (ws, is).
    ``sides``: rows and columns of a full fold, where they are not the array's.
    """
    array, g = accelerator.systolic, shape[0]
    grid = _grid(accelerator, shape, stationarity, sides)
    high, wide, side, across = grid.high, grid.wide, grid.rows, grid.cols
    strips = ((wide // across, across), (ints(wide % across > 0), wide % across))
    full, edge = high // side, high % side
    first_high = np.minimum(high, side)
    reduces = stationarity != "os"
    parts: list[tuple[Ints, Folded]] = []

    def add(
        times: Ints, rows: Ints, cols: Ints, *, sums: bool, adds: bool = False, leaves: bool = True
    ) -> None:
        if np.any(times > 0):
            kind = _Kind(stationarity, widths, sums=sums, adds=adds, leaves=leaves)
            parts.append((times, _fold(accelerator, grid, (rows, cols), kind)))

    for n_strips, cols in strips:
        if array.accumulates(stationarity) is not None:
            count = full + (edge > 0)
            last = np.where(edge > 0, edge, side)
            add(n_strips * (count == 1), first_high, cols, sums=accumulate)
            add(n_strips * (count > 1), side, cols, sums=accumulate, leaves=False)
            more = n_strips * np.maximum(count - 2, 0)
            add(ints(more), side, cols, sums=False, adds=True, leaves=False)
            add(n_strips * (count > 1), last, cols, sums=False, adds=True)
        elif reduces and not accumulate:
            add(n_strips, first_high, cols, sums=False)
            add(n_strips * (full - (full > 0)), side, cols, sums=True)
            add(n_strips * ints((full > 0) & (edge > 0)), edge, cols, sums=True)
        else:
            add(n_strips * full, side, cols, sums=accumulate)
            add(n_strips * ints(edge > 0), edge, cols, sums=accumulate)
    totals = {
        one.name: g * sum((times * getattr(fold, one.name) for times, fold in parts), start=ints(0))
        for one in fields(Folded)
    }
    return Folded(**{name: ints(value) for name, value in totals.items()})


def _grid(
    accelerator: Accelerator,
    shape: tuple[Ints, Ints, Ints, Ints],
    stationarity: Stationarity,
    sides: Sides,
) -> FoldGrid[Ints]:
    """Return how a block is cut into folds."""
    array, (_, m, k, n) = accelerator.systolic, shape
    high, wide, stream = (ints(one) for one in spatial(m, k, n, stationarity))
    rows, cols = (
        ints(side) if given is None else given
        for side, given in zip((array.rows, array.cols), sides, strict=True)
    )
    return FoldGrid(high, wide, stream, rows, cols)


def edges(
    accelerator: Accelerator,
    shape: tuple[Ints, Ints, Ints, Ints],
    stationarity: Stationarity,
    sides: Sides = (None, None),
) -> Edges:
    """Return what is before and after the folds of a block."""
    array, grid = accelerator.systolic, _grid(accelerator, shape, stationarity, sides)
    return Edges(
        lead=ints(array.lead_cycles(grid, stationarity)),
        tail=ints(array.tail_cycles(grid, stationarity)),
        hidden=ints(array.hidden_cycles(grid, stationarity)),
        leaving=ints(array.leaving_cycles(grid, stationarity)),
        held=ints({"ws": 1, "is": 0, "os": -1}[stationarity]),
    )


_Of = TypeVar("_Of", Folded, Edges)


def chosen(which: Ints, options: Sequence[_Of]) -> _Of:
    """Return for each candidate the option of its number."""
    found = {
        one.name: ints(np.choose(which, [getattr(option, one.name) for option in options]))
        for one in fields(options[0])
    }
    return type(options[0])(**found)


@dataclass(frozen=True)
class _Kind:
    """What a fold does with operands and sums."""

    stationarity: Stationarity
    widths: tuple[int, int, int]
    sums: bool
    """It adds to sums of the buffer."""
    adds: bool
    """It adds to sums of the accumulator."""
    leaves: bool
    """What it makes goes to the buffer; otherwise to the accumulator."""


def _fold(
    accelerator: Accelerator, grid: FoldGrid[Ints], sides: tuple[Ints, Ints], kind: _Kind
) -> Folded:
    """Charge one fold: compute, NoC and ports all at once."""
    array, stationarity = accelerator.systolic, kind.stationarity
    multicasts = accelerator.noc.distribution.multicasts
    moved = array.fold_bytes(sides, grid.stream, stationarity, kind.widths, multicasts=multicasts)
    compute = ints(array.fold_cycles(*sides, grid.stream, stationarity, grid.first_rows))
    sums_bytes, out_bytes = moved.out * int(kind.sums), moved.out * int(kind.leaves)
    accumulator = array.accumulates(stationarity)
    width = 0 if accumulator is None else accumulator.bytes_per_element
    held_bytes = sides[1] * grid.stream * width
    distribution = accelerator.distribution_rate.cycles(moved.a_sent + moved.b_sent)
    collection = accelerator.collection_rate.cycles(out_bytes)
    read = accelerator.read_rate.cycles(moved.a + moved.b + sums_bytes)
    write = accelerator.write_rate.cycles(out_bytes)
    longest = compute
    for limit in (distribution, collection, read, write):
        longest = np.maximum(longest, limit)
    return Folded(
        cycles=longest,
        compute=compute,
        a_bytes=ints(moved.a),
        b_bytes=ints(moved.b),
        sums_bytes=ints(sums_bytes),
        out_bytes=ints(out_bytes),
        a_sent=ints(moved.a_sent),
        b_sent=ints(moved.b_sent),
        distribution=ints(distribution),
        collection=ints(collection),
        read_port=ints(read),
        write_port=ints(write),
        held_read=ints(held_bytes * int(kind.adds)),
        held_write=ints(held_bytes * int(not kind.leaves)),
    )


def held_bytes(
    accelerator: Accelerator,
    shape: tuple[Ints, Ints, Ints, Ints],
    stationarity: Stationarity,
    sides: Sides = (None, None),
) -> Ints:
    """Return the bytes of the accumulator that a block g, m, k, n takes: of one strip's sums."""
    accumulator = accelerator.systolic.accumulates(stationarity)
    if accumulator is None:
        return ints(0)
    return ints(accumulator.n_bytes(_grid(accelerator, shape, stationarity, sides)))


def matmul_of(seen: Seen, sizes: dict[str, Ints]) -> tuple[Ints, Ints, Ints, Ints]:
    """Return g, m, k, n of a block: ranks play them by the operands that they are in."""
    found = dict.fromkeys("gmkn", ints(1))
    first, second = (view.names for view in seen.inputs)
    for rank in seen.ranks:
        where = rank in first, rank in second, rank in seen.output.names
        plays = {
            (True, True, True): "g",
            (True, True, False): "k",
            (False, True, True): "n",
        }.get(where, "m")
        found[plays] = found[plays] * sizes[rank]
    return found["g"], found["m"], found["k"], found["n"]


def fold_sides(cuts: Cuts) -> tuple[Ints | None, Ints | None]:
    """Return the sides of a full fold where a tree says them."""
    found: dict[str, Ints] = {}
    for at, entry in enumerate(cuts.entries):
        if isinstance(entry, Fan) and entry.level in ("rows", "cols"):
            pieces = -(-cuts.full[at][entry.rank] // entry.tile)
            found[entry.level] = found.get(entry.level, ints(1)) * pieces
    return found.get("rows"), found.get("cols")
