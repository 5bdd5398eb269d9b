"""Costs of single pieces of work, from the hardware's specs: blocks of array and SFU, transfers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from simaccel.analytic.array import (
    FoldEdges,
    FoldFigures,
    by_stationarity,
    charge_folds,
    edges,
    matmul_of,
    runs_of,
    select_figures,
)
from simaccel.analytic.counting.transfers import Cost
from simaccel.analytic.family import ONE, Ints, TreePath, identity, ints
from simaccel.analytic.known_blocks import Bits, common_bits, find_known, find_single
from simaccel.analytic.pieces import PathCuts, extent, volume
from simaccel.analytic.widths import BitWidths
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.space import BoundOperator
from simaccel.mapping.view import TensorView
from simaccel.numbers import in_bytes
from simaccel.units import SFU
from simaccel.workload.vectors import Passes, VectorStep

_Of = TypeVar("_Of", FoldEdges, FoldFigures)


@dataclass
class UnitCosts(BitWidths):
    """The costs of one family's pieces of work on one accelerator."""

    accelerator: Accelerator
    known: dict[object, object] = field(default_factory=dict)
    kept: list[object] = field(default_factory=list)
    """Arrays that are kept alive, as their identity is part of a key in ``known``."""

    # -- vector work

    def cost(self, step: VectorStep) -> Passes:
        """Return the passes of a step on this accelerator's SFU."""
        return self.accelerator.sfu.choose_form(step, step.merged)

    def rows(self, op: BoundOperator, sizes: dict[str, Ints]) -> Ints:
        """Return the number of rows (whole axes) in a block of a vector operator."""
        axis = self.family.space.axes.get(op.name)
        return volume(sizes, (rank for rank in op.ranks if rank != axis))

    def vector_bytes(
        self, path: TreePath, op: BoundOperator, work: Passes, sizes: dict[str, Ints]
    ) -> list[Ints]:
        """Return the bytes of a block: read of each input, then written."""
        widths = self.widths(path, op)
        read = zip(op.inputs, work.reads, widths, strict=False)
        uses = [*read, (op.output, work.writes, widths[-1])]
        return [times * _n_bytes(view, width, sizes) for view, times, width in uses]

    def sfu_cycles(self, op: BoundOperator, work: Passes, sizes: dict[str, Ints]) -> Ints:
        """Return the cycles of the SFU for a block."""
        elements = volume(sizes, op.ranks)
        return ints(self.accelerator.sfu.cycles(work, elements, self.rows(op, sizes)))

    def correction_cycles(self, view: TensorView, step: VectorStep) -> dict[str, Cost]:
        """Return the cycles of SFU and ports for a step in place on sums."""
        accelerator, work = self.accelerator, self.cost(step)
        read, write = (self.correction_bytes(view, n) for n in (step.reads[0], step.writes))
        ranks = tuple(rank for dim in view.terms for rank, _ in dim)
        return {
            SFU: lambda s: ints(accelerator.sfu.cycles(work, volume(s, ranks), volume(s, ranks))),
            "buffer_read": lambda s: ints(accelerator.read_rate.cycles(read(s))),
            "buffer_write": lambda s: ints(accelerator.write_rate.cycles(write(s))),
        }

    def correction_bytes(self, view: TensorView, times: int) -> Cost:
        """Return the bytes of a block of sums, ``times`` times, in a step in place."""
        width = self.tile_width(view.name, view)
        return lambda sizes: times * _n_bytes(view, width, sizes)

    # -- einsums

    def stationarity_index(self, path: TreePath) -> Ints:
        """Return the index of the stationarity in ``STATIONARITIES``; a plain number if fixed."""
        leaf, held = path.leaf, self.family.held
        if leaf.operator in held:
            return held[leaf.operator]
        return STATIONARITIES.index(leaf.stationarity or "ws")  # type: ignore[return-value]

    def folds(
        self, path: TreePath, cuts: PathCuts, sizes: dict[str, Ints], *, accumulate: bool
    ) -> list[FoldFigures]:
        """Return the fold figures of a block, by stationarity if that is free."""
        widths = self.widths(path, self.family.space.bound_operator(path.leaf.operator))
        kind = {"widths": (widths[0], widths[1], widths[-1]), "accumulate": accumulate}
        return self._select_by_stationarity(FoldFigures, charge_folds, kind, path, cuts, sizes)

    def edges(self, path: TreePath, cuts: PathCuts, sizes: dict[str, Ints]) -> dict[str, Ints]:
        """Return lead, tail and stationary operand of a block; ``sizes``: without derived ranks."""
        every = self.widen_sizes(sizes)
        options = self._select_by_stationarity(FoldEdges, edges, {}, path, cuts, every)
        return select_figures(self.stationarity_index(path), options).by_name()

    def _select_by_stationarity(
        self,
        made: type[_Of],
        of: Callable[..., _Of],
        kind: dict[str, object],
        path: TreePath,
        cuts: PathCuts,
        sizes: dict[str, Ints],
    ) -> list[_Of]:
        """Return ``of`` a block, by stationarity if that is free.

        Results are cached by the block's sizes, unless spreads of a tree or instructions also
        determine its folds.
        """
        op = self.family.space.bound_operator(path.leaf.operator)
        sides, in_blocks = cuts.fold_sides, self.accelerator.systolic.blocks is not None
        kind = {**kind, "pace": self.pace(self.accelerator, path, op)}
        if path.leaf.diagonal:
            kind["diagonal"] = True
        which, shape = self.stationarity_index(path), matmul_of(op, sizes)
        if in_blocks or sides[0] is not None or sides[1] is not None:
            runs = runs_of(op, sizes) if in_blocks else None
            return by_stationarity(
                which, partial(of, self.accelerator, shape, sides=sides, runs=runs, **kind)
            )
        more = tuple(kind.items())
        if isinstance(which, int) and np.ndarray not in map(type, shape):
            held = STATIONARITIES[which]
            return [made(find_single(of, self.accelerator, held, more, *shape))]
        return find_known(made, of, self.accelerator, self._bits(op), (shape, which), more)

    def _bits(self, op: BoundOperator) -> Bits:
        """Return the bits of an operator's sizes (g, m, k, n)."""
        if ("bits", op.name) not in self.known:
            every = {rank: ints(size) for rank, size in self.family.space.full_sizes.items()}
            g, m, k, n = (int(one) for one in matmul_of(op, self.widen_sizes(every)))
            self.known["bits", op.name] = common_bits((g, m, k, n))
        return self.known["bits", op.name]  # type: ignore[return-value]

    def widen_sizes(self, sizes: dict[str, Ints]) -> dict[str, Ints]:
        """Return the sizes with those of derived ranks, such as the positions of windows."""
        derived = self.family.space.derived
        if not derived:
            return sizes
        widened = dict(sizes)
        for rank, terms in derived.items():
            key = ("derived", rank, *(identity(widened[term]) for term, _ in terms))
            if key not in self.known:
                self.kept += [widened[term] for term, _ in terms]
                self.known[key] = extent(terms, widened)
            widened[rank] = self.known[key]  # type: ignore[assignment]
        return widened


def _n_bytes(view: TensorView, width: int, sizes: dict[str, Ints]) -> Ints:
    """Return the bytes of a block of a tensor with elements of ``width`` bits."""
    return in_bytes(math.prod((extent(dim, sizes) for dim in view.terms), start=ONE), width)


def channel_cycles(backing: Accelerator, read: Ints, written: Ints) -> Ints:
    """Return the least cycles of a memory's channel for bytes from and to it.

    ``backing``: an accelerator with that memory as its DRAM. The sum is rounded up once: loads of
    1.5 cycles and stores of 1.5 take 3.
    """
    parts, reads, writes = backing.dram.channels, backing.channel_read_rate, backing.channel_rate
    if reads == writes:
        return ints(reads.cycles((read + written) // parts))
    loads, stores = reads.cycles(read // parts), writes.cycles(written // parts)
    return ints(loads + stores - (loads > 0) * (stores > 0))
