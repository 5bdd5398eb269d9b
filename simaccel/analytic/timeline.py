"""How long a family takes: engines and tiles as max-plus recurrences, a few iterations a loop.

Every engine runs its commands in program order, a command starts when its tiles are there and its
slot is free, a slot is free when its tile has been used: a marked graph, whose times grow evenly
after a few iterations of a loop (Baccelli et al., *Synchronization and Linearity*, chapter 3). So
the first iterations of a loop, its steady interval and the smaller last one say all. The interval
is no shorter than the work of any resource in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simaccel.analytic.blocks import Block, Units
from simaccel.analytic.family import Bools, Floats, Ints, ints
from simaccel.analytic.fifos import taken_over
from simaccel.analytic.pointwise import anywhere, everywhere, identity, larger, pick, plain
from simaccel.analytic.schedule import FALSE, TRUE, Bodies, Tiled, Work
from simaccel.analytic.times import (
    ARRAY,
    READ,
    RING,
    SFU,
    UNASKED,
    WRITE,
    ZERO,
    Begin,
    Sizes,
    Times,
)
from simaccel.analytic.traffic import Traffic
from simaccel.analytic.trips import Context, Steady, Trips, merged, over_the_end
from simaccel.hardware import Accelerator
from simaccel.mapping.space import Space
from simaccel.mapping.tree import BUFFER

Runs = Callable[[Bodies, Sizes, Sizes], None]


def timeline(
    top: Bodies, space: Space, units: Units, accelerator: Accelerator, begin: Begin | None = None
) -> Timeline:
    """Go through a family whose loops have one order, from ``begin`` on or where nothing was."""
    found = Timeline(units, accelerator, begin)
    if begin is not None:
        taken_over(found.x, top, begin.slots)
    sizes: Sizes = {rank: plain(ints(size)) for rank, size in space.sizes.items()}
    found.first(top, sizes)
    found.body(top, sizes, sizes)
    return found


class Timeline(Traffic):
    """Bodies, loops and work in time."""

    def __init__(self, units: Units, accelerator: Accelerator, begin: Begin | None) -> None:
        super().__init__(units, accelerator, begin)
        self.trips: dict[tuple[int, int], Trips] = {}
        self.begun: dict[str, Bools] = {}
        self.more: Bools = FALSE
        self.after: Sizes = {}
        """Sizes of the next iteration of the loop around."""
        self.gathers = False

    def end(self) -> Floats:
        """Return when all engines are done."""
        found = ZERO
        for key, time in self.x.items():
            if isinstance(key, str) and key.startswith("at "):
                found = larger(found, time)
        return found

    def body(self, body: Bodies, sizes: Sizes, following: Sizes) -> None:
        """Go through a body; ``following``: sizes of the iteration after this one."""
        self.open(body.tiles, sizes)
        self._ahead(body.tiles, following, 2)
        for item in body.items:
            self.after = following
            self.item(item, sizes)
            self.past(body)
        self.close(body.tiles, sizes)
        self._ahead(body.tiles, following, 1)

    def past(self, body: Bodies) -> None:
        """Hand tiles on after an item that has stored what it made in PEs."""
        for tiled in body.tiles:
            stored = self.x.get(("stored", tiled.key))
            if stored is not None:
                ready = ("ready", tiled.key)
                self.x[ready] = larger(self.get(ready), stored)

    def item(self, item: Bodies | Work, sizes: dict[str, Ints]) -> None:
        """Go through a leaf, a part or a loop of a body."""
        if isinstance(item, Work):
            self._work(item, sizes)
        elif item.part is not None:
            adders = item.adders if item.part.start else frozenset()
            inside = {**sizes, item.part.rank: plain(ints(item.part.size))}
            with self._turn(adders, TRUE if adders else FALSE, FALSE):
                self.body(item, inside, inside)
        else:
            if item.two_pass is not None:
                self._two_passes(item, item.two_pass, sizes)
            else:
                self._loop(item, sizes)
            for work, summed in item.divides:
                self._correct("divide", work, summed, sizes, TRUE)

    def _two_passes(self, body: Bodies, work: Work, sizes: dict[str, Ints]) -> None:
        """Go through a loop twice; what comes next has the slots of the other pass."""
        with self._turn(frozenset(), self.slid, FALSE):
            work.step, self.gathers = "statistics", True
            self._swap_slots(body)
            self._loop(body, sizes)
            self._swap_slots(body)
            work.step, self.gathers = "normalise", False
            self._loop(body, sizes)

    def _swap_slots(self, body: Bodies) -> None:
        """Change between the tiles that give statistics and those that are normalised."""
        for tiled in body.tiles:
            for n in range(1, RING + 1):
                one, other = (tiled.key, n), ("statistics", tiled.key, n)
                self.x[one], self.x[other] = self.get(other), self.get(one)
        for item in body.items:
            if isinstance(item, Bodies):
                self._swap_slots(item)

    @contextmanager
    def _turn(self, adders: frozenset[str], before: Bools, more: Bools) -> Iterator[None]:
        """Be in one iteration: sums have begun and windows slid where there was one ``before``.

        ``more``: where another follows, of this loop or of one outside.
        """
        was = self.begun, self.slid, self.more
        if adders and before is not FALSE:
            begun = {
                name: before if before is TRUE else self.begun.get(name, FALSE) | before
                for name in adders
            }
            self.begun = {**self.begun, **begun}
        self.slid, self.more = before, more
        yield
        self.begun, self.slid, self.more = was

    def _trips(self, body: Bodies, size: Ints) -> Trips:
        """Return how a loop cuts what arrives, worked out once."""
        key = (id(body), identity(size))
        if key not in self.trips:
            self.trips[key] = Trips(size, body)
        return self.trips[key]

    def _loop(self, body: Bodies, sizes: dict[str, Ints]) -> None:
        trips = self._trips(body, sizes[body.rank])
        if trips.one and not body.ahead:
            with self._turn(frozenset(), FALSE, self.more):
                self.body(body, sizes, sizes)
            return
        rank, outside, after = body.rank, self.more, self.after
        whole = {**sizes, rank: trips.tile}
        runs = _Ahead(self, body) if body.ahead else self.body
        names = [line.key for line in self.lines.values()]
        steady = Steady(trips, names)
        for done in range(steady.most):
            here = steady.left(done)
            if not anywhere(here):
                break
            steady.history.append(dict(self.x))
            adders, before = (body.adders, TRUE) if done else (frozenset(), FALSE)
            following = {**sizes, rank: trips.following(done)}
            over_the_end(following, after, rank, trips.ends(done))
            with self._turn(adders, before, trips.more(done, outside)):
                self._where(TRUE if everywhere(here) else here, runs, body, (whole, following))
            steady.went(done, here, self.x)
        ago, more = steady.before(self.x)
        if anywhere(more):
            self.skip(ago, more)
        if trips.ragged:
            last = {**sizes, rank: trips.rest}
            with self._turn(body.adders, trips.full > 0, outside):
                following = dict(whole)
                over_the_end(following, after, rank, TRUE)
                self._where(trips.has_rest, runs, body, (last, following))
        if isinstance(runs, _Ahead):
            runs.finish()

    def _where(self, where: Bools, runs: Runs, body: Bodies, sizes: tuple[Sizes, Sizes]) -> None:
        """Run an iteration for some of the candidates; ``sizes``: its own, and the next one's."""
        if isinstance(runs, _Ahead):
            runs.where = where
        before, present = dict(self.x), self.present
        self.present = present if where is TRUE else present & where
        runs(body, *sizes)
        self.present = present
        self.restore(where, before)

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

    def open(self, tiles: list[Tiled], sizes: Sizes, *, early: Bools = FALSE) -> None:
        """Let the tiles of a body come, those that have not been asked for before."""
        for tiled in tiles:
            ready = ("ready", tiled.key)
            if tiled.maker is None:
                coming = self.x.get(("next", tiled.key))
                if coming is None:
                    self.load(tiled, sizes, self.free(tiled, early), tiled.own, ready)
                    continue
                cold = tiled.own & (coming < 0)
                if anywhere(cold):
                    self.load(tiled, sizes, self.free(tiled, early), cold, ready)
                here = tiled.own & (coming >= 0)
                self.x[ready] = pick(here, coming, self.get(ready))
                self.x["next", tiled.key] = pick(tiled.own, UNASKED, coming)
                continue
            free = self.free(tiled, early)
            self.x[ready] = pick(tiled.own, free, self.get(ready))
            begun = self.begun.get(tiled.maker.name, FALSE)
            if tiled.may_spill and begun is not FALSE:
                back = tiled.own & tiled.spills & begun
                if anywhere(back):
                    self.load(tiled, sizes, free, back, ready)

    def _ahead(self, tiles: list[Tiled], sizes: Sizes, least: int) -> None:
        """Ask for the next tiles: of several slots at once, of one when it is free."""
        if self.more is FALSE:
            return
        for tiled in tiles:
            if tiled.maker is not None or tiled.outside is not None:
                continue
            mine = tiled.several if least > 1 else tiled.single
            if mine is None:
                continue
            where = mine if self.more is TRUE else mine & self.more
            key = ("next", tiled.key)
            if key not in self.x:
                self.x[key] = UNASKED
            slid, self.slid = self.slid, TRUE
            early = TRUE if least > 1 else FALSE
            self.load(tiled, sizes, self.free(tiled, early), where, key)
            self.slid = slid

    def close(self, tiles: list[Tiled], sizes: dict[str, Ints]) -> None:
        """Let the tiles of a body go, and what was made in them to its memory."""
        for tiled in reversed(tiles):
            if tiled.maker is not None and tiled.level != BUFFER:
                self.store(tiled, sizes, tiled.view.kind)
            elif not (self.gathers and tiled.maker is None):
                for view in tiled.stores:
                    self.store(tiled, sizes, view.kind)
            self._release(tiled)

    def _release(self, tiled: Tiled) -> None:
        used = self.get(("used", tiled.key))
        for n in range(min(tiled.most, RING), 1, -1):
            self.x[tiled.key, n] = pick(
                tiled.own, self.get((tiled.key, n - 1)), self.get((tiled.key, n))
            )
        self.x[tiled.key, 1] = pick(tiled.own, used, self.get((tiled.key, 1)))

    def _work(self, work: Work, sizes: dict[str, Ints]) -> None:
        engine = SFU if work.do.unit == "sfu" else ARRAY
        block = self.units.block(work, sizes, self.begun.get(work.seen.name, FALSE))
        keys = [key for key in work.keys if key is not None]
        if block.edges is None:
            begin = self.get(engine)
            for key in keys:
                begin = larger(begin, self.get(("ready", key)))
            self.x[engine] = out = begin + block.cycles
        else:
            out = self.folds(work, block, block.edges)
        self._finish(keys, work.keys[-1], out, block)
        for summed in work.corrects if work.step == "online" else ():
            begun = self.begun.get(summed.seen.name, FALSE)
            if anywhere(begun):
                self._correct("rescale", work, summed, sizes, begun)

    def _finish(self, keys: list[int], made: int | None, end: Floats, block: Block) -> None:
        self.x[READ] = self.get(READ) + block.read
        self.x[WRITE] = self.get(WRITE) + block.write
        past = end if block.edges is None else self.get(ARRAY)
        for key in keys:
            self.use(key, end if key == made else past)
        if made is not None:
            self.x["ready", made] = end

    def _correct(
        self, step: str, work: Work, summed: Work, sizes: dict[str, Ints], where: Bools
    ) -> None:
        block = self.units.correction(step, work, summed.seen.output, sizes)
        key = summed.keys[-1]
        ready = self.get(("ready", key)) if key is not None else ZERO
        end = larger(self.get(SFU), ready) + block.cycles
        self.x[SFU] = pick(where, end, self.get(SFU))
        if key is not None:
            self.x["ready", key] = pick(where, end, ready)
            self.use(key, self.x["ready", key])
        self.x[READ] = self.get(READ) + where * block.read
        self.x[WRITE] = self.get(WRITE) + where * block.write


class _Ahead:
    """A loop whose body's first items run an iteration early (software pipelining)."""

    def __init__(self, timeline: Timeline, body: Bodies) -> None:
        self.timeline, self.whole = timeline, body
        cut = body.ahead
        early = {key for item in body.items[:cut] for work in _works(item) for key in work.keys}
        late = {key for item in body.items[cut:] for work in _works(item) for key in work.keys}
        self.first = [tiled for tiled in body.tiles if tiled.key in early]
        self.crossing = [tiled for tiled in self.first if tiled.key in late]
        self.second = [tiled for tiled in body.tiles if tiled.key not in early]
        self.where: Bools = TRUE
        """Candidates that have the present iteration."""
        self.waiting: Bools = FALSE
        """Candidates with an iteration whose later part is still to come."""
        self.waits: Context | None = None

    def __call__(self, body: Bodies, sizes: Sizes, following: Sizes) -> None:
        timeline = self.timeline
        for tiled in self.first:
            early = self.waiting if tiled in self.crossing else FALSE
            timeline.open([tiled], sizes, early=early)
        for tiled in self.crossing:
            timeline.x["used", tiled.key] = ZERO
        for item in body.items[: body.ahead]:
            timeline.after = following
            timeline.item(item, sizes)
            timeline.past(body)
        timeline.close([t for t in self.first if t not in self.crossing], sizes)
        made = self._tiles()
        self._behind(sizes)
        for key, time in made.items():
            timeline.x["made", key] = time
        now = sizes, timeline.begun, timeline.slid
        self.waits = now if self.waits is None else merged(self.where, now, self.waits)
        self.waiting = TRUE if self.where is TRUE else self.waiting | self.where

    def _tiles(self) -> Times:
        x = self.timeline.x
        return {
            key: x.get(key, ZERO)
            for tiled in self.crossing
            for key in (("ready", tiled.key), ("used", tiled.key))
        }

    def _behind(self, following: Sizes | None = None) -> None:
        """Run the later part of the iteration before, for candidates that have one."""
        if self.waits is None:
            return
        timeline, before, present = self.timeline, dict(self.timeline.x), self.timeline.present
        timeline.present = self.waiting if present is TRUE else present & self.waiting
        sizes, begun, slid = self.waits
        for key in self._tiles():
            timeline.x[key] = timeline.get(("made", key))
        now = timeline.begun, timeline.slid
        timeline.begun, timeline.slid = begun, slid
        timeline.open(self.second, sizes)
        for item in self.whole.items[self.whole.ahead :]:
            timeline.after = following or sizes
            timeline.item(item, sizes)
            timeline.past(self.whole)
        timeline.close([*self.second, *self.crossing], sizes)
        timeline.begun, timeline.slid = now
        timeline.present = present
        timeline.restore(self.waiting, before)

    def finish(self) -> None:
        """Run what is left."""
        self._behind()


def _works(item: Bodies | Work) -> tuple[Work, ...]:
    return item.works if isinstance(item, Bodies) else (item,)
