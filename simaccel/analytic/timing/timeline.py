"""How long a family takes: engines and tiles as max-plus recurrences, a few iterations a loop.

Every engine runs its commands in program order, a command starts when its tiles are there and its
slot is free, a slot is free when its tile has been used: a marked graph, whose times grow evenly
after a few iterations of a loop (Baccelli et al., *Synchronization and Linearity*, chapter 3). So
the first iterations of a loop, its steady interval and the smaller last one say all. The interval
is no shorter than the work of any resource in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from simaccel.analytic.blocks import Block
from simaccel.analytic.bodies import FALSE, TRUE, Bodies, Tiled, Work
from simaccel.analytic.family import Bools, Floats, Ints, ints
from simaccel.analytic.pointwise import anywhere, everywhere, highest, larger, pick, plain
from simaccel.analytic.timing.fifos import taken_over
from simaccel.analytic.timing.rounds import Context, Round, merged
from simaccel.analytic.timing.supply import bodies_of, sums_ahead, supply
from simaccel.analytic.timing.tiles import Tiles
from simaccel.analytic.timing.times import (
    ARRAY,
    DMA_OUT,
    NOC_OUT,
    OUT,
    READ,
    SFU,
    UNASKED,
    WRITE,
    ZERO,
    Begin,
    Sizes,
    Times,
)
from simaccel.analytic.timing.trips import Steady
from simaccel.analytic.units import Units
from simaccel.hardware import Accelerator
from simaccel.mapping.space import Space


def timeline(
    top: Bodies,
    space: Space,
    units: Units,
    accelerator: Accelerator,
    begin: Begin | None = None,
) -> Timeline:
    """Go through a family whose loops have one order, from ``begin`` on or where nothing was.

    Raises:
        ApartError: its candidates go too different ways to be gone through together.

    """
    found = Timeline(units, accelerator, begin)
    if begin is not None:
        taken_over(found.x, top, begin.slots)
    sizes: Sizes = {rank: plain(ints(size)) for rank, size in space.sizes.items()}
    found.round = Round(sizes)
    found.supply = supply(top)
    found.supplying = {id(one) for tiles in found.supply.values() for one in tiles}
    found.sums = sums_ahead(top)
    found.follows = any(body.shares for body in bodies_of(top))
    found.first(top)
    found.body(top, found.round)
    return found


class Timeline(Tiles):
    """Bodies, loops and work in time."""

    def end(self) -> Floats:
        """Return when all engines are done; what was loaded is used."""
        found = ZERO
        for engine in (ARRAY, SFU, OUT, DMA_OUT, NOC_OUT):
            found = larger(found, self.x[engine])
        return found

    def body(self, body: Bodies, here: Round) -> None:
        """Go through a body, in an iteration of the loop around it."""
        was, self.round = self.round, here
        self.open(body.tiles)
        last, gone = body.items[-1], []
        for item in body.items:
            ahead = body.used_ahead(item)
            self.item(item, self.outside(body, item, here), ahead)
            self.past(body)
            gone += ahead
            if item is not last:
                self.let_go([tiled for tiled in body.used_last(item) if tiled not in gone])
        left = [tiled for tiled in body.tiles if tiled not in gone]
        self.close([tiled for tiled in left if not body.let_go_early(tiled)])
        self.round = was

    def past(self, body: Bodies) -> None:
        """Hand tiles on after an item that has stored what it made in PEs."""
        for tiled in body.tiles:
            stored = self.x.get(("stored", tiled.key))
            if stored is not None:
                ready = ("ready", tiled.key)
                self.x[ready] = larger(self.x[ready], stored)

    def item(self, item: Bodies | Work, outside: Round, ahead: Sequence[Tiled] = ()) -> None:
        """Go through a leaf, a part or a loop of a body.

        ``ahead``: tiles outside that the first items of a pipelined loop are the last to use.
        """
        if isinstance(item, Work):
            self._work(item, self.round.sizes)
        elif item.part is not None:
            adders = item.adders if item.part.start else frozenset()
            with self._turn(adders, TRUE if adders else FALSE):
                self.body(item, self.into(item, outside))
        else:
            self._loop(item, outside, ahead)
            for work, summed in item.divides:
                self._correct("divide", work, summed, self.round.sizes, TRUE)

    @contextmanager
    def _turn(self, adders: frozenset[str], before: Bools) -> Iterator[None]:
        """Be in one iteration: sums have begun and windows slid where there was one ``before``."""
        was = self.begun, self.slid
        if adders and before is not FALSE:
            begun = {
                name: before if before is TRUE else self.begun.get(name, FALSE) | before
                for name in adders
            }
            self.begun = {**self.begun, **begun}
        self.slid = before
        yield
        self.begun, self.slid = was

    def _loop(self, body: Bodies, outside: Round, ahead: Sequence[Tiled]) -> None:
        sizes, rank = outside.sizes, body.rank
        trips = self.trips_of(body, sizes[rank])
        if trips.one and not body.ahead:
            with self._turn(frozenset(), FALSE):
                self.body(body, self.into(body, outside))
            return
        loop = _Ahead(self, body, ahead) if body.ahead else _Loop(self, body)
        first = Round({**sizes, rank: trips.tile}, outside, rank, trips)
        left = self._steady(loop, first)
        for done in range(highest(left)):
            number = trips.full - left + done
            with self._turn(body.adders, TRUE):
                loop.run(first.at(number), done < left)
        if trips.ragged:
            loop.finish()
            last = first.at(trips.full, trips.rest)
            with self._turn(body.adders, trips.full > 0):
                loop.run(last, trips.has_rest)
        loop.finish()

    def _steady(self, loop: _Loop, first: Round) -> Ints:
        """Go through full iterations until they take as long as before; say how many are left."""
        body, trips = loop.body, first.trips
        assert trips is not None  # noqa: S101 - of a loop
        # a pipelined loop is cut where its iterations differ
        apart = body.slides or not self._begun(body.adders)
        # the last iterations ask for tiles of another size, or of another loop
        ends = first.ends | trips.has_rest
        tail = larger(larger(ends * body.own_slots, body.slots_of_pes), loop.tail)
        names = [line.key for line in self.lines.values()]
        left, todo = plain(ints(0)), trips.full
        began = False
        while anywhere(todo):
            steady = Steady(trips, todo, names, self.counters)
            for done in range(steady.most):
                here = steady.left(done)
                if not anywhere(here):
                    break
                steady.history.append(dict(self.x))
                adders, before = (body.adders, TRUE) if began else (frozenset(), FALSE)
                with self._turn(adders, before):
                    loop.run(first.at(plain(trips.full - todo + done)), here)
                if apart and not began:
                    loop.finish()
                began = True
                steady.went(done, here, self.x)
            ago, more, period, rest = steady.before(self.x, tail)
            short: Floats = more - self.skip(ago, more) if anywhere(more) else ZERO
            left = pick(todo > 0, rest, left)
            todo = plain(ints(pick(short > 0, rest + short * period, 0)))
        return left

    def _begun(self, adders: Collection[str]) -> bool:
        """Return whether sums of all operators have begun for all candidates."""
        return all(everywhere(self.begun.get(name, FALSE)) for name in adders)

    def restore(self, where: Bools, before: Times) -> None:
        """Keep what happened since for some of the candidates only."""
        if where is TRUE or everywhere(where):
            return
        for key, new in self.x.items():
            old = before.get(key)
            if old is None:
                asked = isinstance(key, tuple) and key[0] == "next"
                old = UNASKED if asked else ZERO
            if new is not old:
                self.x[key] = pick(where, new, old)

    def _work(self, work: Work, sizes: dict[str, Ints]) -> None:
        engine = SFU if work.do.unit == "sfu" else ARRAY
        begun = self.begun.get(work.seen.name, FALSE)
        block = self.units.block(work, sizes, begun)
        keys = [key for key in work.keys if key is not None]
        if block.edges is None:
            begin = self.x[engine]
            for key in keys:
                begin = larger(begin, self.x["ready", key])
            self.x[engine] = out = begin + block.cycles + self.beside(begin, block)
            late = self.done(engine, begin, out, out, block)
            if engine == SFU:
                self.use_port(READ, SFU, begin, block.read, TRUE, late)
                self.use_port(WRITE, SFU, begin, block.write, TRUE, late)
        else:
            out = self.folds(work, block, block.edges, begun)
        self._finish(keys, work.keys[-1], out, block)
        for summed in work.corrects if work.step == "online" else ():
            begun = self.begun.get(summed.seen.name, FALSE)
            if anywhere(begun):
                self._correct("rescale", work, summed, sizes, begun)

    def _finish(self, keys: list[int], made: int | None, end: Floats, block: Block) -> None:
        self.x[READ] = self.x[READ] + block.read
        self.x[WRITE] = self.x[WRITE] + block.write
        past = end if block.edges is None else self.x[ARRAY]
        for key in keys:
            self.use(key, end if key == made else past)
        if made is not None:
            self.x["ready", made] = end

    def _correct(
        self, step: str, work: Work, summed: Work, sizes: dict[str, Ints], where: Bools
    ) -> None:
        block = self.units.correction(step, work, summed.seen.output, sizes)
        key = summed.keys[-1]
        ready = self.x["ready", key] if key is not None else ZERO
        end = larger(self.x[SFU], ready) + block.cycles
        self.x[SFU] = pick(where, end, self.x[SFU])
        if key is not None:
            self.x["ready", key] = pick(where, end, ready)
            self.use(key, self.x["ready", key])
        self.x[READ] = self.x[READ] + where * block.read
        self.x[WRITE] = self.x[WRITE] + where * block.write


class _Loop:
    """A loop, whose iterations some of the candidates have."""

    def __init__(self, timeline: Timeline, body: Bodies) -> None:
        self.timeline, self.body = timeline, body
        self.tail = 0
        """Iterations at the end that are gone through at least."""

    def run(self, here: Round, where: Bools) -> None:
        """Go through an iteration for some of the candidates."""
        timeline = self.timeline
        where = TRUE if everywhere(where) else where
        if where is TRUE:
            self.go(here, where)
            return
        before, present = dict(timeline.x), timeline.present
        timeline.present = present & where
        self.go(here, where)
        timeline.present = present
        timeline.restore(where, before)

    def go(self, here: Round, where: Bools) -> None:  # noqa: ARG002 - for pipelined loops
        """Go through an iteration."""
        self.timeline.body(self.body, here)

    def finish(self) -> None:
        """Go through what is left of it."""


class _Ahead(_Loop):
    """A loop whose body's first items run an iteration early (software pipelining).

    ``leaving``: tiles outside that these are the last to use.
    """

    def __init__(self, timeline: Timeline, body: Bodies, leaving: Sequence[Tiled]) -> None:
        super().__init__(timeline, body)
        self.leaving, self.tail = leaving, int(bool(leaving))
        self.cut = cut = _cut(body)
        early = {key for item in body.items[:cut] for work in _works(item) for key in work.keys}
        late = {key for item in body.items[cut:] for work in _works(item) for key in work.keys}
        self.first = [tiled for tiled in body.tiles if tiled.key in early]
        self.crossing = [tiled for tiled in self.first if tiled.key in late]
        self.second = [tiled for tiled in body.tiles if tiled.key not in early]
        self.waiting: Bools = FALSE
        """Candidates with an iteration whose later part is still to come."""
        self.waits: Context | None = None

    def go(self, here: Round, where: Bools) -> None:
        """Go through the first items of an iteration and the others of the one before."""
        timeline, body = self.timeline, self.body
        was, timeline.round = timeline.round, here
        for tiled in self.first:
            early = self.waiting if tiled in self.crossing else FALSE
            timeline.open([tiled], early=early)
        for tiled in self.crossing:
            timeline.x["used", tiled.key] = ZERO
        for item in body.items[: self.cut]:
            timeline.item(item, timeline.outside(body, item, here))
            timeline.past(body)
        timeline.close([t for t in self.first if t not in self.crossing])
        assert here.trips is not None  # noqa: S101 - of a loop
        last = where & (here.number + 1 == here.trips.count)
        if self.leaving and anywhere(last):
            timeline.round = was
            timeline.let_go(self.leaving, last)
            timeline.round = here
        made = self._tiles()
        timeline.x |= {("making", key): time for key, time in made.items()}
        self._behind()
        for key in made:
            timeline.x["made", key] = timeline.x.pop(("making", key))
        now = here, timeline.begun, timeline.slid
        self.waits = now if self.waits is None else merged(where, now, self.waits)
        self.waiting = TRUE if where is TRUE else self.waiting | where
        timeline.round = was

    def _tiles(self) -> Times:
        x = self.timeline.x
        return {
            key: x.get(key, ZERO)
            for tiled in self.crossing
            for key in (("ready", tiled.key), ("used", tiled.key))
        }

    def _behind(self) -> None:
        """Run the later part of the iteration before, for candidates that have one."""
        if self.waits is None:
            return
        timeline, present = self.timeline, self.timeline.present
        before = {} if self.waiting is TRUE else dict(timeline.x)
        timeline.present = self.waiting if present is TRUE else present & self.waiting
        here, begun, slid = self.waits
        for key in self._tiles():
            timeline.x[key] = timeline.x["made", key]
        now = timeline.begun, timeline.slid
        timeline.begun, timeline.slid = begun, slid
        was, timeline.round = timeline.round, here
        timeline.open(self.second)
        for item in self.body.items[self.cut :]:
            timeline.item(item, timeline.outside(self.body, item, here))
            timeline.past(self.body)
        timeline.close([*self.second, *self.crossing])
        timeline.round = was
        timeline.begun, timeline.slid = now
        timeline.present = present
        timeline.restore(self.waiting, before)

    def finish(self) -> None:
        """Run the later part of the last iteration."""
        self._behind()
        self.waits, self.waiting = None, FALSE


def _cut(body: Bodies) -> int:
    """Return how many items of a pipelined loop's body are gone through an iteration early.

    What the SFU does behind those that run early waits for nothing else of the later part: so it is
    gone through before the array's blocks of the iteration before, which it runs beside.
    """
    found = body.ahead
    while found < len(body.items) and _is_vector(body.items[found]):
        found += 1
    behind = (work for item in body.items[found:] for work in _works(item))
    units = {work.do.unit for work in behind}
    return found if units and "sfu" not in units else body.ahead


def _is_vector(item: Bodies | Work) -> bool:
    """Return whether the SFU does all of an item, without tiles of its own or sums to correct."""
    every = (work.do.unit == "sfu" and not work.corrects for work in _works(item))
    return all(every) and not _has_tiles(item)


def _has_tiles(item: Bodies | Work) -> bool:
    """Return whether tiles come and go inside an item."""
    if isinstance(item, Work):
        return False
    return bool(item.tiles) or any(map(_has_tiles, item.items))


def _works(item: Bodies | Work) -> tuple[Work, ...]:
    return item.works if isinstance(item, Bodies) else (item,)
