"""Lanes: what a listener hears of channels and tiles. Without a listener there are none.

A lane only watches. It moves on with the periods that are skipped, and says how far a period can
be repeated for it: when a request that nobody waits for ends, the machine doesn't care, but the
trace does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from simaccel.machine.accounts import Listener
from simaccel.machine.clock import Clock
from simaccel.machine.read_write_arbiter import ReadWriteArbiter
from simaccel.machine.round_robin_arbiter import RoundRobinArbiter
from simaccel.machine.stateful import (
    FOREVER,
    NEVER,
    GaugeInterval,
    Numbers,
    SkippedPeriods,
    StatefulPart,
)


class Probe(StatefulPart):
    """The time since which nothing has been told."""

    RECORDS: ClassVar[tuple[str, ...]] = ("since",)  # at a flush it is now
    WIRING: ClassVar[tuple[str, ...]] = ("clock", "listener")

    def __init__(self, clock: Clock, listener: Listener) -> None:
        self.clock = clock
        self.listener = listener
        self.since = 0

    def tell(self) -> None:
        """Report finished intervals that were not reported at once."""

    def flush(self, now: int) -> None:
        """Report all intervals up to ``now``."""
        raise NotImplementedError

    def skip(self, skip: SkippedPeriods) -> None:
        """Take the periods as told: the listener repeats them."""
        self.since += skip.cycles


class ProbedServer(Protocol):
    """The interface of a channel to its lane."""

    turns: RoundRobinArbiter | ReadWriteArbiter
    idle_since: int
    """May be still to come."""
    served_cycles: int
    log: list[int] | None

    def catch_up(self) -> None:
        """Bring the turns up to the present cycle."""


class ChannelProbe(Probe):
    """In use from a request to an idle channel until everybody is served.

    Uses and the pauses after them are told together, many at once. Channels that do the same have
    one lane, which has all their names.
    """

    GAUGES = ("channel",)
    COUNTERS = ("told",)
    RECORDS = (*Probe.RECORDS, "log")  # nothing is left of it at a flush

    WIRING = ("names", "clock", "listener")

    def __init__(
        self, names: Sequence[str], clock: Clock, listener: Listener, channel: ProbedServer
    ) -> None:
        super().__init__(clock, listener)
        self.names = names
        self.channel = channel
        self.log: list[int] = []
        self.told = 0
        """Cycles of service that the listener has heard of."""
        channel.log = self.log

    def tell(self) -> None:
        """Report uses that a later request has ended, with the pauses between them."""
        log = self.log
        if log:
            log[0] = max(log[0], self.since)
            for name in self.names:
                self.listener.note_service(name, self.since, self.told, log)
            self.since, self.told = log[-2:]
            log.clear()

    def flush(self, now: int) -> None:
        """Report all intervals up to ``now``."""
        channel = self.channel
        channel.catch_up()
        begun = self.log[-2] if self.log else self.since
        if now > begun:
            ring, ended = channel.turns.ring, min(channel.idle_since, now)
            left = sum(entry.remaining for entry in ring) if ring else channel.idle_since - ended
            self.log += now if ring else ended, now, channel.served_cycles - left
        self.tell()

    def skip(self, skip: SkippedPeriods) -> None:
        """Take the periods as told, a pause at their end too."""
        super().skip(skip)
        for _, served in skip.growth():
            self.told += served

    def counters(self) -> Numbers:
        """Return how much service the listener has heard of; true at a flush only."""
        return (self.told,)

    def gauges(self) -> Numbers:
        """Return what was asked for so far, until when, and how far the turns are by now."""
        channel = self.channel
        channel.catch_up()
        return channel.served_cycles, channel.idle_since, *channel.turns.gauges()

    def limit(self, seen: GaugeInterval) -> int:
        """Without a new request, serve as in the period: all of the time, or in whole rounds."""
        if seen.before[0] != seen.after[0]:
            return FOREVER
        if not self.channel.turns.ring:
            ends = seen.after[1]
            if ends > seen.end:
                return seen.ends_before(ends)
            return NEVER if ends > seen.start else FOREVER
        left = sum(seen.after[5::2])
        always = sum(seen.before[5::2]) - left == seen.cycles
        if always and len({entry.direction for entry in self.channel.turns.ring}) == 1:
            return (left - 1) // seen.cycles
        return self.channel.turns.limit(seen.start_at(2))


class TileProbe(Probe):
    """The bytes that the slots of a tile hold."""

    STATE = ("held",)
    WIRING = ("name", "clock", "listener")

    def __init__(self, name: str, clock: Clock, listener: Listener) -> None:
        super().__init__(clock, listener)
        self.name = name
        self.held = 0

    def hold(self, n_bytes: int) -> None:
        """Claim (or with a negative number give back) some bytes."""
        if n_bytes:
            self.flush(self.clock.cycle)
            self.held += n_bytes

    def flush(self, now: int) -> None:
        """Report all intervals up to ``now``."""
        if now > self.since:
            self.listener.note_held(self.name, self.since, now, self.held)
            self.since = now

    def state(self) -> tuple[object, ...]:
        """Return the bytes."""
        return (self.held,)
