"""Tiles that come and go in time: what each load and store asks for, holds and sets."""

from __future__ import annotations

from functools import partial

from simaccel.analytic.blocks import Move
from simaccel.analytic.bodies import FALSE, RING, TRUE, Tiled
from simaccel.analytic.family import Bools, Floats, ints
from simaccel.analytic.pointwise import anywhere, larger, pick, smaller
from simaccel.analytic.timing.channels import Channels
from simaccel.analytic.timing.lines import Line, Post, Request
from simaccel.analytic.timing.times import (
    ARRAY,
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
from simaccel.analytic.timing.turns import Posted
from simaccel.analytic.units import Units
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import BUFFER


class Traffic(Channels):
    """Tiles that come and go, with the slots that they wait for."""

    def __init__(self, units: Units, accelerator: Accelerator, begin: Begin | None) -> None:
        super().__init__(accelerator, begin)
        self.gate = None if begin is None else begin.gate
        self.units = units
        self.slid: Bools = FALSE

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
            posted, later, moved = self._behind_loads(begin, move, tiled.own)
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
            self.set_later([*moved, *self._serve_again(line, later, ends)])
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
        self.go_on(moved, more, growth, interval)
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
