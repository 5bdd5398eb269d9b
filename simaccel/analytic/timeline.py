"""How long a family takes: engines and tiles as max-plus recurrences, a few iterations a loop.

Every engine runs its commands in program order, a command starts when its tiles are there and its
slot is free, a slot is free when its tile has been used: a marked graph, whose times grow evenly
after a few iterations of a loop (Baccelli et al., *Synchronization and Linearity*, chapter 3). So the
first iterations of a loop, its steady interval and the smaller last one say all. The interval is no
shorter than the work of any resource in it, nor than its requests need with those in flight
(Little's law). What starts at once shares a channel in turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
Batch = list[tuple[Tiled, Floats, Bools]]
"""Loads that have begun together: tile, begin, and for which candidates."""
_FEW = 2
"""Iterations of a loop that are gone through, beyond the slots of its tiles."""
_RING = 6
"""Slots that are told apart; more never wait."""
_STEADY = 2
_ZERO: Floats = np.zeros(())
_ARRAY, _SFU, _DMA_OUT, _NOC_OUT = "at array", "at sfu", "at dma_out", "at noc_out"
_DRAM, _LOADS, _STORES, _REQUESTS = "dram", "dram loads", "dram stores", "requests"
_READ, _WRITE = "read port", "write port"
_COUNTERS = frozenset({_DRAM, _LOADS, _STORES, _REQUESTS, _READ, _WRITE})


def cycles(top: Bodies, space: Space, units: Units, accelerator: Accelerator) -> Floats:
    """Return the cycles of a family whose loops have one order."""
    timeline = _Timeline(units, accelerator)
    timeline.body(top, {rank: ints(size) for rank, size in space.sizes.items()})
    return timeline.end()


class _Timeline:
    """What each engine and tile has reached (``x``), in cycles by candidate."""

    def __init__(self, units: Units, accelerator: Accelerator) -> None:
        self.units, self.accelerator = units, accelerator
        self.x: Times = {}
        self.trips: dict[tuple[int, int], _Trips] = {}
        self.begun: dict[str, Bools] = {}
        self.slid: Bools = _FALSE
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

    def body(self, body: Bodies, sizes: dict[str, Ints]) -> None:
        self._open(body.tiles, sizes)
        for number, item in enumerate(body.items):
            self._item(item, sizes)
            self.past(body, number)
        self._close(body.tiles, sizes)

    def past(self, body: Bodies, number: int) -> None:
        """Let tiles go that no later item touches, when their last engine is past this one."""
        for tiled, engine in body.last_uses.get(number, ()):
            self._used(tiled.key, self.get(engine))

    def _item(self, item: Bodies | Work, sizes: dict[str, Ints]) -> None:
        if isinstance(item, Work):
            self._work(item, sizes)
        elif item.part is not None:
            adders = item.adders if item.part.start else frozenset()
            with self._after(adders, _TRUE):
                self.body(item, {**sizes, item.part.rank: ints(item.part.size)})
        else:
            if len(item.works) == 1 and item.works[0].step == "normalise":
                item.works[0].step, self.gathers = "statistics", True
                self._loop(item, sizes)
                item.works[0].step, self.gathers = "normalise", False
            self._loop(item, sizes)
            for work, summed in item.divides:
                self._correct("divide", work, summed, sizes, _TRUE)

    @contextmanager
    def _after(self, adders: frozenset[str], where: Bools) -> Iterator[None]:
        """Take sums as begun, and windows as slid, where there was an iteration before."""
        begun, slid = self.begun, self.slid
        if adders and where is not _FALSE:
            more = {
                name: where if where is _TRUE else begun.get(name, _FALSE) | where
                for name in adders
            }
            self.begun = {**begun, **more}
        self.slid = where
        yield
        self.begun, self.slid = begun, slid

    def _trips(self, body: Bodies, size: Ints) -> _Trips:
        """Return how a loop cuts what arrives, worked out once."""
        key = (id(body), id(size))
        if key not in self.trips:
            self.trips[key] = _Trips(size, body.tile)
        return self.trips[key]

    def _loop(self, body: Bodies, sizes: dict[str, Ints]) -> None:
        trips = self._trips(body, sizes[body.rank])
        if trips.one:
            with self._after(frozenset(), _FALSE):
                self.body(body, sizes)
            return
        full = trips.full
        whole = {**sizes, body.rank: body.tile}
        runs = _Ahead(self, body) if body.ahead else self.body
        period = min(math.lcm(*(n for tiled in body.tiles for n, _ in tiled.by_slots)), _RING)
        most = min(trips.most, _FEW + period)
        history: list[Times] = []
        done = 0
        while done < most:
            history.append(dict(self.x))
            with self._after(body.adders if done else frozenset(), _TRUE if done else _FALSE):
                self._where(_TRUE if done < trips.least else full > done, runs, body, whole)
            done += 1
            if done > _STEADY and _grows_evenly(history[-2], history[-1], self.x):
                period = 1
                break
        if trips.most > done:
            period = min(period, done)
            self._extrapolate(history[-period], np.maximum(full - done, 0) / period)
        if trips.ragged:
            with self._after(body.adders, full > 0):
                self._where(trips.has_rest, runs, body, {**sizes, body.rank: trips.rest})
        if isinstance(runs, _Ahead):
            runs.finish()

    def _where(self, where: Bools, runs: Runs, body: Bodies, sizes: dict[str, Ints]) -> None:
        """Run an iteration for some of the candidates."""
        if isinstance(runs, _Ahead):
            runs.where = where
        if where is _TRUE or where.all():
            runs(body, sizes)
            return
        before = dict(self.x)
        runs(body, sizes)
        self.restore(where, before)

    def restore(self, where: Bools, before: Times) -> None:
        """Keep what happened since for some of the candidates only."""
        if where is _TRUE:
            return
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
        found = np.maximum(found, growth.get(_REQUESTS, _ZERO) / spec.max_outstanding)
        for key in (_READ, _WRITE, _ARRAY, _SFU, _DMA_OUT, _NOC_OUT):
            found = np.maximum(found, growth.get(key, _ZERO))
        return found

    # -- tiles

    def _open(
        self, tiles: list[Tiled], sizes: dict[str, Ints], *, early: Bools = _FALSE
    ) -> None:
        batch: Batch = []
        for tiled in tiles:
            free = self._free(tiled, early)
            if tiled.maker is None:
                self._load(tiled, sizes, free, tiled.own, batch)
                continue
            ready = ("ready", tiled.key)
            self.x[ready] = _pick(tiled.own, free, self.get(ready))
            begun = self.begun.get(tiled.maker.name, _FALSE)
            if not tiled.may_spill or begun is _FALSE:
                continue
            back = tiled.own & tiled.spills & begun
            if back.any():
                self._load(tiled, sizes, free, back, batch)

    def _free(self, tiled: Tiled, early: Bools) -> Floats:
        """Return when a slot of a tile is free; where ``early`` one release is still to come."""
        found = _ZERO
        for n, here in tiled.by_slots:
            free = self._released(tiled, n)
            if early is not _FALSE:
                free = _pick(early, self._released(tiled, n - 1), free)
            found = free if here is None else np.where(here, free, found)
        return found

    def _released(self, tiled: Tiled, n: int) -> Floats:
        return self.get((tiled.key, n)) if 0 < n <= _RING else _ZERO

    def _load(
        self,
        tiled: Tiled,
        sizes: dict[str, Ints],
        free: Floats,
        where: Bools,
        batch: Batch,
    ) -> None:
        move = self.units.move(tiled, sizes, self.slid, up=False)
        engine = f"at {'noc_in' if move.on_chip else 'dma_in'}{tiled.queue}"
        begin = np.maximum(self.get(engine), free)
        if tiled.outside is not None:
            begin = np.maximum(begin, self.get(("ready", tiled.outside)))
        end = begin + np.maximum(move.service, move.port)
        if not move.on_chip:
            end = self._shared(begin, move, where, batch)
        self.x[engine] = _pick(where, end, self.get(engine))
        ready = ("ready", tiled.key)
        self.x[ready] = _pick(where, end + move.latency, self.get(ready))
        if tiled.outside is not None:
            self._used(tiled.outside, self.x[engine])
        elif not move.on_chip:
            batch.append((tiled, begin, where))
        self._count(move, where, loads=True)

    def _shared(self, begin: Floats, move: Move, where: Bools, batch: Batch) -> Floats:
        """Return when a load ends beside loads and stores that have begun, in turns."""
        end = begin + np.maximum(move.service, move.port)
        for n in (1, 0):
            first, last = ("store", n, "begin"), ("store", n, "end")
            since = np.maximum(begin, self.get(first))
            both = np.maximum(np.minimum(end - since, self.get(last) - since), 0) * where
            end = end + both
            self.x[first] = np.where(both > 0, since + 2 * both, self.get(first))
            self.x[last] = self.get(last) + both
        for other, other_begin, there in batch:
            engine, ready = f"at dma_in{other.queue}", ("ready", other.key)
            since = np.maximum(begin, other_begin)
            both = np.maximum(np.minimum(end - since, self.get(engine) - since), 0)
            both = both * (where & there)
            end = end + both
            # of two that share, the longer one ends when both are served
            self.x[engine] = self.get(engine) + both
            self.x[ready] = self.get(ready) + both
        return end

    def _count(self, move: Move, where: Bools, *, loads: bool) -> None:
        """Count the work of ports, of the DRAM channel and of requests in flight."""
        port = _READ if loads == move.on_chip else _WRITE
        self._add(port, where, move.port)
        if not move.on_chip:
            self._add(_DRAM, where, move.service)
            self._add(_LOADS if loads else _STORES, where, move.turns)
            self._add(_REQUESTS, where, move.service + move.latency)

    def _add(self, key: str, where: Bools, amount: Ints) -> None:
        self.x[key] = self.get(key) + (amount if where is _TRUE else where * amount)

    def _used(self, key: int, end: Floats) -> None:
        name = ("used", key)
        self.x[name] = np.maximum(self.get(name), end)

    def _close(self, tiles: list[Tiled], sizes: dict[str, Ints]) -> None:
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
        self.where: Bools = _TRUE
        """Candidates that have the present iteration."""
        self.waiting: Bools = _FALSE
        """Candidates with an iteration whose later part is still to come."""
        self.waits: Context | None = None

    def __call__(self, body: Bodies, sizes: dict[str, Ints]) -> None:
        timeline = self.timeline
        for tiled in self.first:
            early = self.waiting if tiled in self.crossing else _FALSE
            timeline._open([tiled], sizes, early=early)  # noqa: SLF001 - one algorithm in two classes
        for tiled in self.crossing:
            timeline.x["used", tiled.key] = _ZERO
        for number, item in enumerate(body.items[: body.ahead]):
            timeline._item(item, sizes)  # noqa: SLF001
            timeline.past(body, number)
        timeline._close([t for t in self.first if t not in self.crossing], sizes)  # noqa: SLF001
        made = self._tiles()
        self._behind()
        for key, time in made.items():
            timeline.x["made", key] = time
        now = sizes, timeline.begun, timeline.slid
        self.waits = now if self.waits is None else _merged(self.where, now, self.waits)
        self.waiting = _TRUE if self.where is _TRUE else self.waiting | self.where

    def _tiles(self) -> Times:
        x = self.timeline.x
        return {
            key: x.get(key, _ZERO)
            for tiled in self.crossing
            for key in (("ready", tiled.key), ("used", tiled.key))
        }

    def _behind(self) -> None:
        """Run the later part of the iteration before, for candidates that have one."""
        if self.waits is None:
            return
        timeline, before = self.timeline, dict(self.timeline.x)
        sizes, begun, slid = self.waits
        for key in self._tiles():
            timeline.x[key] = timeline.get(("made", key))
        now = timeline.begun, timeline.slid
        timeline.begun, timeline.slid = begun, slid
        timeline._open(self.second, sizes)  # noqa: SLF001
        for number, item in enumerate(self.whole.items):
            if number >= self.whole.ahead:
                timeline._item(item, sizes)  # noqa: SLF001
                timeline.past(self.whole, number)
        timeline._close([*self.second, *self.crossing], sizes)  # noqa: SLF001
        timeline.begun, timeline.slid = now
        timeline.restore(self.waiting, before)

    def finish(self) -> None:
        """Run what is left."""
        self._behind()


Context = tuple[dict[str, Ints], dict[str, Bools], Bools]
"""Sizes of an iteration, which sums had begun, and which windows slid."""


def _merged(where: Bools, new: Context, old: Context) -> Context:
    """Take the new context where something holds."""
    if where is _TRUE:
        return new
    sizes = {rank: ints(np.where(where, new[0][rank], old[0][rank])) for rank in new[0]}
    begun = {
        name: np.where(where, new[1].get(name, _FALSE), old[1].get(name, _FALSE))
        for name in {**new[1], **old[1]}
    }
    return sizes, begun, np.where(where, new[2], old[2])


Runs = Callable[[Bodies, dict[str, Ints]], None]


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
