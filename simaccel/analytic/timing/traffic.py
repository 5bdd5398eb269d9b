"""Loads and stores in time: DRAM serves the oldest load first, and stores in batches between."""

from __future__ import annotations

from functools import partial

from simaccel.analytic.blocks import Move
from simaccel.analytic.bodies import FALSE, RING, TRUE, Tiled
from simaccel.analytic.family import Bools, Floats, ints
from simaccel.analytic.pointwise import anywhere, larger, pick, plain, smaller, without
from simaccel.analytic.timing.lines import Line, Post, Request, in_order
from simaccel.analytic.timing.pipes import Pipes
from simaccel.analytic.timing.times import (
    ARRAY,
    COUNTERS,
    DMA_OUT,
    DOWN,
    DRAM,
    EARLIER,
    NOC_OUT,
    READ,
    SFU,
    STORES,
    UP,
    WRITE,
    ZERO,
    Begin,
    Sizes,
    Times,
)
from simaccel.analytic.timing.turns import Posted, after_loads, delay_of, meeting
from simaccel.analytic.units import Units
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import BUFFER

_Late = list[tuple[Request, Bools]]
"""Loads with whose they are."""


class Traffic(Pipes):
    """Tiles that come and go, with the slots that they wait for."""

    def __init__(self, units: Units, accelerator: Accelerator, begin: Begin | None) -> None:
        super().__init__(accelerator, begin)
        self.gate = None if begin is None else begin.gate
        self.units = units
        self.slid: Bools = FALSE
        wrote = frozenset() if begin is None else begin.wrote
        self.lines = {
            name: Line(
                at,
                name,
                wrote=TRUE if name in wrote else FALSE,
                stored=set() if begin is None else set(EARLIER),
            )
            for name, at in accelerator.every_backing.items()
        }
        """The channels of DRAM and of the memories beside it."""
        for line in self.lines.values() if begin is not None else ():
            for n, key in enumerate(EARLIER):
                self.x[line.kept, n, "tile"] = plain(ints(key))
                line.until = larger(line.until, self.x[line.kept, n, "end"])
        self.counters = COUNTERS | {
            line.key(what) for line in self.lines.values() for what in (DRAM, STORES)
        }

    def load(self, tiled: Tiled, sizes: Sizes, free: Floats, where: Bools, arrival: object) -> None:
        """Bring a tile; when it is there is noted under ``arrival``."""
        move = self.units.move(tiled, sizes, self.slid, tiled.view.kind, up=False)
        engine = f"at {'noc_in' if move.on_chip else 'dma_in'}{tiled.queue}"
        begin = larger(self.x[engine], free)
        gate = self.gate if tiled.outside is None else None
        gate = None if gate is not None and tiled.tensor in gate.ahead else gate
        if gate is not None and tiled.tensor not in gate.early:
            begin = larger(begin, gate.cycle)
        if tiled.outside is not None:
            begin = larger(begin, self.x["ready", tiled.outside])
        late = None
        if move.on_chip:
            end = begin + move.longest
        else:
            request = self._served(begin, move, where, engine, tiled)
            end, late = request.end, partial(self._load_late, request)
        self.use_port(READ if move.on_chip else WRITE, engine, begin, move.port, where, late)
        if tiled.level != BUFFER:
            arrivals = [("ready", tiled.key), *(("next", tiled.key, n) for n in range(tiled.most))]
            sets = [(engine, 0), (("used", tiled.outside), 0)]
            sets += [(one, move.latency) for one in arrivals]
            end = larger(end, self.piped(DOWN, engine, begin, move.pipe, where, sets))
        past = end if gate is None else larger(end, gate.cycle)
        self.x[engine] = pick(where, past, self.x[engine])
        self.x[arrival] = pick(where, end + move.latency, self.x[arrival])
        if tiled.outside is not None:
            self.use(tiled.outside, pick(where, self.x[engine], ZERO))
        self._count(move, where, loads=True)

    def store(self, tiled: Tiled, sizes: Sizes, kind: str) -> None:
        """Take a tile away, as a tensor of a class, when it has been made."""
        move = self.units.move(tiled, sizes, self.slid, kind, up=True)
        engine = NOC_OUT if move.on_chip else DMA_OUT
        begin = larger(self.x[engine], self.x["ready", tiled.key])
        # a tile of the buffer goes when PEs have stored into it, which waits for its slot
        first = ("ready", tiled.outside) if move.on_chip else ("stored", tiled.key)
        begin = larger(begin, self.x[first])
        if move.on_chip:
            end = begin + move.longest
        else:
            line = self.lines[move.memory]
            before, ends = [line.before(self.x)], [one.end for one in line.recent]
            posted, later = self._behind_loads(begin, move, tiled.own)
            delays = line.later_than(ends)
            end = larger(posted.end, begin + move.port)
        if tiled.level != BUFFER:
            sets = (engine, 0), (("used", tiled.key), move.latency)
            end = larger(end, self.piped(UP, engine, begin, move.pipe, tiled.own, sets))
        self.x[engine] = pick(tiled.own, end, self.x[engine])
        if not move.on_chip:
            there = self._there(tiled.own)
            asked = begin if there is TRUE else pick(there, begin, -1.0)
            one = Post(asked, tiled, move, line.stores, line.turn(), before, delays)
            self._post(line, one, posted, tiled.own)
            line.stores = line.stores + there
            line.posts = [*(old for old in line.posts if anywhere(line.keeps(old))), one]
        self.use(tiled.key, pick(tiled.own, end + move.latency, ZERO))
        if tiled.outside is not None:
            inside = ("stored", tiled.outside)
            stored = pick(tiled.own, end + move.latency, ZERO)
            self.x[inside] = larger(self.x[inside], stored)
            self.use(tiled.outside, stored)
        self._count(move, tiled.own, loads=False)
        late = None
        if not move.on_chip:
            self._serve_again(line, later, ends)
            late = partial(self._store_late, line)
        self.use_port(WRITE if move.on_chip else READ, engine, begin, move.port, tiled.own, late)

    def _post(self, line: Line, one: Post, posted: Posted, where: Bools) -> None:
        """Keep a store, as the last one."""
        kept = line.kept
        line.stored.add(one.tiled.key)
        line.until = larger(line.until, posted.end)
        newest = vars(posted) | {"port": one.begin + one.move.port, "tile": one.tiled.key}
        for part, time in newest.items():
            for n in range(len(EARLIER) - 1, 0, -1):
                newer = self.x[kept, n - 1, part]
                self.x[kept, n, part] = pick(where, newer, self.x[kept, n, part])
            self.x[kept, 0, part] = pick(where, time, self.x[kept, 0, part])

    def free(self, tiled: Tiled, early: Bools) -> Floats:
        """Return when a slot of a tile is free; where ``early`` one release is still to come."""
        found = ZERO
        for n, here in tiled.by_slots:
            free = self.released(tiled, n) if early is not TRUE else self.released(tiled, n - 1)
            if early is not FALSE and early is not TRUE:
                free = pick(early, self.released(tiled, n - 1), free)
            found = free if here is None else pick(here, free, found)
        return found

    def released(self, tiled: Tiled, n: int) -> Floats:
        """Return when the slot was released that was so many releases ago."""
        return self.x[tiled.key, n] if 0 < n <= RING else ZERO

    def use(self, key: int, end: Floats) -> None:
        """Note that a tile is in use until a time."""
        name = ("used", key)
        self.x[name] = larger(self.x[name], end)

    def _served(
        self, begin: Floats, move: Move, where: Bools, engine: str, tiled: Tiled
    ) -> Request:
        """Return a load that is served behind the others, sharing the channel with stores."""
        line = self.lines[move.memory]
        there, free, before = self._there(where), self.x[line.channel], [line.before(self.x)]
        start = larger(begin, free)
        end = self._beside_stores(begin, start, move, there)
        self.x[line.channel] = pick(there, larger(end, free), free)
        asked = begin if there is TRUE else pick(there, begin, -1.0)
        number, arrival = line.loads, end + move.latency
        found = Request(asked, tiled, move, number, line.turn(), before, end, engine, arrival)
        line.keep(found)
        line.latest = larger(line.latest, asked)
        line.loads = line.loads + there
        return found

    def _there(self, where: Bools) -> Bools:
        """Return the candidates that have a transfer: those of this iteration."""
        if self.present is TRUE:
            return where
        return self.present if where is TRUE else where & self.present

    def _shift(self, one: Request, shift: Floats) -> None:
        """Let a load end later, and what its end has set."""
        later = shift > 0
        if not anywhere(later):
            return
        key = one.tiled.key
        arrivals: list[object] = [("next", key, n) for n in range(one.tiled.far)]
        self.later_at([one.engine], one.end, shift)
        self.later_at([("ready", key), *arrivals], one.arrival, shift)
        one.end, one.arrival = one.end + shift, one.arrival + shift

    def _beside_stores(self, asked: Floats, start: Floats, move: Move, there: Bools) -> Floats:
        """Return when a load that is served from ``start`` on ends beside stores, in batches."""
        line = self.lines[move.memory]
        kept = line.kept
        turned, wrote = FALSE, line.wrote
        end = start + move.longest
        stored = anywhere(line.until > start)
        for n in range(len(EARLIER) - 1, -1, -1) if stored else ():
            last = self.x[kept, n, "end"]
            if not anywhere(ends := last > start):
                continue
            since = self.x[kept, n, "since"]
            meets = there & ends & (end > since) & (move.service > 0)
            if not anywhere(meets):
                continue
            store = Posted(since, self.x[kept, n, "begin"], last)
            met, later = meeting(asked, start, move.service, store, line.pace)
            met = larger(met, start + move.longest)
            start, end = pick(meets, start + met - end, start), pick(meets, met, end)
            for part in ("since", "begin"):
                value = self.x[kept, n, part]
                self.x[kept, n, part] = pick(meets, getattr(later, part), value)
            self._delay_store(line, n, pick(meets, later.end - last, 0))
            turned = turned | meets
            line.turned = pick(meets & (later.since != since), later.since, line.turned)
            wrote = pick(meets, later.end > end, wrote)
        line.wrote = wrote & (turned | without(there))
        if anywhere(before := there & without(turned) & wrote):
            turn = (move.service > 0) * line.pace.turn * before
            line.turned = pick(before, start + turn, line.turned)
            end = end + turn
        return end

    def _delay_store(self, line: Line, n: int, delay: Floats) -> None:
        """Let one of the last stores end later, and what waits for its end."""
        if not anywhere(delay):
            return
        end = (line.kept, n, "end")
        served, port = self.x[end], self.x[line.kept, n, "port"]
        last = larger(served, port)
        self.x[end] = served + delay
        line.until = larger(line.until, self.x[end])
        self._store_ends_later(line, n, last, larger(self.x[end], port) - last)

    def _store_ends_later(self, line: Line, n: int, last: Floats, delay: Floats) -> None:
        """Let what waits for the end of a store happen later."""
        if not anywhere(delay):
            return
        tile = self.x[line.kept, n, "tile"]
        for key in line.stored:
            mine = pick(tile == key, delay, 0)
            if anywhere(mine):
                slots = [(key, n) for n in range(1, RING + 1)]
                self.later_at([DMA_OUT, ("used", key), ("ready", key), *slots], last, mine)
                self._ask_later(line, key, last, mine)

    def _ask_later(self, line: Line, key: int, last: Floats, delay: Floats) -> None:
        """Let loads be asked for later that take the slot of a store."""
        for one in line.recent:
            if one.tiled.key == key and anywhere(same := (one.begin == last) & (delay > 0)):
                one.begin = one.begin + pick(same, delay, 0)
                self._shift(one, pick(same, delay, 0))
                free = self.x[line.channel]
                self.x[line.channel] = pick(same, larger(free, one.end), free)

    def _load_late(self, one: Request, was: Floats, served: Floats) -> None:
        """Let a load end when its port has served it, and not when it ``was``."""
        self._hold_up(one, pick(served > was, larger(served - one.end, 0), 0))

    def _hold_up(self, one: Request, late: Floats) -> None:
        """Let a load end later, and its loader ask for the next ones then."""
        if not anywhere(late):
            return
        ended = one.end
        self._shift(one, late)
        for other in self.lines[one.move.memory].recent:
            behind = (late > 0) & (other.begin == ended)
            if other.engine == one.engine and other is not one and anywhere(behind):
                other.begin = pick(behind, one.end, other.begin)
                least = one.end + other.move.longest - other.end
                self._hold_up(other, pick(behind, larger(least, 0), 0))

    def _store_late(self, line: Line, was: Floats, served: Floats) -> None:
        """Let a store end when its port has served it, and not when it ``was``."""
        for n in range(len(EARLIER)):
            end, port = ((line.kept, n, part) for part in ("end", "port"))
            mine = (self.x[port] == was) & (served > was)
            if anywhere(mine):
                last = larger(self.x[end], was)
                self.x[port] = pick(mine, served, self.x[port])
                self._store_ends_later(line, n, last, pick(mine, larger(served - last, 0), 0))

    def _behind_loads(self, asked: Floats, move: Move, where: Bools) -> tuple[Posted, _Late]:
        """Return when a store is served: after a batch of loads, which then wait for it.

        It gets its turn as well where loads run out, though a loader asks for its next one then:
        such loads are returned, with whose they are.
        """
        line = self.lines[move.memory]
        there, free = self._there(where), self.x[line.channel]
        behind = self._let_by_a_store(line, asked, there)
        until, later = self._until(line, asked, there, behind)
        wrote = line.wrote
        for _, mine in behind:
            wrote = wrote | mine
        posted = after_loads(asked, until, move.service, wrote, line.pace, line.turned)
        done = until
        if anywhere(there & (until > asked + line.pace.loads)):
            batch = asked + line.pace.loads
            for one in line.recent:
                if not anywhere(mine := one.end > batch):
                    continue
                if anywhere(mine := mine & there & line.counts(one) & (one.end <= until)):
                    delay = delay_of(one.end, asked, move.service, line.pace, line.turned)
                    self._shift(one, pick(mine, delay, 0))
            done = done + larger(delay_of(until, asked, move.service, line.pace, line.turned), 0)
        self.x[line.channel] = pick(there, done, free)
        line.turned = pick(there, posted.since, line.turned)
        line.wrote = pick(there, posted.end > done, line.wrote)
        return posted, later

    def _let_by_a_store(self, line: Line, asked: Floats, there: Bools) -> _Late:
        """Return loads that take a slot when a store ends, where the storer goes on at once.

        It asks for the next store before their loader knows of the slot.
        """
        goes_on = there & (asked > 0) & (self.x[DMA_OUT] == asked)
        if not anywhere(goes_on):
            return []
        stored = [one for one in line.recent if one.tiled.key in line.stored]
        every = [(one, goes_on & (one.begin == asked) & line.counts(one)) for one in stored]
        return [(one, mine) for one, mine in every if anywhere(mine)]

    def _until(
        self, line: Line, asked: Floats, there: Bools, behind: _Late
    ) -> tuple[Floats, _Late]:
        """Return when loads run out for the first time since a store waits, and those behind."""
        free = self.x[line.channel]
        if not anywhere(there & (free > asked)):
            return free, []
        after = [(one, mine) for one in line.recent if anywhere(mine := one.end > asked)]
        late = [(one, there & line.counts(one) & mine) for one, mine in after]
        late = [(one, mine) for one, mine in late if anywhere(mine)]
        until, at_once = free, FALSE
        for _, mine in behind:
            until, at_once = pick(mine, asked, until), at_once | mine
        for one, mine in late:
            first = mine & without(at_once & (one.begin >= asked))
            until = pick(first, pick(until > asked, smaller(until, one.end), one.end), until)
        for one, mine in in_order(late):
            until = pick(mine & (one.begin < until), larger(until, one.end), until)
        later = [(one, mine & (one.begin >= until)) for one, mine in late]
        return until, in_order([(one, mine) for one, mine in later if anywhere(mine)])

    def _serve_again(self, line: Line, later: _Late, ends: list[Floats]) -> None:
        """Serve loads behind a store, that were gone through before it.

        ``ends``: when those of the line had ended.
        """
        for one, mine in later:
            self._shift(one, self._load_again(line, one, mine, ends) - one.end)

    def _load_again(self, line: Line, one: Request, mine: Bools, ends: list[Floats]) -> Floats:
        """Return when a load ends that is served again, behind the one of its loader before."""
        begin, channel = one.begin, line.channel
        for other, end in zip(line.recent, ends, strict=True):
            if other is not one and other.engine == one.engine and other.end is not end:
                begin = pick(mine & (begin == end), other.end, begin)
        one.begin = begin
        line.latest = larger(line.latest, begin)
        free = self.x[channel]
        start = larger(begin, free)
        end = larger(self._beside_stores(begin, start, one.move, mine), one.end)
        end = pick(mine, end, one.end)
        self.x[channel] = pick(mine, end, free)
        return end

    def _count(self, move: Move, where: Bools, *, loads: bool) -> None:
        """Count the work of ports, of the DRAM channel and of requests in flight."""
        port = READ if loads == move.on_chip else WRITE
        self.add(port, where, move.port)
        if not move.on_chip:
            line = self.lines[move.memory]
            self.add(line.key(DRAM), where, move.service)
            if not loads:
                self.add(line.key(STORES), where, ints(1))

    def skip(self, last: Times, more: Floats) -> Floats:
        """Let ``more`` periods since ``last`` follow at the steady interval, or as many as do.

        Returns how many: until a request ends that was there before, and shares a pipe.
        """
        growth = {
            key: time - last.get(key, ZERO)
            for key, time in self.x.items()
            if time is not last.get(key)
        }
        interval = self._interval(growth)
        more = smaller(more, self.lasting(growth, interval))
        moved = pick(self._there(more > 0), more * interval, 0)
        was = [line.state(self.x) for line in self.lines.values()]
        self.go_on(moved, more, growth)
        for key, value in growth.items():
            if key in self.counters:
                self.x[key] = self.x[key] + more * value
            else:
                self.x[key] = self.x[key] + (value > 0) * moved
        for line, state in zip(self.lines.values(), was, strict=True):
            line.move_on(moved, state, self.x)
        self.still_there(growth, moved, more)
        return more

    def _interval(self, growth: Times) -> Floats:
        """Return the steady interval: of engines, and of the work of each resource."""
        found, work = ZERO, [line.key(DRAM) for line in self.lines.values()]
        for key in (*work, READ, WRITE, DOWN, UP, ARRAY, SFU, DMA_OUT, NOC_OUT):
            found = larger(found, growth.get(key, ZERO))
        return found
