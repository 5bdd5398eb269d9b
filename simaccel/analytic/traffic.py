"""Loads and stores in time: DRAM serves the oldest load first, and stores in batches between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simaccel.analytic.blocks import Move, Units
from simaccel.analytic.family import Bools, Floats
from simaccel.analytic.schedule import FALSE, TRUE, Tiled
from simaccel.analytic.times import (
    ARRAY,
    CHANNEL,
    COUNTERS,
    DMA_OUT,
    DRAM,
    LOADS,
    NOC_OUT,
    READ,
    RING,
    SFU,
    STORES,
    WRITE,
    ZERO,
    Sizes,
    State,
    Times,
    pick,
)
from simaccel.hardware import Accelerator

_RECENT = 8
"""Loads of which a later one of the program may go ahead."""


@dataclass(eq=False)
class Request:
    """A load: when it was asked for (-1: not by this candidate), served, and the channel free."""

    begin: Floats
    free: Floats
    end: Floats
    keys: tuple[str, object]
    """What its end has set."""


class Traffic(State):
    """Tiles that come and go, with the slots that they wait for."""

    def __init__(self, units: Units, accelerator: Accelerator) -> None:
        super().__init__()
        self.units, self.accelerator = units, accelerator
        self.slid: Bools = FALSE
        self.present: Bools = TRUE
        """Candidates that have the present iteration."""
        self.recent: list[Request] = []
        """The last loads in the order in which they are served."""
        self.wrote = False
        """Whether the last transfer with DRAM was a store."""

    def load(self, tiled: Tiled, sizes: Sizes, free: Floats, where: Bools, arrival: object) -> None:
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
        self.x[engine] = pick(where, end, self.get(engine))
        self.x[arrival] = pick(where, end + move.latency, self.get(arrival))
        if tiled.outside is not None:
            self.use(tiled.outside, self.x[engine])
        self._count(move, where, loads=True)

    def store(self, tiled: Tiled, sizes: Sizes) -> None:
        """Take a tile away when it has been made."""
        move = self.units.move(tiled, sizes, self.slid, up=True)
        engine = NOC_OUT if move.on_chip else DMA_OUT
        begin = np.maximum(self.get(engine), self.get(("ready", tiled.key)))
        if not move.on_chip:
            begin = self._behind_loads(begin, move, tiled.own)
        end = begin + np.maximum(move.service, move.port)
        self.x[engine] = pick(tiled.own, end, self.get(engine))
        if not move.on_chip:
            for part, value in (("begin", begin), ("end", end)):
                newest = self.get(("store", 0, part))
                self.x["store", 1, part] = pick(tiled.own, newest, self.get(("store", 1, part)))
                self.x["store", 0, part] = pick(tiled.own, value, newest)
        self.use(tiled.key, pick(tiled.own, end + move.latency, ZERO))
        if tiled.outside is not None:
            inside = ("stored", tiled.outside)
            self.x[inside] = np.maximum(self.get(inside), end + move.latency)
            self.use(tiled.outside, self.x[inside])
        self._count(move, tiled.own, loads=False)

    def free(self, tiled: Tiled, early: Bools) -> Floats:
        """Return when a slot of a tile is free; where ``early`` one release is still to come."""
        found = ZERO
        for n, here in tiled.by_slots:
            free = self._released(tiled, n) if early is not TRUE else self._released(tiled, n - 1)
            if early is not FALSE and early is not TRUE:
                free = np.where(early, self._released(tiled, n - 1), free)
            found = free if here is None else np.where(here, free, found)
        return found

    def _released(self, tiled: Tiled, n: int) -> Floats:
        return self.get((tiled.key, n)) if 0 < n <= RING else ZERO

    def use(self, key: int, end: Floats) -> None:
        """Note that a tile is in use until a time."""
        name = ("used", key)
        self.x[name] = np.maximum(self.get(name), end)

    def _served(self, begin: Floats, move: Move, where: Bools, keys: tuple[str, object]) -> Floats:
        """Return when a load has been served: the oldest first, sharing the channel with stores.

        One that is asked for before the last ones that were gone through goes ahead of them.
        """
        free = self.get(CHANNEL)
        start, first = np.maximum(begin, free), free
        behind: list[tuple[Request, Bools]] = []
        earlier = where
        for other in reversed(self.recent):
            later = earlier & (begin < other.begin)
            earlier = later | (earlier & (other.begin < 0))
            if not earlier.any():
                break
            behind.insert(0, (other, later))
            first = np.where(later, other.free, first)
            start = np.where(later, np.maximum(begin, other.free), start)
        end = self._beside_stores(start, move)
        done = pick(where, end, free)
        for other, later in behind:
            shift = np.where(later, np.maximum(done - np.maximum(other.begin, other.free), 0), 0)
            other.free = np.where(later, done, other.free)
            other.end = other.end + shift
            for key in other.keys:
                if self._sets(key) is other:
                    self.x[key] = self.get(key) + shift
            done = np.where(later, other.end, done)
        self.x[CHANNEL] = np.maximum(done, free)
        at = len(self.recent) - len(behind)
        there = where if self.present is TRUE else where & self.present
        asked = begin if there is TRUE else np.where(there, begin, -1.0)
        self.recent.insert(at, Request(asked, first, end, keys))
        del self.recent[:-_RECENT]
        return end

    def _sets(self, key: object) -> Request | None:
        """Return the last request whose end is noted under a key."""
        return next((one for one in reversed(self.recent) if key in one.keys), None)

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
        accelerator, free = self.accelerator, self.get(CHANNEL)
        turn = accelerator.dram.turnaround_cycles * (move.service > 0)
        batch = accelerator.batch_cycles(write=False)
        left = np.maximum(free - begin, 0)
        more = np.where(where & (left > batch), move.service + 2 * turn, 0)
        if more.any():
            self.x[CHANNEL] = free + more
            if self.recent:
                last = self.recent[-1]
                more = np.where(last.begin >= 0, more, 0)
                last.end = last.end + more
                for key in last.keys:
                    self.x[key] = self.get(key) + more
        begin = begin + np.minimum(left, batch) + turn * int(not self.wrote)
        self.wrote = True
        return begin

    def _count(self, move: Move, where: Bools, *, loads: bool) -> None:
        """Count the work of ports, of the DRAM channel and of requests in flight."""
        port = READ if loads == move.on_chip else WRITE
        self.add(port, where, move.port)
        if not move.on_chip:
            self.add(DRAM, where, move.service)
            self.add(LOADS if loads else STORES, where, move.batches)

    def skip(self, last: Times, more: Floats) -> None:
        """Let ``more`` periods since ``last`` follow at the steady interval."""
        growth = {
            key: time - last.get(key, ZERO)
            for key, time in self.x.items()
            if time is not last.get(key)
        }
        self.recent.clear()
        interval = self._interval(growth)
        for key, value in growth.items():
            if key in COUNTERS:
                self.x[key] = self.x[key] + more * value
            else:
                self.x[key] = self.x[key] + np.where(value > 0, more * interval, 0)

    def _interval(self, growth: Times) -> Floats:
        """Return the steady interval: of engines, and of the work of each resource."""
        spec = self.accelerator.dram
        turns = np.minimum(growth.get(LOADS, ZERO), growth.get(STORES, ZERO))
        found: Floats = growth.get(DRAM, ZERO) + 2 * spec.turnaround_cycles * turns
        for key in (READ, WRITE, ARRAY, SFU, DMA_OUT, NOC_OUT):
            found = np.maximum(found, growth.get(key, ZERO))
        return found
