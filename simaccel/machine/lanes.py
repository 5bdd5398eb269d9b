"""Lanes: what a listener hears of channels and tiles. Without a listener there are none.

A lane only watches. It moves on with the periods that are skipped, and says how far a period can
be repeated for it: when a request that nobody waits for ends, the machine doesn't care, but the
trace does.
"""

from __future__ import annotations

from typing import Protocol

from simaccel.machine.accounts import Listener
from simaccel.machine.batches import Batches
from simaccel.machine.clock import Clock
from simaccel.machine.stateful import FOREVER, Numbers, Skip, Stateful, Stretch
from simaccel.machine.turns import Turns


class Lane(Stateful):
    """The time since which nothing has been told, and what was counted by then."""

    COUNTERS = ("since", "told")
    WIRING = ("name", "clock", "listener")

    def __init__(self, name: str, clock: Clock, listener: Listener) -> None:
        self.name = name
        self.clock = clock
        self.listener = listener
        self.since = 0
        self.told = 0
        """Cycles of service that the listener has heard of."""

    def flush(self, now: int) -> None:
        """Tell what happened up to ``now``."""
        raise NotImplementedError

    def counters(self) -> Numbers:
        """Return how far the listener has heard; true at a flush only."""
        return self.since, self.told

    def skip(self, skip: Skip) -> None:
        """Take the periods as told: the listener repeats them."""
        for index, amount in skip.growth():
            if index:
                self.told += amount
            else:
                self.since += amount


class Server(Protocol):
    """What a lane sees of a channel."""

    turns: Turns | Batches
    served_cycles: int

    def catch_up(self) -> None:
        """Bring the turns up to the present cycle."""


class ChannelLane(Lane):
    """In use from a request to an idle channel until everybody is served.

    A use and the pause after it are told together, when the next use begins.
    """

    GAUGES = ("channel",)
    RECORDS = ("idle_since", "use", "pause", "cycles", "times")  # nothing is left of it at a flush

    def __init__(self, name: str, clock: Clock, listener: Listener, channel: Server) -> None:
        super().__init__(name, clock, listener)
        self.channel = channel
        self.idle_since = 0
        """When the last use ended, if nobody uses the channel now."""
        self.use = self.pause = self.cycles = 0
        """The cycles of the last uses, of the pauses after them, and of service in each use."""
        self.times = 0
        """How many uses with pauses like that have not been told."""

    def begin(self, now: int) -> None:
        """Note a request to an idle channel; without a pause it goes on with the use before."""
        idle = self.idle_since
        if now > idle:
            served = self.channel.served_cycles
            use, pause, cycles = idle - self.since, now - idle, served - self.told
            if use != self.use or pause != self.pause or cycles != self.cycles:
                self._tell()
                self.use, self.pause, self.cycles = use, pause, cycles
            self.times += 1
            self.since, self.told = now, served

    def _tell(self) -> None:
        if self.times:
            use, pause, times = self.use, self.pause, self.times
            start = self.since - (use + pause) * times
            self.listener.served(self.name, start, use, pause, self.cycles, times)
            self.times = 0

    def flush(self, now: int) -> None:
        """Tell what happened up to ``now``."""
        channel = self.channel
        channel.catch_up()
        self._tell()
        if now <= self.since:
            return
        served, ring = channel.served_cycles, channel.turns.ring
        if ring:
            served -= sum(entry.remaining for entry in ring)
        idle = now if ring else self.idle_since
        cycles = served - self.told
        self.listener.served(self.name, self.since, idle - self.since, now - idle, cycles, 1)
        self.since, self.told = now, served
        self.idle_since = now

    def skip(self, skip: Skip) -> None:
        """Take the periods as told, a pause at their end too."""
        super().skip(skip)
        self.idle_since = self.since

    def gauges(self) -> Numbers:
        """Return what was asked for so far, and how far the turns are by now."""
        self.channel.catch_up()
        return self.channel.served_cycles, *self.channel.turns.gauges()

    def limit(self, seen: Stretch) -> int:
        """Without a new request, serve as in the period: all of the time, or in whole rounds."""
        if seen.before[0] != seen.after[0] or not self.channel.turns.ring:
            return FOREVER
        left = sum(seen.after[4::2])
        always = sum(seen.before[4::2]) - left == seen.cycles
        if always and len({entry.direction for entry in self.channel.turns.ring}) == 1:
            return (left - 1) // seen.cycles
        return self.channel.turns.limit(seen.of(1))


class TileLane(Lane):
    """The bytes that the slots of a tile hold."""

    STATE = ("held",)

    def __init__(self, name: str, clock: Clock, listener: Listener) -> None:
        super().__init__(name, clock, listener)
        self.held = 0

    def hold(self, n_bytes: int) -> None:
        """Claim (or with a negative number give back) some bytes."""
        if n_bytes:
            self.flush(self.clock.cycle)
            self.held += n_bytes

    def flush(self, now: int) -> None:
        """Tell what happened up to ``now``."""
        if now > self.since:
            self.listener.held(self.name, self.since, now, self.held)
            self.since = now

    def state(self) -> tuple[object, ...]:
        """Return the bytes."""
        return (self.held,)
