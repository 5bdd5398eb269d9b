"""The bodies of a family, in one order of loops: where tiles come and go, and what is done.

A tile belongs to the body of the innermost loop that moves it; which one that is may differ by
candidate, so each body says of its tiles for which candidates they are its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from simaccel.analytic.bodies import Bodies, Tiled, Work
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
from simaccel.analytic.pointwise import anywhere
from simaccel.mapping.space import Seen
from simaccel.mapping.tree import BUFFER, STREAM, Do
from simaccel.mapping.view import View
from simaccel.workload import Vector


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
        slots = ints(np.where(position < 0, np.minimum(kept.slots, 1), kept.slots))
        if anywhere(last >= 0):
            slots = cuts.slots_of_sums(slots, ranks, last, at)
            for tiled in (one for body, _ in around for one in body.tiles if one.key == outside):
                tiled.returns = tiled.returns | (last >= 0)
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


def _statistics(body: Bodies, inside: frozenset[int] = frozenset()) -> Bodies:
    """Return the pass before the one that normalises: what it reads has slots of its own.

    ``inside``: tiles of the bodies around that it has twice; others are those of both passes.
    """
    mine = [tiled for tiled in body.tiles if tiled.maker is None]
    inside = inside | {tiled.key for tiled in mine}
    other = {key: -key for key in inside}
    tiles = [
        replace(
            tiled,
            key=-tiled.key,
            stores=(),
            outside=tiled.outside and other.get(tiled.outside, tiled.outside),
        )
        for tiled in mine
    ]
    items: list[Bodies | Work] = []
    for item in body.items:
        if isinstance(item, Bodies):
            items.append(_statistics(item, inside))
        else:
            keys = tuple(key and other.get(key, key) for key in item.keys)
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
