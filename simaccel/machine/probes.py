"""Probes: they report the intervals of channels and tiles to a listener, such as a trace writer.

A probe does not change the run. It advances with skipped periods, and limits how often a period
can repeat: the end of a request that no engine waits for changes nothing in the machine, but is an
event of the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simaccel.machine.accounts import Listener
from simaccel.machine.channel import Channel
from simaccel.machine.clock import Clock
from simaccel.machine.stateful import (
    FOREVER,
    NEVER,
    Counter,
    Gauge,
    GaugeInterval,
    Numbers,
    Record,
    SkippedPeriods,
    State,
    StatefulPart,
)


@dataclass(eq=False)
class Probe(StatefulPart):
    """The part common to probes: the cycle since which nothing was reported."""

    clock: Clock
    listener: Listener
    since: Record[int] = field(default=0, init=False)
    """The present cycle at a flush."""

    def tell(self) -> None:
        """Report finished intervals that were not reported at once."""

    def flush(self, now: int) -> None:
        """Report all intervals up to ``now``."""
        raise NotImplementedError

    def skip(self, skip: SkippedPeriods) -> None:
        """Count the skipped periods as reported: the listener repeats them."""
        self.since += skip.cycles


@dataclass(eq=False)
class ChannelProbe(Probe):
    """The uses of a channel: each from a request to the idle channel until no request is left.

    Uses and the pauses after them are reported in batches. Channels that do the same have
    one probe, with all their names.
    """

    names: Sequence[str]
    channel: Gauge[Channel]
    log: Record[list[int]] = field(default_factory=list, init=False)
    """Uses that are not reported yet: none after a flush."""
    reported: Counter[int] = field(default=0, init=False)
    """Cycles of service that were reported to the listener."""

    def __post_init__(self) -> None:
        """Begin to record the uses of the channel."""
        self.channel.log = self.log

    def tell(self) -> None:
        """Report uses that have ended, with the pauses between them."""
        log = self.log
        if log:
            log[0] = max(log[0], self.since)
            for name in self.names:
                self.listener.note_service(name, self.since, self.reported, log)
            self.since, self.reported = log[-2:]
            log.clear()

    def flush(self, now: int) -> None:
        """Report all intervals up to ``now``."""
        channel = self.channel
        channel.catch_up()
        begun = self.log[-2] if self.log else self.since
        if now > begun:
            ring, ended = channel.arbiter.ring, min(channel.idle_since, now)
            left = sum(entry.remaining for entry in ring) if ring else channel.idle_since - ended
            self.log += now if ring else ended, now, channel.served_cycles - left
        self.tell()

    def skip(self, skip: SkippedPeriods) -> None:
        """Count the skipped periods as reported, with the pause at their end."""
        super().skip(skip)
        for _, served in skip.growth():
            self.reported += served

    def counters(self) -> Numbers:
        """Return the service that was reported, which is complete only after a flush."""
        return (self.reported,)

    def gauges(self) -> Numbers:
        """Return the service requested so far, its end, and the progress of the arbiter."""
        channel = self.channel
        channel.catch_up()
        return channel.served_cycles, channel.idle_since, *channel.arbiter.gauges()

    def limit(self, interval: GaugeInterval) -> int:
        """Return the limit without new requests: continuous service, or service in whole rounds."""
        if interval.before[0] != interval.after[0]:
            return FOREVER
        if not self.channel.arbiter.ring:
            ends = interval.after[1]
            if ends > interval.end:
                return interval.ends_before(ends)
            return NEVER if ends > interval.start else FOREVER
        left = sum(interval.after[5::2])
        always = sum(interval.before[5::2]) - left == interval.cycles
        if always and len({entry.direction for entry in self.channel.arbiter.ring}) == 1:
            return (left - 1) // interval.cycles
        return self.channel.arbiter.limit(interval.start_at(2))


@dataclass(eq=False)
class TileProbe(Probe):
    """The bytes that the slots of a tile hold."""

    name: str
    held: State[int] = field(default=0, init=False)

    def hold(self, n_bytes: int) -> None:
        """Claim bytes, or release them (a negative number)."""
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
