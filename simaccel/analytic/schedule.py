"""The bodies of a family, in one order of loops: where tiles come and go, and what is done.

A tile belongs to the body of the innermost loop that moves it; which one that is may differ by
candidate, so each body says of its tiles for which candidates they are its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from simaccel.analytic.family import (
    Bools,
    Branch,
    Cut,
    Family,
    Fan,
    Forked,
    Ints,
    Kept,
    Loops,
    Parted,
    Path,
    ints,
)
from simaccel.analytic.pieces import PLACES, Cuts, Terms, expanded
from simaccel.analytic.pointwise import anywhere, everywhere, larger, pick, plain, smaller
from simaccel.mapping.space import Seen
from simaccel.mapping.tree import BUFFER, STREAM, Do
from simaccel.mapping.view import View
from simaccel.workload import Vector

FALSE: Bools = plain(np.zeros((), dtype=np.bool_))
TRUE: Bools = plain(np.ones((), dtype=np.bool_))
"""For all candidates: told apart by identity."""
RING: Final = 6
"""Slots that are told apart; more never wait."""


@dataclass(eq=False)
class Tiled:
    """A tile of a body; ``own``: candidates whose tile comes and goes in this body."""

    tensor: str
    view: View
    level: str
    slots: Ints
    queue: int
    maker: Seen | None
    stores: tuple[View, ...]
    own: Bools
    spills: Bools
    key: int
    """The same for all bodies in which the tile may live."""
    at: int
    """Its entry on the path."""
    dims: tuple[Terms, ...]
    """The dimensions of its view in ranks that loops cut."""
    path: Path
    outside: int | None = None
    """The key of the tile in the buffer that it comes from or goes to; None for DRAM."""
    slide: tuple[str, int] | None = None
    """Rank and coefficient along which the body's loop slides it."""

    def __post_init__(self) -> None:
        """Work out what doesn't change."""
        self.own = TRUE if everywhere(self.own) else plain(self.own)
        self.spills = plain(self.spills)
        self.may_spill = anywhere(self.spills)
        self.most = min(int(np.max(self.slots)), RING)
        numbers = sorted(set(np.minimum(np.ravel(self.slots), RING).tolist()) - {0})
        self.by_slots: list[tuple[int, Bools | None]] = [
            (n, None if len(numbers) == 1 else plain(smaller(self.slots, RING) == n))
            for n in numbers
        ]
        self.read = self.maker is None and self.outside is None
        """Whether it comes from a memory."""
        self.comes = self.read or (self.outside is None and self.may_spill)
        """Whether it comes from a memory, or sums in it come back."""
        self._more: dict[int, Bools] = {}
        self.ranks = tuple(dict.fromkeys(rank for dim in self.dims for rank, _ in dim))

    def more_than(self, n: int) -> Bools:
        """Return which candidates have more slots."""
        if n not in self._more:
            few = len(self.by_slots) == 1
            self._more[n] = self.most > n if few else plain(self.slots > n)
        return self._more[n]

    def having(self, where: Bools) -> Iterator[tuple[int, Bools]]:
        """Yield numbers of slots with the candidates of some that have so many."""
        for n, here in self.by_slots:
            yield n, where if here is None else where & here


@dataclass(eq=False)
class Work:
    """A leaf: an operator on the block that the loops leave."""

    seen: Seen
    do: Do
    path: Path
    keys: tuple[int | None, ...]
    """The tiles that it touches, the one that it makes last; None is kept around the group."""
    step: str = "whole"
    corrects: tuple[Work, ...] = ()
    """Einsums that sum up behind an online vector operator."""


@dataclass(eq=False)
class Bodies:
    """A loop's body (``rank`` is cut into ``tile``), a part's (``cut``), or the group's."""

    rank: str = ""
    tile: Ints = field(default_factory=lambda: ints(1))
    place: int = -1
    part: Cut | None = None
    tiles: list[Tiled] = field(default_factory=list)
    items: list[Bodies | Work] = field(default_factory=list)
    ahead: int = 0
    divides: list[tuple[Work, Work]] = field(default_factory=list)
    """(vector operator, einsum whose sums it divides after the loop)."""

    @cached_property
    def works(self) -> tuple[Work, ...]:
        """All leaves below."""
        found: list[Work] = []
        for item in self.items:
            found += item.works if isinstance(item, Bodies) else [item]
        return tuple(found)

    @cached_property
    def _last(self) -> dict[int, Bodies | Work]:
        """The last item that uses a tile, by its key, of tiles that come and only are read."""
        used: dict[int, Bodies | Work] = {}
        for item in self.items:
            for work in item.works if isinstance(item, Bodies) else (item,):
                used |= {key: item for key in work.keys if key is not None}
        read = {one.key for one in self.tiles if one.maker is None and not one.stores}
        return {key: item for key, item in used.items() if key in read}

    def used_last(self, item: Bodies | Work) -> list[Tiled]:
        """Return the tiles that nothing behind an item uses."""
        return [tiled for tiled in self.tiles if self._last.get(tiled.key) is item]

    def let_go_early(self, tiled: Tiled) -> bool:
        """Return whether a tile is not used by the last item any more."""
        return self._last.get(tiled.key, self.items[-1]) is not self.items[-1]

    @cached_property
    def own_slots(self) -> Ints:
        """The most slots of a tile of its own that comes from a memory, at least 1."""
        found = ints(1)
        for tiled in self.tiles:
            if tiled.comes:
                found = larger(found, pick(tiled.own, smaller(tiled.slots, RING), 1))
        return plain(found)

    @cached_property
    def most_slots(self) -> Ints:
        """The most slots of any tile below that comes from a memory, by candidate."""
        found = self.own_slots
        for item in self.items:
            if isinstance(item, Bodies):
                found = larger(found, item.most_slots)
        return found

    @cached_property
    def queues(self) -> frozenset[int]:
        """The queues of all tiles below."""
        below = (item.queues for item in self.items if isinstance(item, Bodies))
        return frozenset(one.queue for one in self.tiles).union(*below)

    @cached_property
    def shares(self) -> bool:
        """Whether several items have tiles of one queue, which come item after item."""
        every = [item.queues for item in self.items if isinstance(item, Bodies)]
        return sum(map(len, every)) > len(frozenset().union(*every))

    def behind(self, item: Bodies | None, queue: int) -> Bodies | None:
        """Return the next item with tiles of a queue, or the first behind none."""
        every = [one for one in self.items if isinstance(one, Bodies) and queue in one.queues]
        at = 0 if item is None else every.index(item) + 1
        return every[at] if at < len(every) else None

    @property
    def slides(self) -> bool:
        """Whether its iterations slide a window."""
        return any(tiled.slide is not None for tiled in self.tiles)

    @cached_property
    def adders(self) -> frozenset[str]:
        """Operators below that sum over the loop's rank."""
        rank = self.part.rank if self.part else self.rank
        return frozenset(work.seen.name for work in self.works if rank in work.seen.reduced)


def bodies(family: Family) -> Bodies:
    """Return the bodies of a family whose loops all have one order."""
    return _Builder(family).build(family.branch)


class _Builder:
    def __init__(self, family: Family) -> None:
        space = family.space
        self.space, self.aliases, self.escapes = space, family.aliases, space.escapes
        self.around = {keep.tensor for keep in family.around}
        self.streams: list[Kept] = []
        self.same: dict[int, int] = {}
        """Keeps in several branches that are one tile: the key of the first."""
        self.known: set[tuple[int, int]] = set()
        read = [name for seen in space.operators for name in seen.names]
        made = [seen.output.name for seen in space.operators]
        names = dict.fromkeys([*(name for name in read if name not in made), *made])
        self.queues = {name: at for at, name in enumerate(names)}

    def build(self, branch: Branch) -> Bodies:
        top = Bodies()
        self._walk(branch, (), [(top, -1)])
        self._vectors(top, [])
        return top

    def _walk(
        self, branch: Branch, entries: tuple[object, ...], around: list[tuple[Bodies, int]]
    ) -> None:
        for node in branch:
            if isinstance(node, Do):
                self._leaf(node, Path(entries, node), around)  # type: ignore[arg-type]
            elif isinstance(node, Forked | Parted):
                body = around[-1][0]
                for number, inner in enumerate(node.branches):
                    if isinstance(node, Forked) and number == node.ahead and node.ahead:
                        body.ahead = len(body.items)
                    self._walk(inner, entries, list(around))
            else:
                entries = (*entries, node)
                self._around(node, entries, around)

    def _around(
        self, node: object, entries: tuple[object, ...], around: list[tuple[Bodies, int]]
    ) -> None:
        """Enter the bodies of the loops of a node, if it has some outside of the lanes."""
        at = len(entries) - 1
        fanned = any(isinstance(one, Fan) for one in entries)
        if isinstance(node, Loops) and not fanned:
            real = Cuts(self.space, Path(entries, None)).places  # type: ignore[arg-type]
            for rank, tile, place in _ordered(node):
                if (at, rank) in real:
                    body = Bodies(rank=rank, tile=tile, place=at * PLACES + place)
                    self._enter(body, at, around)
        elif isinstance(node, Cut):
            self._enter(Bodies(part=node), at, around)

    @staticmethod
    def _enter(body: Bodies, at: int, around: list[tuple[Bodies, int]]) -> None:
        around[-1][0].items.append(body)
        around.append((body, at))

    def _leaf(self, do: Do, path: Path, around: list[tuple[Bodies, int]]) -> None:
        seen = self.space.seen(do.operator)
        cuts = Cuts(self.space, path)
        keys: list[int | None] = []
        for use, view in seen.uses:
            name, key = self.aliases.get(use, use), None
            for at, entry in enumerate(path.entries):
                if isinstance(entry, Kept) and entry.tensor == name:
                    self._tile(entry, at, view, cuts, path, around, seen, outside=key)
                    key = self.same.get(id(entry), id(entry))
            if key is None and do.unit == "mac" and name not in self.around:
                stream = Kept(name, STREAM, ints(2))
                fans = (n for n, one in enumerate(path.entries) if isinstance(one, Fan))
                at = next(fans, len(path.entries))
                self.streams.append(stream)
                self._tile(stream, at, view, cuts, path, around, seen, outside=None)
                key = id(stream)
            keys.append(key)
        around[-1][0].items.append(Work(seen, do, path, tuple(keys)))

    def _tile(
        self,
        kept: Kept,
        at: int,
        view: View,
        cuts: Cuts,
        path: Path,
        around: list[tuple[Bodies, int]],
        seen: Seen,
        *,
        outside: int | None,
    ) -> None:
        maker = self.space.made.get(kept.tensor)
        if kept.level != BUFFER and maker != seen.name:
            maker = None
        own = self.space.seen(maker) if maker else None
        view = own.output if own else view
        dims = expanded(self.space, view)
        ranks = frozenset(rank for dim in dims for rank, _ in dim)
        moving = frozenset(self.space.sizes) if kept.level == STREAM else ranks
        position = cuts.position(moving, at)
        parts = [n for n, (body, _) in enumerate(around) if body.part and body.part.rank in ranks]
        base = max(parts, default=0)
        last = cuts.last_of(own.reduced if own else (), position, at)
        slots = kept.slots
        if anywhere(last >= 0):
            slots = cuts.slots_of_sums(slots, ranks, last, at)
        for n, (body, where) in enumerate(around):
            if where >= at or n < base:
                continue
            here = _is_home(cuts, position, body, where, base=n == base)
            if not anywhere(here) or (id(body), id(kept)) in self.known:
                continue
            twin = [one for one in body.tiles if one.tensor == kept.tensor and one.level == BUFFER]
            if twin and kept.level == BUFFER:
                self.same[id(kept)] = twin[0].key
                continue
            self.known.add((id(body), id(kept)))
            body.tiles.append(
                Tiled(
                    tensor=kept.tensor,
                    view=view,
                    level=kept.level,
                    slots=slots,
                    queue=self.queues[kept.tensor],
                    maker=own,
                    stores=self._stores(kept.tensor),
                    own=here & (kept.slots > 0),
                    spills=last >= 0,
                    key=id(kept),
                    at=at,
                    dims=dims,
                    path=path,
                    outside=outside,
                    slide=_slide(body, dims) if kept.level != STREAM else None,
                )
            )
            body.tiles.sort(key=lambda tiled: (tiled.level != BUFFER, tiled.queue))

    def _stores(self, tensor: str) -> tuple[View, ...]:
        made = [tensor, *(out for out, source in self.aliases.items() if source == tensor)]
        return tuple(
            self.space.seen(self.space.made[one]).output for one in made if one in self.escapes
        )

    def _vectors(self, item: Bodies, around: list[Bodies]) -> None:
        """Return vector operators whose axis is cut their steps."""
        for inner in list(item.items):
            if isinstance(inner, Bodies):
                self._vectors(inner, [*around, item])
                continue
            axis = self.space.axes.get(inner.seen.name)
            cutting = [body for body in (*around, item) if axis and body.rank == axis]
            if not cutting or not isinstance(inner.seen.operator, Vector):
                continue
            if cutting[0].works == (inner,):
                inner.step = "normalise"
                within = [*around, item]
                parent = within[within.index(cutting[0]) - 1]
                place = parent.items.index(cutting[0])
                parent.items.insert(place, _statistics(cutting[0]))
                parent.ahead += place < parent.ahead
                continue
            made = inner.seen.output.name
            inner.step = "online"
            inner.corrects = tuple(
                work
                for work in cutting[0].works
                if made in {view.name for view in work.seen.inputs} and axis in work.seen.reduced
            )
            cutting[0].divides += [(inner, one) for one in inner.corrects]


def _statistics(body: Bodies) -> Bodies:
    """Return the pass before the one that normalises: what it reads has slots of its own."""
    tiles = [
        replace(tiled, key=-tiled.key, stores=(), outside=tiled.outside and -tiled.outside)
        for tiled in body.tiles
        if tiled.maker is None
    ]
    items: list[Bodies | Work] = []
    for item in body.items:
        if isinstance(item, Bodies):
            items.append(_statistics(item))
        else:
            keys = tuple(key and -key for key in item.keys)
            items.append(replace(item, keys=keys, step="statistics"))
    return Bodies(body.rank, body.tile, body.place, body.part, tiles, items)


def _slide(body: Bodies, dims: Sequence[Terms]) -> tuple[str, int] | None:
    """Return the rank of a loop that moves a window in one of these dimensions, and its step."""
    windows = [(rank, step) for dim in dims if len(dim) > 1 for rank, step in dim]
    return next((one for one in windows if one[0] == body.rank), None)


def _is_home(cuts: Cuts, position: Ints, body: Bodies, where: int, *, base: bool) -> Bools:
    """Return which candidates have the tile whose place is given in this body."""
    if body.rank and (where, body.rank) in cuts.places:
        here = (position == body.place) & (cuts.places[where, body.rank] >= 0)
        return np.asarray(here, dtype=np.bool_)
    if base and not body.rank:
        return (position < 0) | (position < where * PLACES)
    return np.zeros((), dtype=np.bool_)


def _ordered(loops: Loops) -> Iterator[tuple[str, Ints, int]]:
    """Yield rank, tile and place of each loop from the outermost; all have one order."""
    first = [int(np.ravel(place)[0]) for place in loops.places]
    for place, rank, tile in sorted(zip(first, loops.ranks, loops.tiles, strict=True)):
        yield rank, tile, place
