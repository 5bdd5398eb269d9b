"""Loads in the order in which they are asked for: as far ahead as tiles have slots.

A loader asks for its next tile when a slot of it is released, which is behind the last use of the
one that was there. So loads are gone through when slots are released, not when tiles are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

from simaccel.analytic.bodies import FALSE, TRUE, Bodies, Tiled, Work
from simaccel.analytic.family import Bools, Floats, Ints, ints
from simaccel.analytic.pointwise import anywhere, highest, identity, larger, pick, plain, without
from simaccel.analytic.timing.again import Again
from simaccel.analytic.timing.rounds import Round, Then
from simaccel.analytic.timing.supply import Supply
from simaccel.analytic.timing.times import UNASKED, Begin
from simaccel.analytic.timing.trips import Trips
from simaccel.analytic.units import Units
from simaccel.hardware import Accelerator

First = tuple[Tiled, Round]
"""A tile, and the first iteration in which it is used."""


class Queues(Again):
    """Tiles that are asked for ahead: ``("next", key, place)`` says when each comes."""

    def __init__(self, units: Units, accelerator: Accelerator, begin: Begin | None) -> None:
        super().__init__(units, accelerator, begin)
        self.trips: dict[tuple[int, int], Trips] = {}
        self.cut: set[int] = set()
        """Loops that have several trips somewhere."""
        self.round = Round({})
        """The iteration that it is in."""
        self.supply: Supply = {}
        self.supplying: set[int] = set()
        self.sums: set[int] = set()
        """Sums in PEs, by key, that are asked for ahead."""
        self.follows = False
        """Whether queues go on behind an item somewhere."""
        self.homes: dict[int, Round] = {}
        """The last iteration in which a tile came."""

    # -- where loops are

    def trips_of(self, body: Bodies, size: Ints) -> Trips:
        """Return how a loop cuts what arrives, worked out once."""
        key = (id(body), identity(size))
        if key not in self.trips:
            found = self.trips[key] = Trips(size, body)
            if not found.one:
                self.cut.add(id(body))
        return self.trips[key]

    def is_one(self, body: Bodies, trips: Trips) -> bool:
        """Return whether a loop has one trip, here and wherever it has come so far."""
        return trips.one and not body.ahead and id(body) not in self.cut

    @staticmethod
    def outside(body: Bodies, item: Bodies | Work, here: Round) -> Round:
        """Return what the loops of an item have outside: nothing where queues go on behind it."""
        if isinstance(item, Work) or not body.shares:
            return here
        return Round(here.sizes, then=Then(body, item, here))

    def into(self, body: Bodies, outside: Round) -> Round:
        """Return the first iteration of a loop or part."""
        if body.part is not None:
            sizes = {**outside.sizes, body.part.rank: plain(ints(body.part.size))}
            return Round(sizes, outside, body.part.rank, number=plain(ints(body.part.start > 0)))
        trips = self.trips_of(body, outside.sizes[body.rank])
        if self.is_one(body, trips):
            return outside
        sizes = {**outside.sizes, body.rank: trips.tile}
        return Round(sizes, outside, body.rank, trips)

    # -- what is asked for

    def first(self, top: Bodies) -> None:
        """Ask for the first tiles of each queue, which nothing holds up."""
        every = list(self._firsts(top, self.round, {}))
        self._ask_first(sorted(every, key=lambda one: one[0].queue), TRUE)

    def _firsts(self, body: Bodies, here: Round, keys: dict[int, int]) -> Iterator[First]:
        """Yield the tiles in which queues begin; ``keys`` of them, by queue."""
        for tiled in body.tiles:
            if tiled.read and keys.setdefault(tiled.queue, tiled.key) == tiled.key:
                yield tiled, here
        for item in body.items:
            if isinstance(item, Bodies):
                inside = self.into(item, self.outside(body, item, here))
                yield from self._firsts(item, inside, keys)

    def _ask_first(self, every: Sequence[First], where: Bools) -> None:
        """Ask for as many tiles from the first one on as there are slots for."""
        was = self.round
        for place in range(max((tiled.most for tiled, _ in every), default=0)):
            for tiled, self.round in every:
                for n, mine in tiled.having(where & tiled.own):
                    if place < n:
                        cold = mine & (self.coming(tiled, place) == UNASKED)
                        self._ask(tiled, cold, ahead=place, place=place, slot=n - place)
        self.round = was

    def come(self, tiled: Tiled, where: Bools) -> Floats:
        """Return when a tile comes; it is asked for now where it was not before."""
        cold = where & (self.coming(tiled, 0) == UNASKED)
        if anywhere(cold):
            for n, mine in tiled.having(cold):
                for place in range(n):
                    self._ask(tiled, mine, ahead=place, place=place, slot=n - place)
        found = self.coming(tiled, 0)
        for place in range(tiled.far):
            later, here = self.coming(tiled, place + 1), self.coming(tiled, place)
            if later is not here:
                self.x["next", tiled.key, place] = pick(tiled.own, later, here)
        for n, mine in tiled.having(where) if self.follows else ():
            self._follow(tiled, n, mine)
        return found

    def coming(self, tiled: Tiled, place: int) -> Floats:
        """Return when the tile so many places ahead comes; before 0 if it was not asked for."""
        return self.x.get(("next", tiled.key, place), UNASKED)

    def let_go(self, tiles: Sequence[Tiled], where: Bools = TRUE) -> None:
        """Release the slots of tiles, and ask for others; of those with few slots first."""
        still = {id(tiled): where & self._still(tiled) for tiled in tiles}
        tiles = [tiled for tiled in tiles if anywhere(still[id(tiled)])]
        for tiled in reversed(tiles):
            self._release(tiled, still[id(tiled)])
        asked = [
            (n, tiled, mine)
            for tiled in reversed(tiles)
            if self._is_asked(tiled)
            for n, mine in tiled.having(still[id(tiled)])
        ]
        for n, tiled, mine in sorted(asked, key=itemgetter(0)):
            self._ask_next(tiled, mine, n)

    def _is_asked(self, tiled: Tiled) -> bool:
        """Return whether tiles are asked for ahead."""
        return tiled.comes or tiled.key in self.supply or tiled.key in self.sums

    def _ask_next(self, tiled: Tiled, where: Bools, n: int) -> None:
        """Ask for a tile of n slots when one is released."""
        if tiled.comes:
            self._ask(tiled, where, ahead=n, place=n - 1, slot=1)
            self._follow(tiled, n + 1, where)
            return
        # some of PEs could not be asked for: that of the buffer was not, or sums had not begun
        for place in range(n):
            cold = where & (self.coming(tiled, place) == UNASKED)
            if anywhere(cold):
                self._ask(tiled, cold, ahead=place + 1, place=place, slot=n - place)
            if tiled.key in self.sums:
                where = where & (self.coming(tiled, place) != UNASKED)

    def _still(self, tiled: Tiled) -> Bools:
        """Return whose tile has not been let go yet, by those of PEs that come from it."""
        if id(tiled) not in self.supplying:
            return tiled.own
        found = FALSE
        for n, mine in tiled.having(tiled.own):
            found = found | (mine & (self.coming(tiled, n - 1) == UNASKED))
        return found

    def _release(self, tiled: Tiled, where: Bools) -> None:
        used = self.x["used", tiled.key]
        for n in range(tiled.most, 1, -1):
            later, here = self.x[tiled.key, n - 1], self.x[tiled.key, n]
            self.x[tiled.key, n] = pick(where & tiled.more_than(n - 1), later, here)
        self.x[tiled.key, 1] = pick(where, used, self.x[tiled.key, 1])

    def _ask(self, tiled: Tiled, where: Bools, *, ahead: int, place: int, slot: int) -> None:
        """Ask for a tile so many iterations ahead, into the slot that was released so often ago."""
        if not anywhere(where):
            return
        sizes, there, slid = self.round.after(ahead)
        where = where if there is TRUE else where & there
        if tiled.maker is not None and ahead:
            where = where & tiled.spills & self.round.summed(ahead, tiled.maker.reduced)
        free = self.released(tiled, slot)
        if tiled.key in self.supply and anywhere(where):
            where, free = self._supplied(tiled, where, ahead, free)
        if anywhere(where):
            was, arrival = self.slid, ("next", tiled.key, place)
            self.slid = slid if ahead else was
            self.x.setdefault(arrival, UNASKED)
            self.load(tiled, sizes, free, where, arrival)
            self.slid = was
            if tiled.key in self.supply:
                self._brought(tiled, where, ahead)

    def _sources(self, tiled: Tiled, where: Bools) -> Iterator[tuple[Tiled, Round, Bools]]:
        """Yield the tiles in the buffer that a tile of PEs comes from, with whose they are."""
        for source in self.supply[tiled.key]:
            mine = where & source.own
            if id(source) in self.homes and anywhere(mine):
                yield source, self.homes[id(source)], mine

    def _supplied(
        self, tiled: Tiled, where: Bools, ahead: int, free: Floats
    ) -> tuple[Bools, Floats]:
        """Return where a tile of PEs can come, as its buffer's is asked for, and from when on."""
        for source, home, mine in self._sources(tiled, where) if ahead else ():
            over = self.round.passed(home, plain(ints(ahead)))
            for n in range(1, highest(over) + 1):
                here = mine & (over == n)
                if anywhere(here):
                    coming = self.coming(source, n - 1)
                    free = pick(here, larger(free, coming), free)
                    where = where & (without(here) | (coming != UNASKED))
        return where, free

    def _brought(self, tiled: Tiled, where: Bools, ahead: int) -> None:
        """Let tiles of the buffer go of which the last part has been brought to PEs."""
        for source, home, mine in self._sources(tiled, where):
            over, then = (self.round.passed(home, plain(ints(ahead + n))) for n in (0, 1))
            last = mine & ((then > over) | without(self.round.after(ahead + 1)[1]))
            for n in range(highest(over) + 1) if anywhere(last) else ():
                here = last & (over == n)
                if anywhere(here):
                    self._release(source, here)
                    was, self.round = self.round, home
                    for slots, these in source.having(here):
                        place = n + slots
                        self._ask(source, these, ahead=place, place=place - 1, slot=1)
                        self._follow(source, place + 1, these)
                    self.round = was

    def _follow(self, tiled: Tiled, ahead: int, where: Bools) -> None:
        """Ask for the first tiles of the item behind, where this one has none any more."""
        then = self.round.last if self.follows else None
        if then is None or not tiled.read:
            return
        where = where & without(self.round.after(ahead)[1])
        if not anywhere(where):
            return
        item, here = then.body.behind(then.item, tiled.queue), then.here
        if item is None:
            sizes, there, _ = here.after(1)
            item, here = then.body.behind(None, tiled.queue), Round(sizes)
            where = where & there
        if item is not None and anywhere(where):
            every = self._firsts(item, self.into(item, Round(here.sizes)), {})
            self._ask_first([one for one in every if one[0].queue == tiled.queue], where)
