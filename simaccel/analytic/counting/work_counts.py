"""Exact work of array and SFU on all blocks; counts of families, with what their tiles move."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from simaccel.analytic.array import (
    FoldFigures,
    by_stationarity,
    held_bytes,
    matmul_of,
    select,
    select_figures,
    stack,
)
from simaccel.analytic.counting.tile_counts import TileCounter, own_axis
from simaccel.analytic.counting.transfers import blocks_of, elements_of, over_pieces
from simaccel.analytic.family import (
    ONE,
    ZERO,
    Family,
    FamilyLoops,
    Ints,
    TreePath,
    all_true,
    any_true,
    choose,
    ints,
)
from simaccel.analytic.family_counts import ACCUMULATOR, FamilyCounts
from simaccel.analytic.pieces import PathCuts, begins_sums, piece_count, tiles, volume
from simaccel.analytic.units import UnitCosts
from simaccel.analytic.widths import BitWidths
from simaccel.hardware import Accelerator
from simaccel.mapping.space import BoundOperator
from simaccel.mapping.tree import BUFFER, Spread
from simaccel.units import ARRAY, MAC, SFU
from simaccel.workload import Vector
from simaccel.workload.vectors import VECTORS, VectorStep

_WORK = (
    (ARRAY, "compute"),
    ("buffer_read", "read_port"),
    ("buffer_write", "write_port"),
    ("noc_distribution", "distribution"),
    ("noc_collection", "collection"),
)
_MOVED = (
    ("buffer_read", 0, "a_bytes"),
    ("buffer_read", 1, "b_bytes"),
    ("buffer_read", -1, "sums_bytes"),
    ("buffer_write", -1, "out_bytes"),
    ("noc_distribution", 0, "a_sent"),
    ("noc_distribution", 1, "b_sent"),
    ("noc_collection", -1, "out_bytes"),
)
_HELD = (("accumulator_read", -1, "held_read"), ("accumulator_write", -1, "held_write"))
Shape = tuple[Ints, Ints, Ints, Ints]
Blocks = tuple[Ints, dict[str, Ints]]
"""(number of blocks, their sizes by rank)."""
_SMALL = 2**16
"""The most numbers for which several blocks are folded at once."""


@dataclass
class WorkCounter:
    """A counter of MACs, vector work, folds and steps."""

    family: Family
    accelerator: Accelerator
    units: UnitCosts
    found: FamilyCounts

    def leaf(self, path: TreePath, cuts: PathCuts, op: BoundOperator) -> None:
        """Count the work of an operator on all its blocks."""
        if isinstance(op.operator, Vector):
            self._vector(path, cuts, op, op.operator)
            return
        macs, pace = elements_of(cuts, op.ranks), self.units.pace(self.accelerator, path, op)
        self.found.macs = self.found.macs + macs
        self.found.native_macs = self.found.native_macs + macs * pace.numerator
        if path.leaf.unit == MAC:
            self._steps(cuts, op, pace.numerator)
        else:
            self._folds(path, cuts, op)

    def _vector(self, path: TreePath, cuts: PathCuts, op: BoundOperator, vector: Vector) -> None:
        axis, steps = self.family.space.cut_axis(op.name), VECTORS[vector.kind].steps
        pieces = piece_count(cuts.pieces(axis, len(cuts.entries))) if axis else ONE
        if not any_true(pieces > 1):
            self._pass(path, cuts, op, steps["whole"])
        elif any_true(own_axis(self.family, path, cuts, len(path.entries))):
            self._pass(path, cuts, op, steps["statistics"])
            self._pass(path, cuts, op, steps["normalise"])
        else:
            self._pass(path, cuts, op, steps["online"])
            around = PathCuts(self.family.space, _path_outside(path, cuts, axis or ""))
            for operator in self.family.space.operators:
                if op.output.name in {v.name for v in operator.inputs} and axis in operator.reduced:
                    was = self.found.busy[SFU]
                    self._correct(cuts, operator, steps["rescale"])
                    self._correct(cuts, operator, steps["rescale"], frozenset({axis or ""}), -1)
                    self.found.add_serial_cycles(op.name, self.found.busy[SFU] - was)
                    self._correct(around, operator, steps["divide"])

    def _pass(self, path: TreePath, cuts: PathCuts, op: BoundOperator, step: VectorStep) -> None:
        names, work = self.units.names(path, op), self.units.cost(step)
        for count, sizes in blocks_of(cuts, op.ranks):
            *reads, written = self.units.vector_bytes(path, op, work, sizes)
            for name, n_bytes in zip(names, reads, strict=False):
                self.found.move(f"{BUFFER}_read", name, count * n_bytes)
            self.found.move(f"{BUFFER}_write", names[-1], count * written)
            cycles = count * self.units.sfu_cycles(op, work, sizes)
            self.found.work(SFU, cycles)
            self.found.add_serial_cycles(op.name, cycles)
            read = self.accelerator.read_rate.cycles(sum(reads, start=ZERO))
            self.found.work("buffer_read", count * ints(read))
            write = self.accelerator.write_rate.cycles(written)
            self.found.work("buffer_write", count * ints(write))
        elements = elements_of(cuts, op.ranks)
        self.found.elements = self.found.elements + work.passes * elements
        if work.row_passes:
            rows = over_pieces(cuts, op.ranks, lambda sizes: self.units.rows(op, sizes))
            self.found.elements = self.found.elements + work.row_passes * rows

    def _correct(
        self,
        cuts: PathCuts,
        summed: BoundOperator,
        step: VectorStep,
        first: frozenset[str] = frozenset(),
        sign: int = 1,
    ) -> None:
        """Count a step in place on the sums of an einsum after an online vector operator."""
        view = summed.output
        ranks = tuple(rank for dim in view.terms for rank, _ in dim)
        name = self.family.aliases.get(view.name, view.name)
        elements = over_pieces(cuts, ranks, lambda s: volume(s, ranks), first) * sign
        self.found.elements = self.found.elements + self.units.cost(step).passes * elements
        for way, times in (("read", step.reads[0]), ("write", step.writes)):
            n_bytes = over_pieces(cuts, ranks, self.units.correction_bytes(view, times), first)
            self.found.move(f"{BUFFER}_{way}", name, n_bytes * sign)
        for unit, cost in self.units.correction_cycles(view, step).items():
            self.found.work(unit, sign * over_pieces(cuts, ranks, cost, first))

    def _folds(self, path: TreePath, cuts: PathCuts, op: BoundOperator) -> None:
        """Count the folds of a systolic array; the first step of a reduction begins the sums."""
        names = self.units.names(path, op)
        fans = (at for at, entry in cuts.cutting if isinstance(entry, Spread))
        upto = next(fans, len(cuts.entries))
        held = () if self.accelerator.systolic.accumulator is None else _HELD
        adding: list[Blocks] = list(blocks_of(cuts, op.ranks, upto=upto))
        for count, sizes in adding if held else ():
            self._hold_sums(path, cuts, op, count, matmul_of(op, sizes))
        starting: list[Blocks] = []
        if begins_sums(cuts, op):
            is_cut = any(cuts.steps.get(rank) for rank in op.reduced)
            starting += blocks_of(cuts, op.ranks, op.reduced if is_cut else frozenset(), upto)
            more = [(-count, sizes) for count, sizes in starting]
            pairs = zip(adding, starting, strict=False)
            same = all(all_true(count == first) for (count, _), (first, _) in pairs)
            # all blocks begin sums where no loop cuts a reduction
            adding = [] if same and len(adding) == len(starting) else [*adding, *more]
        parts = [
            part
            for every, accumulate in ((adding, True), (starting, False))
            for part in self._count_folds(path, cuts, every, accumulate=accumulate)
        ]
        counts = [count for count, _ in parts]
        options = zip(*(options for _, options in parts), strict=True)
        sums = [
            FoldFigures.sum(list(zip(counts, fold_option, strict=True))) for fold_option in options
        ]
        totals = select_figures(self.units.stationarity_index(path), sums).by_name()
        self.found.add_serial_cycles(op.name, totals["cycles"])
        for name, what in _WORK:
            self.found.work(name, totals[what])
        for level, position, what in (*_MOVED, *held):
            self.found.move(level, names[position], totals[what])

    def _count_folds(
        self, path: TreePath, cuts: PathCuts, every: Sequence[Blocks], *, accumulate: bool
    ) -> Iterator[tuple[Ints, list[FoldFigures]]]:
        """Yield (number of blocks, their figures by stationarity).

        Small blocks of several candidates are evaluated together.
        """
        fold = partial(self.units.folds, path, cuts, accumulate=accumulate)
        shapes = (np.shape(size) for _, sizes in every for size in sizes.values())
        if cuts.is_single or len(every) * math.prod(np.broadcast_shapes(*shapes)) > _SMALL:
            yield from ((count, fold(sizes)) for count, sizes in every)
        elif every:
            ndim = len(self.family.shape)
            counts = stack([count for count, _ in every], ndim)
            sizes = {rank: stack([block[rank] for _, block in every], ndim) for rank in every[0][1]}
            sums = ((counts * folded.figures).sum(axis=1) for folded in fold(sizes))
            yield ONE, list(map(FoldFigures, sums))

    def _hold_sums(
        self, path: TreePath, cuts: PathCuts, op: BoundOperator, count: Ints, shape: Shape
    ) -> None:
        """Reserve the accumulator for the sums of blocks (g, m, k, n), where there are some."""
        pace = self.units.pace(self.accelerator, path, op)
        need = partial(held_bytes, self.accelerator, shape, sides=cuts.fold_sides, pace=pace)
        need = partial(need, diagonal=path.leaf.diagonal)
        which = self.units.stationarity_index(path)
        held = select(which, by_stationarity(which, need))
        self.found.hold(ACCUMULATOR, "sums", held * (count > 0), ONE)

    def _steps(self, cuts: PathCuts, op: BoundOperator, pace: int) -> None:
        """Count the cycles of PEs with memories; a part takes as long as its first PE."""
        steps = ints(pace)
        for rank in self.family.space.sizes:
            boxes = cuts.pieces(
                rank, len(cuts.entries), lambda at: not isinstance(cuts.entries[at], Spread)
            )
            laned = any(
                isinstance(e, Spread) and e.level in ("vectors", "lanes") and e.rank == rank
                for e in cuts.entries
            )
            each = rank in op.ranks and not laned
            steps = steps * ints(sum((n * s if each else n for n, s in boxes), start=ZERO))
        self.found.work(ARRAY, steps)
        self.found.add_serial_cycles(op.name, steps)


def serial_cycles(units: UnitCosts, path: TreePath, cuts: PathCuts) -> Ints:
    """Return the cycles of an operator's blocks, one after the other, under these cuts."""
    op, counts = units.family.space.bound_operator(path.leaf.operator), FamilyCounts()
    if next(blocks_of(cuts, op.ranks), None) is None:
        return ZERO
    WorkCounter(units.family, units.accelerator, units, counts).leaf(path, cuts, op)
    return counts.chains[op.name]


def _path_outside(path: TreePath, cuts: PathCuts, axis: str) -> TreePath:
    """Return the part of a path outside of the outermost loop that cuts an axis."""
    first = next(
        n
        for n, entry in enumerate(path.entries)
        for rank, tile in tiles(entry)
        if rank == axis and any_true(tile < cuts.full[n][axis])
    )
    entry, around = path.entries[first], path.entries[:first]
    if isinstance(entry, FamilyLoops):
        place = entry.places[entry.ranks.index(axis)]
        sizes = [
            ints(choose(at < place, tile, cuts.full[first][rank]))
            for rank, tile, at in zip(entry.ranks, entry.tiles, entry.places, strict=True)
        ]
        around = (*around, FamilyLoops(entry.ranks, tuple(sizes), entry.places))
    return TreePath(around, path.leaf)


def count(units: UnitCosts, *, room: bool = True) -> FamilyCounts:
    """Return the counts of a family on an accelerator; ``room``: also of what tiles take."""
    found, family, accelerator = FamilyCounts(), units.family, units.accelerator
    tiles = TileCounter(family, units, found, accelerator.noc.distribution.multicasts, room)
    work = WorkCounter(family, accelerator, units, found)
    for path in family.paths:
        op, cuts = family.space.bound_operator(path.leaf.operator), units.cuts(path)
        for position in range(len(op.uses)):
            tiles.count_operand(path, cuts, op, position)
        work.leaf(path, cuts, op)
    return found


def count_tiles(family: Family, operator: str | None = None) -> FamilyCounts:
    """Return the bytes that tiles move and take, for trees whose tiles are all in the buffer.

    Independent of any accelerator. Leaves aren't counted, so accesses of MACs are missing.
    ``operator``: only tiles on the paths to its leaves.
    """
    counts = FamilyCounts()
    tiles = TileCounter(family, BitWidths(family), counts)
    for path in family.paths:
        if operator not in (None, path.leaf.operator):
            continue
        op, cuts = family.space.bound_operator(path.leaf.operator), PathCuts(family.space, path)
        for position in range(len(op.uses)):
            tiles.count_operand(path, cuts, op, position)
    return counts
