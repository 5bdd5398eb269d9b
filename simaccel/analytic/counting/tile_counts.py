"""Exact bytes that tiles move, and the memory that they take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from simaccel.analytic.counting.transfers import TileTransfer
from simaccel.analytic.family import (
    FALSE,
    ONE,
    TRUE,
    Bools,
    Family,
    FamilyLoops,
    Ints,
    TreePath,
    any_true,
    choose,
    ints,
    minimum,
)
from simaccel.analytic.family_counts import FamilyCounts
from simaccel.analytic.pieces import PLACES, PathCuts, begins_sums, extent
from simaccel.analytic.widths import BitWidths
from simaccel.hardware.memory import way_outside
from simaccel.mapping.space import BoundOperator, holding_tensor
from simaccel.mapping.tree import BUFFER, DRAM, PE, Keep, Spread
from simaccel.mapping.view import TensorView, pe_memory
from simaccel.numbers import in_bytes
from simaccel.units import MAC
from simaccel.workload.names import sums_name, tensor_of


class _Source(NamedTuple):
    """The memory that a tile comes from: its entry of the path (-1: outside of the group)."""

    at: int
    level: str
    served: Bools
    """The candidates whose tile comes from it."""


class _KeptTile(NamedTuple):
    """A tile that a keep, entry ``at`` of the path, holds in a memory (``place``)."""

    cuts: PathCuts
    view: TensorView
    kept: Keep[Ints]
    at: int
    place: str
    sources: tuple[_Source, ...]
    remade_by: frozenset[str]
    """Ranks that its maker lacks: each iteration of their loops computes it again."""


_NONE: frozenset[str] = frozenset()


@dataclass
class TileCounter:
    """A counter of the transfers and memory of tiles, and of the accesses of MACs."""

    family: Family
    widths: BitWidths
    counts: FamilyCounts
    multicasts: bool = False
    """Whether data for several PEs are sent once."""
    room: bool = True
    """Whether the memory that tiles take is counted."""
    known: set[tuple[object, ...]] = field(default_factory=set)
    """Keys of the tiles that are counted."""
    transfers: dict[object, TileTransfer] = field(default_factory=dict)
    step_cuts: dict[TreePath, PathCuts] = field(default_factory=dict)
    """Cuts down to the steps of PEs, by the path itself: a deleted path's id may be reused."""

    def count_operand(
        self, path: TreePath, cuts: PathCuts, op: BoundOperator, position: int
    ) -> None:
        """Count the tiles of an operand of the path's leaf, outermost first."""
        use, view = op.uses[position]
        name = self.family.aliases.get(use, use)
        outside: list[tuple[int, Bools]] = []
        for at, entry in path.kept.get(name, ()):
            if not any_true(entry.slots):
                continue
            place = BUFFER if entry.level == BUFFER else f"{PE}.{pe_memory(position, len(op.uses))}"
            maker = self.family.space.made.get(name)
            if place != BUFFER and maker != op.name:
                maker = None
            made_view = self.family.space.bound_operator(maker).output if maker else view
            remade_by = self._lacked_ranks(maker) if maker else _NONE
            inside = self._transfer(cuts, made_view, at, at, remade_by, anew=entry.anew)
            key = entry.tensor, place, "" if place == BUFFER else op.name, *_movers(path, inside)
            if key not in self.known:
                self.known.add(key)
                level = DRAM if place == BUFFER else self._source_level(name)
                sources = self._sources(path, outside, entry.slots > 0, level)
                tile = _KeptTile(cuts, made_view, entry, at, place, sources, remade_by)
                self._count_tile(path, tile, maker, inside)
            outside.append((at, entry.slots > 0))
        if path.leaf.unit == MAC:
            sources = self._sources(path, outside, TRUE, self._source_level(name))
            self._count_accesses(path, op, position, sources)

    def _lacked_ranks(self, maker: str) -> frozenset[str]:
        """Return the ranks that an operator lacks; loops over them run it again."""
        space = self.family.space
        return frozenset(space.sizes).difference(
            space.plain_ranks(space.bound_operator(maker).ranks)
        )

    def _source_level(self, name: str) -> str:
        """Return the source of a tensor that the group does not keep: DRAM, or a keep around it."""
        around = self.family.around
        held = holding_tensor(self.family.space.workload, tensor_of(name), around)
        return BUFFER if any(keep.tensor == held for keep in around) else DRAM

    @staticmethod
    def _sources(
        path: TreePath,
        outside: list[tuple[int, Bools]],
        candidates: Bools,
        outer_level: str,
    ) -> tuple[_Source, ...]:
        """Return the sources of a tile: the next keep outside, or ``outer_level`` without one."""
        sources = []
        for at, keeps in reversed(outside):
            if any_true(served := candidates & keeps):
                entry = path.entries[at]
                buffered = isinstance(entry, Keep) and entry.level == BUFFER
                sources.append(_Source(at, BUFFER if buffered else PE, served))
            candidates = candidates & (keeps == 0)
        if any_true(candidates):
            sources.append(_Source(-1, outer_level, candidates))
        return tuple(sources)

    def _transfer(
        self,
        cuts: PathCuts,
        view: TensorView,
        child: int,
        outside: int,
        remade_by: frozenset[str] = _NONE,
        *,
        anew: bool = False,
    ) -> TileTransfer:
        """Return the transfer from entry ``outside`` to entry ``child``, cached."""
        fans = (at for at, cut in cuts.cutting if outside < at < child and isinstance(cut, Spread))
        shared = next(fans, child)
        key = (id(cuts), id(view), child, shared, remade_by, anew)
        if key not in self.transfers:
            self.transfers[key] = TileTransfer(
                cuts=cuts, view=view, child=child, shared=shared, remaking=remade_by, anew=anew
            )
        return self.transfers[key]

    def _count_tile(
        self, path: TreePath, tile: _KeptTile, maker: str | None, inside: TileTransfer
    ) -> None:
        """Count a tile; ``inside``: what its own memory receives."""
        name, on, anew = tile.kept.tensor, tile.kept.slots > 0, tile.kept.anew
        has_own_axis = own_axis(self.family, path, tile.cuts, tile.at)
        tile_width = self.widths.tile_width(name, tile.view)
        space, own = self.family.space, (tile.view,) if maker else ()
        stored = space.stored_views(name, self.family.aliases) if tile.place == BUFFER else own
        width, times, last = tile_width, ints(1 + has_own_axis), None
        if maker is not None:  # its sums return if a loop reduces into them, the last one at
            reduced = self.family.space.bound_operator(maker).reduced
            last = tile.cuts.innermost_loop(reduced, inside.position, tile.at)
            times = ints(last >= 0)
        elif tile.place == BUFFER:
            width = self.widths.width(name)
        if any_true(times):
            arriving = self._inward_bytes(inside, maker, width)
            inner = arriving * (on * times)
            for source in tile.sources:
                transfer = self._transfer(
                    tile.cuts, tile.view, tile.at, source.at, tile.remade_by, anew=anew
                )
                is_same = transfer is inside  # no fan-out is between them
                outer = arriving if is_same else self._inward_bytes(transfer, maker, width)
                outer = outer * (source.served * times)
                self._move_down(tile, source.level, outer, inner * source.served)
            self.counts.move(f"{tile.place}_write", tile.view.name, inner)
        for view in stored:
            width = view.bits if tile.place == BUFFER else tile_width
            leaving, _ = inside.sums(width)
            for source in tile.sources:
                transfer = self._transfer(tile.cuts, tile.view, tile.at, source.at, tile.remade_by)
                outer = leaving if transfer is inside else transfer.sums(width)[0]
                outer = outer * source.served
                self._move(source.level, "write", view.name, outer)
                if tile.place != BUFFER:
                    self.counts.move("noc_collection", view.name, outer)
            self.counts.move(f"{tile.place}_read", view.name, leaving * on)
        self._hold(tile, inside, last, stored, has_own_axis, tile_width)

    @staticmethod
    def _inward_bytes(transfer: TileTransfer, maker: str | None, bits: int) -> Ints:
        """Return the bytes that move inwards; partial sums do so unless they start at zero."""
        if maker is None:
            return transfer.n_bytes(bits)
        total, first = transfer.sums(bits)
        return total - first

    def _move(self, place: str, direction: str, name: str, n_bytes: Ints) -> None:
        """Count bytes from or to a place; DRAM stands for the memory that the tensor is in."""
        level = f"{place}_{direction}"
        if place == DRAM:
            tensor = self.family.space.workload.tensors.get(tensor_of(name))
            level = way_outside(direction, tensor.lives if tensor is not None else "")
        self.counts.move(level, name, n_bytes)

    def _move_down(self, tile: _KeptTile, level: str, outer: Ints, inner: Ints) -> None:
        """Count the bytes read at the source (``outer``) and those that arrive (``inner``)."""
        self._move(level, "read", tile.view.name, outer)
        if tile.place != BUFFER:
            sent = outer if self.multicasts else inner
            self.counts.move("noc_distribution", tile.view.name, sent)

    def _hold(
        self,
        tile: _KeptTile,
        inside: TileTransfer,
        last: Ints | None,
        stored: Sequence[TensorView],
        has_own_axis: Bools,
        width: int,
    ) -> None:
        """Reserve a tile's slots; ``last``: the position of the loop that reduces into its sums."""
        if not self.room:
            return
        name, on = tile.kept.tensor, tile.kept.slots > 0
        sizes = tile.cuts.full[tile.at]
        elements = math.prod((extent(dim, sizes) for dim in inside.dims), start=ONE)
        n_bytes = on * in_bytes(elements, width)
        slots = tile.kept.slots
        if any_true(slots > 1):
            slots = choose(inside.position < 0, minimum(slots, 1), slots)
        if last is not None:
            spills = ints(last >= 0)
            if any_true(spills):
                slots = tile.cuts.slots_of_sums(slots, inside.ranks, last, tile.at)
                if tile.place == BUFFER:
                    room = n_bytes * spills, slots * spills
                    self.counts.hold(tile.place, sums_name(name), *room, tile.view.kind)
                    n_bytes, slots = n_bytes * (1 - spills), slots * (1 - spills)
        self.counts.hold(tile.place, name, n_bytes, slots, tile.view.kind)
        if any_true(has_own_axis):
            for view in stored:
                own_axis_tiles = ints(n_bytes * has_own_axis), ints(slots * has_own_axis)
                self.counts.hold(tile.place, view.name, *own_axis_tiles, tile.view.kind)

    def _count_accesses(
        self, path: TreePath, op: BoundOperator, position: int, sources: tuple[_Source, ...]
    ) -> None:
        """Count the accesses of MACs to the innermost memory of an operand."""
        if path not in self.step_cuts:
            self.step_cuts[path] = PathCuts(self.family.space, _cut_into_steps(path, op.ranks))
        cuts = self.step_cuts[path]
        view, end = op.uses[position][1], len(cuts.entries)
        name = self.widths.names(path, op)[position]
        width = self.widths.widths(path, op)[position]
        is_input, remade_by = position < len(op.inputs), self._lacked_ranks(op.name)
        begins = 0 if is_input else begins_sums(cuts, op)
        spreads = ((n, e.level) for n, e in enumerate(cuts.entries) if isinstance(e, Spread))
        last_side = max((n for n, level in spreads if level in ("rows", "cols")), default=-1)
        multicasts = self.multicasts
        for source in sources:
            in_pe = source.level == PE
            place = f"{PE}.{pe_memory(position, len(op.uses))}" if in_pe else source.level
            from_source = self._transfer(cuts, view, end, source.at, remade_by)
            from_sides = self._transfer(cuts, view, end, last_side, remade_by)
            if is_input:
                outer = down = from_source.n_bytes(width) * source.served
                if not (in_pe or multicasts):
                    down = from_sides.n_bytes(width) * source.served
                self._move(place, "read", name, outer)
            else:
                total, first = (n * source.served for n in from_source.sums(width))
                down = total - first * begins
                self._move(place, "write", name, total)
                self._move(place, "read", name, down)
                if not (in_pe or multicasts):
                    total_inside, first_inside = from_sides.sums(width)
                    down = (total_inside - first_inside * begins) * source.served
                if not in_pe:
                    self.counts.move("noc_collection", name, total)
            if not in_pe:
                self.counts.move("noc_distribution", name, down)


def _cut_into_steps(path: TreePath, sizes: Iterable[str]) -> TreePath:
    """Return a path with its block cut into the steps of PEs; lanes share a step."""
    laned = {
        entry.rank
        for entry in path.entries
        if isinstance(entry, Spread) and entry.level in ("vectors", "lanes")
    }
    ranks = tuple(rank for rank in sizes if rank not in laned)
    places = tuple(ints(at) for at in range(len(ranks)))
    return TreePath((*path.entries, FamilyLoops(ranks, (ONE,) * len(ranks), places)), path.leaf)


def _movers(path: TreePath, inside: TileTransfer) -> Iterator[int]:
    """Yield the identities of entries down to the innermost that moves a tile.

    Keeps of a tensor in several branches are one tile if no loop inside moves it.
    """
    position, ranks = inside.position, inside.movers
    last = int(position.max()) if isinstance(position, np.ndarray) else position
    innermost = last // PLACES
    for number, rank in inside.cuts.parts:
        if number < inside.child and rank in ranks:
            innermost = max(innermost, number)
    yield from map(id, path.entries[: innermost + 1])


def own_axis(family: Family, path: TreePath, cuts: PathCuts, upto: int) -> Bools:
    """Return whether loops of the leaf's own branch, before entry ``upto``, cut its axis."""
    axis = family.space.cut_axis(path.leaf.operator)
    if axis is None:
        return FALSE
    own_places = [place for (at, rank), place in cuts.places.items() if rank == axis and at < upto]
    cutting = [at for (at, rank) in cuts.places if rank == axis]
    if not own_places or shared_entries(family, path) > min(cutting):
        return FALSE
    return reduce(or_, (place >= 0 for place in own_places))


def shared_entries(family: Family, path: TreePath) -> int:
    """Return the number of leading entries of a path that other leaves share."""
    most = 0
    for other in family.paths:
        if other.leaf is path.leaf:
            continue
        same = 0
        for entry, other_entry in zip(path.entries, other.entries, strict=False):
            if entry is not other_entry:
                break
            same += 1
        most = max(most, same)
    return most
