"""How long a family takes: engines and tiles as max-plus recurrences, a few iterations a loop.

Every engine runs its commands in program order, a command starts when its tiles are there and its
slot is free, a slot is free when its tile has been used: a marked graph, whose times grow evenly
after a few iterations of a loop (Baccelli et al., *Synchronization and Linearity*, chapter 3). So
the first iterations of a loop, its steady interval and the smaller last one say all. The interval is
no shorter than the work of any resource in it, nor than its requests need with those in flight
(Little's law). What starts at once shares a channel in turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from simaccel.analytic.blocks import Move, Units
from simaccel.analytic.family import Bools, Floats, Ints, ints
from simaccel.analytic.schedule import FALSE as _FALSE
from simaccel.analytic.schedule import TRUE as _TRUE
from simaccel.analytic.schedule import Bodies, Tiled, Work
from simaccel.hardware import Accelerator
from simaccel.mapping.space import Space
from simaccel.mapping.tree import BUFFER

Times = dict[object, Floats]
Sizes = dict[str, Ints]
_FEW = 2
"""Iterations of a loop that are gone through, beyond the slots of its tiles."""
_RING = 6
"""Slots that are told apart; more never wait."""
_STEADY = 2
_ZERO: Floats = np.zeros(())
_ARRAY, _SFU, _DMA_OUT, _NOC_OUT = "at array", "at sfu", "at dma_out", "at noc_out"
_CHANNEL = "channel"
_DRAM, _LOADS, _STORES = "dram", "batches of loads", "batches of stores"
_READ, _WRITE = "read port", "write port"
_COUNTERS = frozenset({_DRAM, _LOADS, _STORES, _READ, _WRITE})


def cycles(top: Bodies, space: Space, units: Units, accelerator: Accelerator) -> Floats:
    """Return the cycles of a family whose loops have one order."""
    timeline = _Timeline(units, accelerator)
    sizes = {rank: ints(size) for rank, size in space.sizes.items()}
    timeline.body(top, sizes, sizes)
    return timeline.end()


class _Timeline:
    """What each engine and tile has reached (``x``), in cycles by candidate."""

    def __init__(self, units: Units, accelerator: Accelerator) -> None:
        self.units, self.accelerator = units, accelerator
        self.x: Times = {}
        self.trips: dict[tuple[int, int], _Trips] = {}
        self.begun: dict[str, Bools] = {}
        self.slid: Bools = _FALSE
        self.more: Bools = _FALSE
        self.last: _Request | None = None
        self.wrote = False
        """Whether the last transfer with DRAM was a store."""
        self.gathers = False

    def end(self) -> Floats:
        found = _ZERO
        for key, time in self.x.items():
            if isinstance(key, str) and key.startswith("at "):
                found = np.maximum(found, time)
        return found

    def get(self, key: object) -> Floats:
        return self.x.get(key, _ZERO)

    # -- bodies and loops

    def body(self, body: Bodies, sizes: Sizes, following: Sizes) -> None:
        """Go through a body; ``following``: sizes of the iteration after this one."""
        self.open(body.tiles, sizes)
        self._ahead(body.tiles, following, 2)
        for number, item in enumerate(body.items):
            self.item(item, sizes)
            self.past(body, number)
        self.close(body.tiles, sizes)
        self._ahead(body.tiles, following, 1)

    def past(self, body: Bodies, number: int) -> None:
        """Let tiles go that no later item touches, when their last engine is past this one."""
        for tiled, engine in body.last_uses.get(number, ()):
            self._used(tiled.key, self.get(engine))

    def item(self, item: Bodies | Work, sizes: dict[str, Ints]) -> None:
        if isinstance(item, Work):
            self._work(item, sizes)
        elif item.part is not None:
            adders = item.adders if item.part.start else frozenset()
            inside = {**sizes, item.part.rank: ints(item.part.size)}
            with self._turn(adders, _TRUE if adders else _FALSE, _FALSE):
                self.body(item, inside, inside)
        else:
            if item.two_pass is not None:
                item.two_pass.step, self.gathers = "statistics", True
                self._swap_slots(item)
                with self._turn(frozenset(), self.slid, _TRUE):
                    self._loop(item, sizes)
                self._swap_slots(item)
                item.two_pass.step, self.gathers = "normalise", False
            self._loop(item, sizes)
            for work, summed in item.divides:
                self._correct("divide", work, summed, sizes, _TRUE)

    def _swap_slots(self, body: Bodies) -> None:
        """Change between the tiles that give statistics and those that are normalised."""
        for tiled in body.tiles:
            for n in range(1, _RING + 1):
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
        if adders and before is not _FALSE:
            begun = {
                name: before if before is _TRUE else self.begun.get(name, _FALSE) | before
                for name in adders
            }
            self.begun = {**self.begun, **begun}
        self.slid, self.more = before, more
        yield
        self.begun, self.slid, self.more = was

    def _trips(self, body: Bodies, size: Ints) -> _Trips:
        """Return how a loop cuts what arrives, worked out once."""
        key = (id(body), id(size))
        if key not in self.trips:
            self.trips[key] = _Trips(size, body.tile)
        return self.trips[key]

    def _loop(self, body: Bodies, sizes: dict[str, Ints]) -> None:
        trips = self._trips(body, sizes[body.rank])
        if trips.one:
            with self._turn(frozenset(), _FALSE, self.more):
                self.body(body, sizes, sizes)
            return
        rank, outside = body.rank, self.more
        whole = {**sizes, rank: body.tile}
        runs = _Ahead(self, body) if body.ahead else self.body
        period = min(math.lcm(*(n for tiled in body.tiles for n, _ in tiled.by_slots)), _RING)
        most = min(trips.most, _FEW + period)
        history: list[Times] = []
        done = 0
        while done < most:
            history.append(dict(self.x))
            adders, before = (body.adders, _TRUE) if done else (frozenset(), _FALSE)
            following = {**sizes, rank: trips.following(done)}
            with self._turn(adders, before, trips.more(done, outside)):
                self._where(trips.runs(done), runs, body, (whole, following))
            done += 1
            if done > _STEADY and _grows_evenly(history[-2], history[-1], self.x):
                period = 1
                break
        if trips.most > done:
            period = min(period, done)
            self._extrapolate(history[-period], np.maximum(trips.full - done, 0) / period)
        if trips.ragged:
            last = {**sizes, rank: trips.rest}
            with self._turn(body.adders, trips.full > 0, outside):
                self._where(trips.has_rest, runs, body, (last, whole))
        if isinstance(runs, _Ahead):
            runs.finish()

    def _where(self, where: Bools, runs: Runs, body: Bodies, sizes: tuple[Sizes, Sizes]) -> None:
        """Run an iteration for some of the candidates; ``sizes``: its own, and the next one's."""
        if where is _TRUE or where.all():
            runs(body, *sizes)
            return
        before = dict(self.x)
        runs(body, *sizes)
        for key, new in self.x.items():
            old = before.get(key, _ZERO)
            if new is not old:
                self.x[key] = np.where(where, new, old)

    def _extrapolate(self, last: Times, more: Floats) -> None:
        """Let ``more`` periods since ``last`` follow at the steady interval."""
        growth = {
            key: time - last.get(key, _ZERO)
            for key, time in self.x.items()
            if time is not last.get(key)
        }
        interval = self._interval(growth)
        for key, value in growth.items():
            if key in _COUNTERS:
                self.x[key] = self.x[key] + more * value
            else:
                self.x[key] = self.x[key] + np.where(value > 0, more * interval, 0)

    def _interval(self, growth: Times) -> Floats:
        """Return the steady interval: of engines, and of the work of each resource."""
        spec = self.accelerator.dram
        turns = np.minimum(growth.get(_LOADS, _ZERO), growth.get(_STORES, _ZERO))
        found = growth.get(_DRAM, _ZERO) + 2 * spec.turnaround_cycles * turns
        for key in (_READ, _WRITE, _ARRAY, _SFU, _DMA_OUT, _NOC_OUT):
            found = np.maximum(found, growth.get(key, _ZERO))
        return found

    # -- tiles

    def open(self, tiles: list[Tiled], sizes: Sizes, *, early: int = 0) -> None:
        """Let the tiles of a body come, those that have not been asked for before."""
        for tiled in tiles:
            ready = ("ready", tiled.key)
            if tiled.maker is None:
                coming = self.x.get(("next", tiled.key))
                if coming is None:
                    self._load(tiled, sizes, self._free(tiled, early), tiled.own, ready)
                    continue
                cold = tiled.own & (coming < 0)
                if cold.any():
                    self._load(tiled, sizes, self._free(tiled, early), cold, ready)
                here = tiled.own & (coming >= 0)
                self.x[ready] = np.where(here, coming, self.get(ready))
                self.x["next", tiled.key] = np.where(tiled.own, -1.0, coming)
                continue
            free = self._free(tiled, early)
            self.x[ready] = _pick(tiled.own, free, self.get(ready))
            begun = self.begun.get(tiled.maker.name, _FALSE)
            if tiled.may_spill and begun is not _FALSE:
                back = tiled.own & tiled.spills & begun
                if back.any():
                    self._load(tiled, sizes, free, back, ready)

    def _ahead(self, tiles: list[Tiled], sizes: Sizes, least: int) -> None:
        """Ask for the next tiles: of several slots at once, of one when it is free."""
        if self.more is _FALSE:
            return
        for tiled in tiles:
            if tiled.maker is not None or tiled.outside is not None:
                continue
            mine = tiled.several if least > 1 else tiled.single
            if mine is None:
                continue
            where = mine if self.more is _TRUE else mine & self.more
            key = ("next", tiled.key)
            if key not in self.x:
                self.x[key] = np.full((), -1.0)
            slid, self.slid = self.slid, _TRUE
            self._load(tiled, sizes, self._free(tiled, least - 1), where, key)
            self.slid = slid

    def _free(self, tiled: Tiled, early: int) -> Floats:
        """Return when a slot of a tile is free; ``early``: one release is still to come."""
        found = _ZERO
        for n, here in tiled.by_slots:
            if 0 < n - early <= _RING:
                free = self.get((tiled.key, n - early))
                found = free if here is None else np.where(here, free, found)
        return found

    def _load(
        self, tiled: Tiled, sizes: Sizes, free: Floats, where: Bools, arrival: object
    ) -> None:
        """Bring a tile; when it is there is noted under ``arrival``."""
        move = self.units.move(tiled, sizes, self.slid, up=False)
        engine = f"at {'noc_in' if move.on_chip else 'dma_in'}{tiled.queue}"
        begin = np.maximum(self.get(engine), free)
        if tiled.outside is not None:
            begin = np.maximum(begin, self.get(("ready", tiled.outside)))
        if move.on_chip:
            end = begin + np.maximum(move.service, move.port)
        else:
            end = self._served(begin, move, where, (engine, arrival))
        self.x[engine] = _pick(where, end, self.get(engine))
        self.x[arrival] = _pick(where, end + move.latency, self.get(arrival))
        if tiled.outside is not None:
            self._used(tiled.outside, self.x[engine])
        self._count(move, where, loads=True)

    def _served(self, begin: Floats, move: Move, where: Bools, keys: tuple[str, object]) -> Floats:
        """Return when a load has been served: the oldest first, sharing the channel with stores.

        One that is asked for before the last one that was gone through goes ahead of it.
        """
        free, last = self.get(_CHANNEL), self.last
        earlier = _FALSE if last is None else where & (begin < last.begin)
        if last is not None and earlier.any():
            start = np.maximum(begin, np.where(earlier, last.free, free))
            end = self._beside_stores(start, move)
            took = np.where(earlier, np.maximum(end - np.maximum(last.begin, last.free), 0), 0)
            for key in last.keys:
                self.x[key] = self.get(key) + took
            last.free = np.where(earlier, end, last.free)
            self.x[_CHANNEL] = np.where(earlier, free + took, _pick(where, end, free))
            return end
        start = np.maximum(begin, free)
        end = self._beside_stores(start, move)
        self.last = _Request(begin, free, keys)
        self.x[_CHANNEL] = _pick(where, end, free)
        return end

    def _beside_stores(self, begin: Floats, move: Move) -> Floats:
        """Return when a load that is served from ``begin`` on ends beside stores, in batches."""
        turn = self.accelerator.dram.turnaround_cycles
        begin = begin + (move.service > 0) * turn * int(self.wrote)
        self.wrote = False
        end = begin + np.maximum(move.service, move.port)
        batch = np.maximum(1, move.service / np.maximum(1, move.batches))
        for n in (1, 0):
            first, last = ("store", n, "begin"), ("store", n, "end")
            since = np.maximum(begin, self.get(first))
            both = np.maximum(np.minimum(end - since, self.get(last) - since), 0)
            end = end + both + 2 * turn * np.floor(both / batch)
            self.x[first] = np.where(both > 0, since + 2 * both, self.get(first))
            self.x[last] = self.get(last) + both
        return end

    def _behind_loads(self, begin: Floats, move: Move, where: Bools) -> Floats:
        """Return when a store is served: after a batch of loads, which then wait for it."""
        accelerator, free = self.accelerator, self.get(_CHANNEL)
        turn = accelerator.dram.turnaround_cycles * (move.service > 0)
        batch = accelerator.channel_read_rate.cycles(accelerator.dram.batch_bytes)
        left = np.maximum(free - begin, 0)
        more = np.where(where & (left > batch), move.service + 2 * turn, 0)
        if more.any():
            self.x[_CHANNEL] = free + more
            for key in self.last.keys if self.last is not None else ():
                self.x[key] = self.get(key) + more
        begin = begin + np.minimum(left, batch) + turn * int(not self.wrote)
        self.wrote = True
        return begin

    def _count(self, move: Move, where: Bools, *, loads: bool) -> None:
        """Count the work of ports, of the DRAM channel and of requests in flight."""
        port = _READ if loads == move.on_chip else _WRITE
        self._add(port, where, move.port)
        if not move.on_chip:
            self._add(_DRAM, where, move.service)
            self._add(_LOADS if loads else _STORES, where, move.batches)

    def _add(self, key: str, where: Bools, amount: Ints) -> None:
        self.x[key] = self.get(key) + (amount if where is _TRUE else where * amount)

    def _used(self, key: int, end: Floats) -> None:
        name = ("used", key)
        self.x[name] = np.maximum(self.get(name), end)

    def close(self, tiles: list[Tiled], sizes: dict[str, Ints]) -> None:
        for tiled in reversed(tiles):
            if tiled.maker is not None and tiled.level != BUFFER:
                self._store(tiled, sizes)
            elif not (self.gathers and tiled.maker is None):
                for _ in tiled.stores:
                    self._store(tiled, sizes)
            self._release(tiled)

    def _release(self, tiled: Tiled) -> None:
        used = self.get(("used", tiled.key))
        for n in range(min(tiled.most, _RING), 1, -1):
            self.x[tiled.key, n] = _pick(
                tiled.own, self.get((tiled.key, n - 1)), self.get((tiled.key, n))
            )
        self.x[tiled.key, 1] = _pick(tiled.own, used, self.get((tiled.key, 1)))

    def _store(self, tiled: Tiled, sizes: dict[str, Ints]) -> None:
        move = self.units.move(tiled, sizes, self.slid, up=True)
        engine = _NOC_OUT if move.on_chip else _DMA_OUT
        begin = np.maximum(self.get(engine), self.get(("ready", tiled.key)))
        if tiled.outside is not None:
            begin = np.maximum(begin, self.get(("begun", tiled.outside)))
        if not move.on_chip:
            begin = self._behind_loads(begin, move, tiled.own)
        end = begin + np.maximum(move.service, move.port)
        self.x[engine] = _pick(tiled.own, end, self.get(engine))
        if not move.on_chip:
            for part, value in (("begin", begin), ("end", end)):
                newest = self.get(("store", 0, part))
                self.x["store", 1, part] = _pick(tiled.own, newest, self.get(("store", 1, part)))
                self.x["store", 0, part] = _pick(tiled.own, value, newest)
        self._used(tiled.key, _pick(tiled.own, end + move.latency, _ZERO))
        if tiled.outside is not None:
            ready = ("ready", tiled.outside)
            self.x[ready] = np.maximum(self.get(ready), end + move.latency)
            self._used(tiled.outside, self.x[ready])
        self._count(move, tiled.own, loads=False)

    # -- work

    def _work(self, work: Work, sizes: dict[str, Ints]) -> None:
        engine = _SFU if work.do.unit == "sfu" else _ARRAY
        block = self.units.block(work, sizes, self.begun.get(work.seen.name, _FALSE))
        keys = [key for key in work.keys if key is not None]
        begin = self.get(engine)
        for key in keys:
            begin = np.maximum(begin, self.get(("ready", key)))
        end = begin + block.cycles
        self.x[engine] = end
        self._finish(keys, work.keys[-1], end, block.read, block.write)
        for summed in work.corrects if work.step == "online" else ():
            begun = self.begun.get(summed.seen.name, _FALSE)
            if np.any(begun):
                self._correct("rescale", work, summed, sizes, begun)

    def _finish(
        self, keys: list[int], made: int | None, end: Floats, read: Ints, write: Ints
    ) -> None:
        self.x[_READ] = self.get(_READ) + read
        self.x[_WRITE] = self.get(_WRITE) + write
        for key in keys:
            self._used(key, end)
        if made is not None:
            self.x["ready", made] = end

    def _correct(
        self, step: str, work: Work, summed: Work, sizes: dict[str, Ints], where: Bools
    ) -> None:
        block = self.units.correction(step, work, summed.seen.output, sizes)
        key = summed.keys[-1]
        ready = self.get(("ready", key)) if key is not None else _ZERO
        end = np.maximum(self.get(_SFU), ready) + block.cycles
        self.x[_SFU] = _pick(where, end, self.get(_SFU))
        if key is not None:
            self.x["ready", key] = _pick(where, end, ready)
            self._used(key, self.x["ready", key])
        self.x[_READ] = self.get(_READ) + where * block.read
        self.x[_WRITE] = self.get(_WRITE) + where * block.write


@dataclass(eq=False)
class _Request:
    """A load: when it was asked for, when the channel was free before it, and what it set."""

    begin: Floats
    free: Floats
    keys: tuple[str, object]


class _Trips:
    """The trips of a loop over what arrives: full ones, and a smaller last one."""

    def __init__(self, size: Ints, tile: Ints) -> None:
        self.size = size
        self.one = not bool((size > tile).any())
        self.full, rest = size // tile, size % tile
        self.most, self.least = int(self.full.max()), int(self.full.min())
        self.has_rest: Bools = rest > 0
        self.ragged = bool(self.has_rest.any())
        self.rest: Ints = np.maximum(rest, 1)
        self.tile = tile
        self.known: dict[int, Ints] = {}

    def runs(self, number: int) -> Bools:
        """Say which candidates have an iteration of a full tile with this number."""
        return _TRUE if number < self.least else self.full > number

    def more(self, number: int, outside: Bools) -> Bools:
        """Say where an iteration follows, or one of a loop outside does."""
        if outside is _TRUE or number + 1 < self.least:
            return _TRUE
        return (number + 1 < self.full + self.has_rest) | outside

    def following(self, number: int) -> Ints:
        """Return the size of the piece after the full one with this number."""
        if number + 1 < self.least:
            return self.tile
        if number not in self.known:
            ends = (number + 1 >= self.full) & self.has_rest
            self.known[number] = np.where(ends, self.rest, self.tile)
        return self.known[number]


class _Ahead:
    """A loop whose body's first items run an iteration early (software pipelining)."""

    def __init__(self, timeline: _Timeline, body: Bodies) -> None:
        self.timeline, self.whole = timeline, body
        cut = body.ahead
        early = {key for item in body.items[:cut] for work in _works(item) for key in work.keys}
        late = {key for item in body.items[cut:] for work in _works(item) for key in work.keys}
        self.first = [tiled for tiled in body.tiles if tiled.key in early]
        self.crossing = [tiled for tiled in self.first if tiled.key in late]
        self.second = [tiled for tiled in body.tiles if tiled.key not in early]
        self.waits: tuple[Times, dict[str, Ints], dict[str, Bools], Bools] | None = None

    def __call__(self, body: Bodies, sizes: Sizes, _following: Sizes) -> None:
        timeline = self.timeline
        for tiled in self.first:
            early = int(tiled in self.crossing and self.waits is not None)
            timeline.open([tiled], sizes, early=early)
        for tiled in self.crossing:
            timeline.x["used", tiled.key] = _ZERO
        for number, item in enumerate(body.items[: body.ahead]):
            timeline.item(item, sizes)
            timeline.past(body, number)
        timeline.close([t for t in self.first if t not in self.crossing], sizes)
        made = self._tiles(self.crossing)
        now = made, sizes, timeline.begun, timeline.slid
        if self.waits is not None:
            self._behind()
            timeline.x.update({key: made[key] for key in made})
        self.waits = now

    def _tiles(self, tiles: list[Tiled]) -> Times:
        x = self.timeline.x
        return {
            key: x.get(key, _ZERO)
            for tiled in tiles
            for key in (("ready", tiled.key), ("used", tiled.key))
        }

    def _behind(self) -> None:
        """Run the later part of the iteration before."""
        assert self.waits is not None  # noqa: S101 - narrows the type
        timeline = self.timeline
        made, sizes, begun, slid = self.waits
        timeline.x.update(made)
        now = timeline.begun, timeline.slid
        timeline.begun, timeline.slid = begun, slid
        timeline.open(self.second, sizes)
        for number, item in enumerate(self.whole.items):
            if number >= self.whole.ahead:
                timeline.item(item, sizes)
                timeline.past(self.whole, number)
        timeline.close([*self.second, *self.crossing], sizes)
        timeline.begun, timeline.slid = now

    def finish(self) -> None:
        """Run what is left."""
        if self.waits is not None:
            self._behind()


Runs = Callable[[Bodies, Sizes, Sizes], None]


def _works(item: Bodies | Work) -> tuple[Work, ...]:
    return item.works if isinstance(item, Bodies) else (item,)


def _pick(where: Bools, new: Floats, old: Floats) -> Floats:
    """Take the new where something holds."""
    return new if where is _TRUE else np.where(where, new, old)


def _grows_evenly(older: Times, last: Times, now: Times) -> bool:
    """Whether the last two iterations took the same everywhere."""
    for key, time in now.items():
        before = last.get(key, _ZERO)
        if time is before:
            continue
        if not np.array_equal(time - before, before - older.get(key, _ZERO)):
            return False
    return True
