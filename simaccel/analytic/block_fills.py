"""Fills, drains and last blocks: least cycles before, between and after the blocks of a family."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeGuard

from simaccel.analytic.array import select_figures
from simaccel.analytic.counting.transfers import blocks_of
from simaccel.analytic.family import ONE, ZERO, FamilyLoops, Ints, TreePath, ints, maximum, minimum
from simaccel.analytic.pieces import PathCuts, extent, piece_count
from simaccel.analytic.units import UnitCosts
from simaccel.mapping.tree import BUFFER, Keep
from simaccel.mapping.view import TensorView
from simaccel.numbers import in_bytes
from simaccel.units import ARRAY, SFU
from simaccel.workload import Vector
from simaccel.workload.names import tensor_of
from simaccel.workload.vectors import VECTORS

Sizes = dict[str, Ints]


def is_kept(entry: object) -> TypeGuard[Keep[Ints]]:
    """Return whether an entry of a path is a keep in the buffer."""
    return isinstance(entry, Keep) and entry.level == BUFFER


@dataclass
class BlockFills:
    """Least cycles before, between and after the blocks of each candidate of a family.

    The array fills before a block whose operands another unit makes, and drains before one that
    takes its results; blocks that follow one another hide both.
    """

    units: UnitCosts
    """The costs of its blocks."""
    known_fills: dict[frozenset[str] | None, Ints] = field(default_factory=dict)
    """`fill_cycles` by the tensors that are loaded."""

    def fill_cycles(self, late: Collection[str] | None = None) -> Ints:
        """Return the cycles before the first command, whose inputs are loaded and enter the unit.

        It holds for any order of these loads. ``late``: the tensors that are loaded now, if others
        may be on chip already.
        """
        loaded = None if late is None else frozenset(late)
        if loaded in self.known_fills:
            return self.known_fills[loaded]
        path = self.units.family.paths[0]
        cuts = self.units.cuts(path)
        inputs = self.units.family.space.bound_operator(path.leaf.operator).uses[:-1]
        lead, held, more = self._entering(path, cuts, _first_sizes(self._sizes, path))
        known: dict[str, Ints] = {}
        cycles = ZERO
        for position, (use, view) in enumerate(inputs):
            is_late = late is None or tensor_of(use) in late
            if use in self.units.family.space.made or not is_late:
                continue
            for at, entry in path.kept.get(use, [])[:1]:
                accelerator = self.units.accelerator
                served = self._tile_cycles(view, cuts.full[at]) * (entry.slots > 0)
                name, spec = accelerator.memory(view.kind), accelerator.backing(view.kind).dram
                once = use not in dict(inputs[:position])  # X + X needs one tile
                latency = spec.latency_cycles + accelerator.cores.latency_cycles(0)
                known[name] = known.get(name, ints(latency)) + served * once
                cycles = maximum(cycles, latency + served + lead + (held == position) * more)
        for arrival in known.values():
            cycles = maximum(cycles, arrival + lead)
        self.known_fills[loaded] = ints(cycles)
        return self.known_fills[loaded]

    def _tile_cycles(self, view: TensorView, sizes: Sizes, *, write: bool = False) -> Ints:
        """Return the cycles of a memory's first channel for a tile."""
        sides = (extent(dim, sizes) for dim in self.units.family.space.dims(view))
        backing = self.units.accelerator.backing(view.kind)
        rate = backing.channel_rate if write else backing.channel_read_rate
        n_bytes = in_bytes(math.prod(sides, start=ONE), view.bits)
        return ints(rate.cycles(backing.dram.channel_bytes(n_bytes, 0)))

    @cached_property
    def _sizes(self) -> Sizes:
        return {rank: ints(size) for rank, size in self.units.family.space.sizes.items()}

    def _entering(self, path: TreePath, cuts: PathCuts, sizes: Sizes) -> tuple[Ints, Ints, Ints]:
        """Return the cycles from an operand's arrival to the folds of its block.

        Those of every operand, then the number of the stationary one and how many more it takes.
        """
        if path.leaf.unit != ARRAY:
            return ZERO, ints(-1), ZERO
        edges = self.units.edges(path, cuts, sizes)
        return ints(self.units.accelerator.lead_latency_cycles), edges["held"], edges["lead"]

    @cached_property
    def drain_cycles(self) -> Ints:
        """The cycles after the last command of the array (without one, of the SFU).

        Its results leave and are stored to memory.
        """
        *_, path = paths = self.units.family.paths
        is_after = path.leaf.unit == ARRAY or all(other.leaf.unit == SFU for other in paths)
        return self.drain_after(path) if is_after else ZERO

    def drain_after(self, path: TreePath) -> Ints:
        """Return the cycles after the last command of a path until its results are stored."""
        output = self.units.family.space.bound_operator(path.leaf.operator).output
        if output.name not in self.units.family.space.escapes:
            return ZERO
        every, tile = self._sizes, self.units.family.aliases.get(output.name, output.name)
        cuts = self.units.cuts(path)
        parts = (at for at, entry in path.cutting if not isinstance(entry, FamilyLoops))
        whole = next(parts, len(path.entries))  # the last of what parts keep is not in one piece
        for at, entry in path.kept.get(tile, ()):
            if at < whole and is_kept(entry):
                sizes = _last_sizes(every, path, upto=at)
                service = self._tile_cycles(output, sizes, write=True) * (entry.slots > 0)
                return ints(service + self._leaving(path, cuts, every))
        return ZERO

    def leaving_cycles(self, path: TreePath) -> Ints:
        """Return the cycles between a path's last block and its last result in the buffer."""
        return self._leaving(path, self.units.cuts(path), self._sizes)

    def block_cycles(self, path: TreePath, *, last: bool = True) -> Ints | None:
        """Return the cycles of a path's last block, or its first one, on its unit.

        None if they aren't known.
        """
        if any(not isinstance(entry, FamilyLoops) for _, entry in path.cutting):
            return None
        space = self.units.family.space
        op, cuts = space.bound_operator(path.leaf.operator), self.units.cuts(path)
        of_block = _last_sizes if last else _first_sizes
        sizes = self.units.widen_sizes(of_block(self._sizes, path))
        if path.leaf.unit == ARRAY:
            options = self.units.folds(path, cuts, sizes, accumulate=False)
            return select_figures(self.units.stationarity_index(path), options).by_name()["cycles"]
        if path.leaf.unit != SFU or not isinstance(op.operator, Vector):
            return None
        axis = space.cut_axis(op.name)
        pieces = piece_count(cuts.pieces(axis, len(cuts.entries))) if axis else ONE
        work = self.units.cost(VECTORS[op.operator.kind].steps["whole"])
        cycles = self.units.sfu_cycles(op, work, sizes)
        return ints(cycles * (pieces == 1))

    def interval_cycles(
        self,
        before: TreePath,
        behind: TreePath,
        name: str,
        inside: int,
        visits: PathCuts | None = None,
    ) -> Ints:
        """Return the total cycles of draining before, and filling after, a vector operator.

        Results of ``before`` leave, and tensor ``name`` enters for ``behind``; entries of both
        paths from ``inside`` on are not shared. Behind an online operator it enters while sums are
        rescaled. ``visits``: the cuts that count the times, if not all of ``before``.
        """
        space, total = self.units.family.space, ZERO
        used = space.bound_operator(behind.leaf.operator)
        number = [view.name for view in used.inputs].index(name)
        out, come = visits or self.units.cuts(before), self.units.cuts(behind)
        whole = ONE
        for axis in filter(None, map(space.cut_axis, space.axes)):
            whole = whole * (come.full[inside][axis] == space.sizes[axis])
        for count, sizes in blocks_of(out, tuple(space.sizes), upto=inside):
            leaving = self._leaving(before, out, sizes, inside)
            lead, held, more = self._entering(behind, come, _first_sizes(sizes, behind, inside))
            total = total + count * (leaving + whole * (lead + (held == number) * more))
        return total

    def _leaving(self, path: TreePath, cuts: PathCuts, sizes: Sizes, inside: int = 0) -> Ints:
        """Return the cycles from the end of the last block to its last result in the buffer."""
        if path.leaf.unit != ARRAY:
            return ZERO
        last = _last_sizes(sizes, path, inside)
        latency = self.units.accelerator.tail_latency_cycles
        return ints(self.units.edges(path, cuts, last)["tail"] + latency)


def _first_sizes(sizes: Sizes, path: TreePath, inside: int = 0) -> Sizes:
    """Return the sizes of the first block inside the loops of a path, from entry ``inside`` on."""
    found = dict(sizes)
    for at, entry in path.cutting:
        if isinstance(entry, FamilyLoops) and at >= inside:
            for rank, tile in zip(entry.ranks, entry.tiles, strict=True):
                found[rank] = minimum(tile, found[rank])
    return found


def _last_sizes(sizes: Sizes, path: TreePath, inside: int = 0, upto: int | None = None) -> Sizes:
    """Return the sizes of the last block inside the loops of a path, of entries before ``upto``."""
    found = dict(sizes)
    for at, entry in path.cutting:
        if isinstance(entry, FamilyLoops) and at >= inside and (upto is None or at < upto):
            for rank, tile in zip(entry.ranks, entry.tiles, strict=True):
                piece = maximum(minimum(tile, found[rank]), 1)
                found[rank] = ints(found[rank] - (-(-found[rank] // piece) - 1) * piece)
    return found
