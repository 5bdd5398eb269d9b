"""Folds of a block on a systolic array: cycles and bytes of array, NoC pipes and buffer ports."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import ClassVar, TypeVar

import numpy as np

from simaccel.analytic.family import ONE, ZERO, Ints, any_true, choose, ints, maximum, minimum
from simaccel.hardware import PLACES, STATIONARITIES, Accelerator, FoldGrid, Stationarity
from simaccel.hardware.fold_grid import spatial
from simaccel.mapping.space import BoundOperator

FIGURES = (
    "cycles",
    "compute",
    "a_bytes",
    "b_bytes",
    "sums_bytes",
    "out_bytes",
    "a_sent",
    "b_sent",
    "distribution",
    "collection",
    "read_port",
    "write_port",
    "held_read",
    "held_write",
)
"""Figures of folds: cycles in all, cycles of compute, bytes of operands, of what is sent to PEs,
cycles of pipes and ports, bytes of the accumulator."""
ONE_CYCLE = Fraction(1)


@dataclass(frozen=True)
class FoldFigures:
    """Figures of one block's folds; the first axis of ``figures`` has the order of ``NAMES``.

    Without the last two, bytes of the accumulator, on an accelerator that has none.
    """

    NAMES: ClassVar[tuple[str, ...]] = FIGURES
    figures: Ints

    def by_name(self) -> dict[str, Ints]:
        """Return the figures by name, those of a single candidate as plain numbers."""
        each = self.figures if self.figures.ndim > 1 else self.figures.tolist()
        return dict(zip(self.NAMES[: len(each)], each, strict=True))

    @classmethod
    def sum(cls, parts: Sequence[tuple[Ints, FoldFigures]]) -> FoldFigures:
        """Return the sum of figures, each times its count; counts are arrays over candidates."""
        ndim = max(max(getattr(count, "ndim", 0), one.figures.ndim - 1) for count, one in parts)
        each = [count * _add_axes(one.figures, ndim) for count, one in parts]
        return cls(sum(each[1:], start=each[0]))


@dataclass(frozen=True)
class FoldEdges(FoldFigures):
    """Cycles before and after the folds of one block, and its stationary operand.

    ``lead``: cycles until the stationary operand is in place; ``tail``: cycles until the last
    result is out; ``held``: number of the stationary operand, -1 for sums.
    """

    NAMES: ClassVar[tuple[str, ...]] = ("lead", "tail", "held")


Sides = tuple[Ints | None, Ints | None]


def charge_folds(  # noqa: PLR0913 - a block has that many properties
    accelerator: Accelerator,
    shape: tuple[Ints, Ints, Ints, Ints],
    stationarity: Stationarity,
    widths: tuple[int, int, int],
    *,
    pace: Fraction = ONE_CYCLE,
    accumulate: bool,
    sides: Sides = (None, None),
    runs: Map[str, Ints] | None = None,
    diagonal: bool = False,
) -> FoldFigures:
    """Return the figures of all folds of out[g, m, n] (+)= a[g, m, k] b[g, k, n].

    Bytes follow from reuse: the stationary operand is read once per fold, the streamed one once per
    strip of columns, partial sums once per row fold after the first (ws, is). ``shape``: (g, m, k,
    n); ``widths``: bits per element of a, b and out; ``pace``: cycles of a step. ``sides``: rows
    and columns of a full fold, None for the array's. ``runs``: sizes of the innermost ranks
    (`runs_of`). ``diagonal``: products may share an array.
    """
    array, g = accelerator.systolic, shape[0]
    grid = _grid(accelerator, shape, stationarity, sides, pace, runs, diagonal=diagonal)
    high, wide, side, across = grid.high, grid.wide, grid.round_rows, grid.round_cols
    strips = ((wide // across, across), (ints(wide % across > 0), wide % across))
    full, edge = high // side, high % side
    first_high = minimum(high, side)
    reduces = stationarity != "os"
    kinds: list[_EqualFolds] = []

    def add(
        times: Ints, rows: Ints, cols: Ints, *, sums: bool, adds: bool = False, leaves: bool = True
    ) -> None:
        if any_true(times > 0):
            kinds.append(_EqualFolds(times, rows, cols, ints(sums), ints(adds), ints(leaves)))

    for n_strips, cols in strips:
        if array.accumulates(stationarity) is not None:
            count = full + (edge > 0)
            last = choose(edge > 0, edge, side)
            add(n_strips * (count == 1), first_high, cols, sums=accumulate)
            add(n_strips * (count > 1), side, cols, sums=accumulate, leaves=False)
            more = n_strips * maximum(count - 2, 0)
            add(ints(more), side, cols, sums=False, adds=True, leaves=False)
            add(n_strips * (count > 1), last, cols, sums=False, adds=True)
        elif reduces and not accumulate:
            add(n_strips, first_high, cols, sums=False)
            add(n_strips * (full - (full > 0)), side, cols, sums=True)
            add(n_strips * ints((full > 0) & (edge > 0)), edge, cols, sums=True)
        else:
            add(n_strips * full, side, cols, sums=accumulate)
            add(n_strips * ints(edge > 0), edge, cols, sums=accumulate)
    work = _FoldWork(accelerator, grid, stationarity, widths)
    every = np.broadcast_shapes(*(np.shape(length) for length in (*shape, side, across)))
    if grid.gang is None:
        return FoldFigures(g * _sum_folds(work, kinds, every))
    at_once = grid.gang.products
    whole = g // at_once * _sum_folds(replace(work, products=at_once), kinds, every)
    rest = g % at_once
    if not any_true(rest):
        return FoldFigures(whole)
    return FoldFigures(whole + (rest > 0) * _sum_folds(replace(work, products=rest), kinds, every))


def _sum_folds(work: _FoldWork, kinds: Sequence[_EqualFolds], shape: tuple[int, ...]) -> Ints:
    """Return the summed figures of several kinds of folds, in one evaluation if they are small."""
    names = FIGURES if work.accelerator.systolic.accumulator is not None else FIGURES[:-2]
    sums = np.zeros((len(names), *shape), dtype=np.int64)
    for kind in _group_kinds(kinds, shape):
        each = _fold(work, kind)
        if math.prod(shape) <= _SMALL:
            sums += (kind.times * stack([ints(each[name]) for name in names])).sum(axis=1)
            continue
        for at, name in enumerate(names):
            sums[at] += (kind.times * each[name])[0]
    return sums


def _grid(
    accelerator: Accelerator,
    shape: tuple[Ints, Ints, Ints, Ints],
    stationarity: Stationarity,
    sides: Sides,
    pace: Fraction = ONE_CYCLE,
    runs: Map[str, Ints] | None = None,
    *,
    diagonal: bool = False,
) -> FoldGrid[Ints]:
    """Return the fold grid of a block; ``pace``: cycles of a step."""
    array, (g, m, k, n) = accelerator.systolic, shape
    high, wide, stream = (ints(size) for size in spatial(m, k, n, stationarity))
    rows, cols = (
        ints(side) if own is None else own
        for side, own in zip((array.rows, array.cols), sides, strict=True)
    )
    run = None if runs is None else runs[PLACES[stationarity][2]]
    how = pace, stationarity, ints(g), run
    return array.grid((high, wide, stream), (rows, cols), *how, diagonal=diagonal)


def edges(
    accelerator: Accelerator,
    shape: tuple[Ints, Ints, Ints, Ints],
    stationarity: Stationarity,
    sides: Sides = (None, None),
    pace: Fraction = ONE_CYCLE,
    runs: Map[str, Ints] | None = None,
    *,
    diagonal: bool = False,
) -> FoldEdges:
    """Return lead, tail and stationary operand of a block; ``pace``: cycles of a step."""
    array, how = accelerator.systolic, (stationarity, sides, pace, runs)
    grid = _grid(accelerator, shape, *how, diagonal=diagonal)
    lead, tail = array.lead_cycles(grid, stationarity), array.tail_cycles(grid, stationarity)
    held = {"ws": 1, "is": 0, "os": -1}[stationarity]
    return FoldEdges(stack([ints(lead), ints(tail), ints(held)]))


_Of = TypeVar("_Of", Ints, FoldEdges, FoldFigures)
_Figures = TypeVar("_Figures", FoldEdges, FoldFigures)


def by_stationarity(which: Ints | int, of: Callable[..., _Of]) -> list[_Of]:
    """Return ``of`` for each stationarity in use, in the order of ``STATIONARITIES``.

    Unused ones repeat another's figures. If ``which`` is a plain number only its own is returned.
    """
    if isinstance(which, int):
        return [of(stationarity=STATIONARITIES[which])]
    used = set(np.ravel(which).tolist())
    found = {number: of(stationarity=STATIONARITIES[number]) for number in used}
    return [found.get(number, found[min(used)]) for number in range(len(STATIONARITIES))]


def select(which: Ints, options: Sequence[Ints]) -> Ints:
    """Return, for each candidate, its option by number; the only option if ``which`` is plain."""
    return options[0] if isinstance(which, int) else _choose(which, options)


def select_figures(which: Ints, options: Sequence[_Figures]) -> _Figures:
    """Return, for each candidate, the figures of its option by number, or of the only option."""
    if isinstance(which, int):
        return options[0]
    ndim = max(which.ndim, *(option.figures.ndim - 1 for option in options))
    each = [_add_axes(option.figures, ndim) for option in options]
    return type(options[0])(_choose(which, each))


def _choose(which: Ints, options: Sequence[Ints]) -> Ints:
    """Return ``np.choose(which, options)``, faster if ``which`` varies along an axis of its own."""
    along = [axis - which.ndim for axis, size in enumerate(which.shape) if size > 1]
    ndim = max(map(np.ndim, options))
    if len(along) == 1 and ndim >= which.ndim:
        (axis,) = along
        shape = np.broadcast_shapes(*set(map(np.shape, options)))
        if shape[axis] == 1:
            each = np.concatenate([np.broadcast_to(option, shape) for option in options], axis)
            return ints(np.take(each, which.ravel(), axis))
    return ints(np.choose(which, options))


@dataclass(frozen=True)
class _FoldWork:
    """The parameters that all folds of a block share; ``widths``: bits per element of A, B, C."""

    accelerator: Accelerator
    grid: FoldGrid[Ints]
    stationarity: Stationarity
    widths: tuple[int, int, int]
    products: Ints | int = 1
    """Products that run at once, each on arrays or on a part of a diagonal of its own."""


@dataclass(frozen=True)
class _EqualFolds:
    """Equal folds: their number, sides and sums; or several kinds along the first axis."""

    times: Ints
    rows: Ints
    cols: Ints
    sums: Ints
    """Whether they add to sums in the buffer."""
    adds: Ints
    """Whether they add to sums in the accumulator."""
    leaves: Ints
    """Whether their results go to the buffer; else to the accumulator."""


_NAMES = tuple(one.name for one in fields(_EqualFolds))
_SMALL = 2**14
"""The most numbers for which several kinds of folds are evaluated at once."""


def _group_kinds(kinds: Sequence[_EqualFolds], shape: tuple[int, ...]) -> list[_EqualFolds]:
    """Return kinds of folds stacked along a first axis if they are small, else one by one."""
    few = len(kinds) * math.prod(shape) <= _SMALL
    groups = [kinds] * bool(kinds) if few else [[kind] for kind in kinds]
    fields = ([[getattr(kind, name) for kind in group] for name in _NAMES] for group in groups)
    return [_EqualFolds(*(stack(own, len(shape)) for own in each)) for each in fields]


def stack(arrays: Sequence[Ints], ndim: int = 0) -> Ints:
    """Return arrays stacked along a first axis, broadcast; faster than ``np.stack``."""
    shape = np.broadcast_shapes(*map(np.shape, arrays))
    found = np.empty((len(arrays), *shape), dtype=np.int64)
    for at, array in enumerate(arrays):
        found[at] = array
    return _add_axes(found, ndim)


def _add_axes(array: Ints, ndim: int) -> Ints:
    """Return an array with at least ``ndim`` axes after its first."""
    return array.reshape(len(array), *[1] * (ndim + 1 - array.ndim), *array.shape[1:])


def _fold(work: _FoldWork, folds: _EqualFolds) -> dict[str, Ints]:
    """Return the figures of equal folds by name; compute, NoC and ports work in parallel."""
    accelerator, grid, stationarity = work.accelerator, work.grid, work.stationarity
    array, sides = accelerator.systolic, (folds.rows, folds.cols)
    multicasts = accelerator.noc.distribution.multicasts
    products = work.products
    together = 1 if grid.gang is None else minimum(ints(products), ints(grid.gang.beside))
    moved = array.fold_bytes(
        grid,
        sides,
        stationarity,
        work.widths,
        multicasts=multicasts,
        products=products,
        together=together,
    )
    alone = minimum(folds.rows, grid.rows), minimum(folds.cols, grid.cols)
    compute = array.cycles_in(grid, *alone, stationarity)
    adding = moved.adding
    if array.count > 1:
        held_by = grid.arrays(minimum(grid.high, grid.round_rows), folds.cols).down
        adding = choose(folds.adds, held_by, moved.adding)
    sums_bytes = moved.out * (folds.sums + (adding - 1) * folds.leaves)
    out_bytes = moved.out * adding * folds.leaves
    accumulator = array.accumulates(stationarity)
    width = 0 if accumulator is None else accumulator.bytes_per_element
    held_bytes = products * folds.cols * grid.stream * width
    distribution = accelerator.array_in_rate.cycles(moved.pipe_in)
    collection = accelerator.array_out_rate.cycles(moved.pipe_out * folds.leaves)
    read = accelerator.read_rate.cycles(moved.a + moved.b + sums_bytes)
    write = accelerator.write_rate.cycles(out_bytes)
    longest = compute
    for limit in (distribution, collection, read, write):
        longest = maximum(longest, limit)
    return {
        "cycles": longest,
        "compute": compute,
        "a_bytes": moved.a,
        "b_bytes": moved.b,
        "sums_bytes": sums_bytes,
        "out_bytes": out_bytes,
        "a_sent": moved.a_sent,
        "b_sent": moved.b_sent,
        "distribution": distribution,
        "collection": collection,
        "read_port": read,
        "write_port": write,
        "held_read": held_bytes * adding * folds.adds,
        "held_write": held_bytes * moved.adding * (1 - folds.leaves),
    }


def held_bytes(
    accelerator: Accelerator,
    shape: tuple[Ints, Ints, Ints, Ints],
    stationarity: Stationarity,
    sides: Sides = (None, None),
    pace: Fraction = ONE_CYCLE,
    *,
    diagonal: bool = False,
) -> Ints:
    """Return the bytes of one strip's sums of a block (g, m, k, n), which the accumulator holds.

    ``pace``: cycles of a step, which decides how several arrays share the folds.
    """
    accumulator = accelerator.systolic.accumulates(stationarity)
    if accumulator is None:
        return ZERO
    grid = _grid(accelerator, shape, stationarity, sides, pace, diagonal=diagonal)
    return ints(accumulator.n_bytes(grid))


def matmul_of(op: BoundOperator, sizes: dict[str, Ints]) -> tuple[Ints, Ints, Ints, Ints]:
    """Return (g, m, k, n) of a block; each rank's role follows from the operands that have it."""
    found = dict.fromkeys("gmkn", ONE)
    for rank, role in op.parts.items():
        part = role or "m"
        found[part] = found[part] * sizes[rank]
    return found["g"], found["m"], found["k"], found["n"]


def runs_of(op: BoundOperator, sizes: Map[str, Ints]) -> dict[str, Ints]:
    """Return, for each of g, m, k and n, the size of the innermost rank with this role."""
    found = dict.fromkeys("gmkn", ONE)
    for rank, part in op.parts.items():
        if part is not None:
            found[part] = sizes[rank]
    return found
