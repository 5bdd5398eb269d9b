"""Exact bytes that tiles move, and the memory that they take."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from simaccel.analytic.counting.transfers import TileTransfer
from simaccel.analytic.family import (
    FALSE,
    TRUE,
    Bools,
    Family,
    FamilyCut,
    FamilyLoops,
    Ints,
    TreePath,
    ints,
)
from simaccel.analytic.family_counts import FamilyCounts, port_of
from simaccel.analytic.pieces import PLACES, PathCuts, begins_sums, expand_view, extent
from simaccel.analytic.pointwise import any_true, choose, minimum
from simaccel.analytic.widths import BitWidths
from simaccel.hardware.memory import way_outside
from simaccel.mapping.space import BoundOperator, IterationSpace, holding_tensor
from simaccel.mapping.tree import BUFFER, DRAM, PE, Keep, Spread
from simaccel.mapping.view import TensorView
from simaccel.numbers import in_bytes
from simaccel.units import MAC
from simaccel.workload.names import sums_name, tensor_of


@dataclass(frozen=True)
class _Way:
    """The source of a tile for some candidates: its entry (-1: outside of the group) and place."""

    at: int
    far: str
    served: Bools


@dataclass(frozen=True)
class _Side:
    """A tile on its path, and the memories that it comes from."""

    cuts: PathCuts
    view: TensorView
    kept: Keep[Ints]
    at: int
    place: str
    ways: tuple[_Way, ...]
    again: frozenset[str]
    """Ranks that its maker lacks: loops over them make it again."""


_NONE: frozenset[str] = frozenset()


@dataclass
class TileCounter:
    """A counter of the transfers and memory of tiles, and of the accesses of MACs."""

    family: Family
    widths: BitWidths
    found: FamilyCounts
    multicasts: bool = False
    """Whether data for several PEs are sent once."""
    known: set[tuple[object, ...]] = field(default_factory=set)
    transfers: dict[object, TileTransfer] = field(default_factory=dict)
    stepped: dict[TreePath, PathCuts] = field(default_factory=dict)
    """By the path itself, as the identity of a deleted path may be reused."""

    @property
    def space(self) -> IterationSpace:
        """The ranks of the group."""
        return self.family.space

    def operand(self, path: TreePath, cuts: PathCuts, seen: BoundOperator, position: int) -> None:
        """Count the tiles of an operand, outermost first."""
        use, view = seen.uses[position]
        name = self.family.aliases.get(use, use)
        outside: list[tuple[int, Bools]] = []
        for at, entry in enumerate(path.entries):
            if not isinstance(entry, Keep) or entry.tensor != name or not any_true(entry.slots):
                continue
            place = BUFFER if entry.level == BUFFER else f"{PE}.{port_of(seen, position)}"
            made = self.space.made.get(name)
            if place != BUFFER and made != seen.name:
                made = None
            own = self.space.bound_operator(made).output if made else view
            key = self._home(path, cuts, own, at, place, seen)
            if key not in self.known:
                self.known.add(key)
                far = DRAM if place == BUFFER else self._source_level(name)
                ways = self._ways(path, outside, entry.slots > 0, far)
                again = self._lacked_ranks(made) if made else _NONE
                self._tile(path, _Side(cuts, own, entry, at, place, ways, again), made)
            outside.append((at, entry.slots > 0))
        if path.leaf.unit == MAC:
            ways = self._ways(path, outside, TRUE, self._source_level(name))
            self._accesses(path, seen, position, ways)

    def _home(
        self,
        path: TreePath,
        cuts: PathCuts,
        view: TensorView,
        at: int,
        place: str,
        seen: BoundOperator,
    ) -> tuple[object, ...]:
        """Return the key of a tile: its tensor, and the loop that moves it.

        Keeps of a tensor in several branches are one tile if no loop inside moves it.
        """
        entry = path.entries[at]
        ranks = frozenset(rank for dim in expand_view(self.space, view) for rank, _ in dim)
        if isinstance(entry, Keep) and entry.anew:
            ranks = frozenset(self.space.sizes)
        inside = int(cuts.position(ranks, at).max()) // PLACES
        for number, entry in enumerate(path.entries[:at]):
            if isinstance(entry, FamilyCut) and entry.rank in ranks:
                inside = max(inside, number)
        outside = tuple(id(entry) for entry in path.entries[: inside + 1])
        user = "" if place == BUFFER else seen.name
        return (path.entries[at].tensor, place, user, *outside)  # type: ignore[union-attr]

    def _lacked_ranks(self, maker: str) -> frozenset[str]:
        """Return the ranks that an operator lacks; loops over them run it again."""
        derived, mine = self.space.derived, self.space.bound_operator(maker).ranks
        own = {one for rank in mine for one, _ in derived.get(rank, ((rank, 1),))}
        return frozenset(self.space.sizes) - own

    def _source_level(self, name: str) -> str:
        """Return the level of a tensor that the group does not keep: memory, or a keep around."""
        around = self.family.around
        held = holding_tensor(self.space.workload, tensor_of(name), around)
        return BUFFER if any(keep.tensor == held for keep in around) else DRAM

    @staticmethod
    def _ways(
        path: TreePath, outside: list[tuple[int, Bools]], bools: Bools, beyond: str
    ) -> tuple[_Way, ...]:
        """Return the sources of a tile: for each candidate the next keep outside."""
        ways = []
        for at, keeps in reversed(outside):
            if any_true(served := bools & keeps):
                entry = path.entries[at]
                buffered = isinstance(entry, Keep) and entry.level == BUFFER
                ways.append(_Way(at, BUFFER if buffered else PE, served))
            bools = bools & ~keeps
        if any_true(bools):
            ways.append(_Way(-1, beyond, bools))
        return tuple(ways)

    def _transfer(
        self,
        cuts: PathCuts,
        view: TensorView,
        child: int,
        outside: int,
        again: frozenset[str] = _NONE,
        *,
        anew: bool = False,
    ) -> TileTransfer:
        """Return the transfer from an outer entry to an inner one; cached by what it depends on."""
        fans = (n for n in range(outside + 1, child) if isinstance(cuts.entries[n], Spread))
        shared = next(fans, child)
        key = (id(cuts), id(view), child, shared, again, anew)
        if key not in self.transfers:
            self.transfers[key] = TileTransfer(
                cuts=cuts, view=view, child=child, shared=shared, again=again, anew=anew
            )
        return self.transfers[key]

    def _tile(self, path: TreePath, side: _Side, made: str | None) -> None:
        name, on = side.kept.tensor, side.kept.slots > 0
        anew = side.kept.anew
        inside = self._transfer(side.cuts, side.view, side.at, side.at, side.again, anew=anew)
        doubled = own_axis(self.family, path, side.cuts, side.at)
        tile_width = self.widths.tile_width(name, side.view)
        stored = self._stored_views(name) if side.place == BUFFER else [side.view] if made else []
        width, times = tile_width, ints(1 + doubled)
        if made is not None:
            times = ints(self._last_reduction(side, inside, made) >= 0)
        elif side.place == BUFFER:
            width = self.widths.width(name)
        if any_true(times):
            inner = self._coming(inside, made, width) * (on * times)
            for way in side.ways:
                transfer = self._transfer(
                    side.cuts, side.view, side.at, way.at, side.again, anew=anew
                )
                outer = self._coming(transfer, made, width) * (way.served * times)
                self._move_down(side, way.far, outer, inner * way.served)
            self.found.move(f"{side.place}_write", side.view.name, inner)
        for view in stored:
            width = view.bits if side.place == BUFFER else tile_width
            for way in side.ways:
                transfer = self._transfer(side.cuts, side.view, side.at, way.at, side.again)
                outer = transfer.sums(width)[0] * way.served
                self._move(way.far, "write", view.name, outer)
                if side.place != BUFFER:
                    self.found.move("noc_collection", view.name, outer)
            self.found.move(f"{side.place}_read", view.name, inside.sums(width)[0] * on)
        self._hold(side, inside, made, stored, doubled)

    @staticmethod
    def _coming(one: TileTransfer, made: str | None, bits: int) -> Ints:
        """Return the bytes that move inwards: of sums those that come back."""
        if made is None:
            return one.n_bytes(bits)
        every, first = one.sums(bits)
        return every - first

    def _move(self, place: str, way: str, name: str, n_bytes: Ints) -> None:
        """Count bytes from or to a place; outside of the group that is the tensor's memory."""
        level = f"{place}_{way}"
        if place == DRAM:
            tensor = self.space.workload.tensors.get(tensor_of(name))
            level = way_outside(way, tensor.lives if tensor is not None else "")
        self.found.move(level, name, n_bytes)

    def _move_down(self, side: _Side, far: str, outer: Ints, inner: Ints) -> None:
        self._move(far, "read", side.view.name, outer)
        if side.place != BUFFER:
            multicasts = self.multicasts
            self.found.move("noc_distribution", side.view.name, outer if multicasts else inner)

    def _stored_views(self, name: str) -> list[TensorView]:
        """Return the tensors that are stored from a tile: made in it and needed elsewhere."""
        made = [name, *self.widths.in_place(name)]
        views = (
            self.space.bound_operator(self.space.made[one]).output
            for one in made
            if one in self.space.made
        )
        return [view for view in views if view.name in self.space.escapes]

    def _last_reduction(self, side: _Side, inside: TileTransfer, made: str) -> Ints:
        """Return the position of the innermost loop that reduces into a tile's sums; or -1."""
        return side.cuts.innermost_loop(
            self.space.bound_operator(made).reduced, inside.position, side.at
        )

    def _hold(
        self,
        side: _Side,
        inside: TileTransfer,
        made: str | None,
        stored: list[TensorView],
        doubled: Bools,
    ) -> None:
        name, on = side.kept.tensor, side.kept.slots > 0
        width = self.widths.tile_width(name, side.view)
        dims = expand_view(self.space, side.view)
        sizes = side.cuts.full[side.at]
        elements = math.prod((extent(dim, sizes) for dim in dims), start=ints(1))
        n_bytes = on * in_bytes(elements, width)
        slots = side.kept.slots
        if any_true(slots > 1):
            slots = choose(inside.position < 0, minimum(slots, 1), slots)
        if made is not None:
            last = self._last_reduction(side, inside, made)
            spills = last >= 0
            if any_true(spills):
                slots = side.cuts.slots_of_sums(slots, inside.ranks, last, side.at)
                if side.place == BUFFER:
                    room = n_bytes * spills, slots * spills
                    self.found.hold(side.place, sums_name(name), *room, side.view.kind)
                    n_bytes, slots = n_bytes * ~spills, slots * ~spills
        self.found.hold(side.place, name, ints(n_bytes), ints(slots), side.view.kind)
        if any_true(doubled):
            for view in stored:
                again = ints(n_bytes * doubled), ints(slots * doubled)
                self.found.hold(side.place, view.name, *again, side.view.kind)

    def _accesses(
        self, path: TreePath, seen: BoundOperator, position: int, ways: tuple[_Way, ...]
    ) -> None:
        """Count the accesses of MACs to the innermost memory of an operand."""
        if path not in self.stepped:
            self.stepped[path] = PathCuts(self.space, _cut_into_steps(path, seen.ranks))
        cuts = self.stepped[path]
        view, end = seen.uses[position][1], len(cuts.entries)
        name, width = (
            self.widths.names(path, seen)[position],
            self.widths.widths(path, seen)[position],
        )
        is_input, again = position < len(seen.inputs), self._lacked_ranks(seen.name)
        begins = 0 if is_input else begins_sums(cuts, seen)
        behind = max((n for n, e in enumerate(cuts.entries) if _is_side(e)), default=-1)
        multicasts = self.multicasts
        for way in ways:
            in_pe = way.far == PE
            place = f"{PE}.{port_of(seen, position)}" if in_pe else way.far
            beyond = self._transfer(cuts, view, end, way.at, again)
            each = self._transfer(cuts, view, end, behind, again)
            if is_input:
                outer = down = beyond.n_bytes(width) * way.served
                if not (in_pe or multicasts):
                    down = each.n_bytes(width) * way.served
                self._move(place, "read", name, outer)
            else:
                every, first = (n * way.served for n in beyond.sums(width))
                down = every - first * begins
                self._move(place, "write", name, every)
                self._move(place, "read", name, down)
                if not (in_pe or multicasts):
                    every_inside, first_inside = each.sums(width)
                    down = (every_inside - first_inside * begins) * way.served
                if not in_pe:
                    self.found.move("noc_collection", name, every)
            if not in_pe:
                self.found.move("noc_distribution", name, down)


def _cut_into_steps(path: TreePath, sizes: Iterable[str]) -> TreePath:
    """Return a path with its block cut into the steps of PEs; lanes share a step."""
    laned = {
        entry.rank
        for entry in path.entries
        if isinstance(entry, Spread) and entry.level in ("vectors", "lanes")
    }
    ranks = tuple(rank for rank in sizes if rank not in laned)
    places = tuple(ints(at) for at in range(len(ranks)))
    return TreePath((*path.entries, FamilyLoops(ranks, (ints(1),) * len(ranks), places)), path.leaf)


def _is_side(entry: object) -> bool:
    return isinstance(entry, Spread) and entry.level in ("rows", "cols")


def own_axis(family: Family, path: TreePath, cuts: PathCuts, upto: int) -> Bools:
    """Return whether loops of the leaf's own branch, before entry ``upto``, cut its axis."""
    axis = family.space.cut_axis(path.leaf.operator)
    if axis is None:
        return FALSE
    mine = [place for (at, rank), place in cuts.places.items() if rank == axis and at < upto]
    cutting = [at for (at, rank) in cuts.places if rank == axis]
    if not mine or shared_entries(family, path) > min(cutting):
        return FALSE
    stacked = np.stack(np.broadcast_arrays(*[place >= 0 for place in mine]))
    return np.asarray(stacked.any(axis=0), dtype=np.bool_)


def shared_entries(family: Family, path: TreePath) -> int:
    """Return the number of leading entries of a path that other leaves share."""
    most = 0
    for other in family.paths():
        if other.leaf is path.leaf:
            continue
        same = 0
        for entry, two in zip(path.entries, other.entries, strict=False):
            if entry is not two:
                break
            same += 1
        most = max(most, same)
    return most
