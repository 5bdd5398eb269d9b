"""Channels: resources of fixed rate, such as a buffer port, and the channels of a memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import simpy

from simaccel.hardware import Accelerator
from simaccel.hardware.dram.tile import TileRows
from simaccel.machine.clock import Alarm, Clock
from simaccel.machine.read_write_arbiter import ReadWriteArbiter
from simaccel.machine.round_robin_arbiter import RoundRobinArbiter, ServiceRequest
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
class Channel(StatefulPart):
    """One resource of fixed rate that serves requests, by the rule of its arbiter.

    Its state is brought up to date only when it is read or a process waits for a request; an alarm
    is set if and only if a process waits. A request that is alone is served in one piece until
    another request arrives or the state is read.
    """

    clock: Clock
    turns: State[Gauge[RoundRobinArbiter | ReadWriteArbiter]]
    waiting: State[list[tuple[ServiceRequest, simpy.Event]]] = field(default_factory=list)
    served_cycles: Gauge[Counter[int]] = 0
    alarm: Gauge[tuple[int, Alarm] | None] = None
    idle_since: Gauge[int] = 0
    """When the last use ended, or will end if it is served alone."""
    seen: Record[int] = 0
    only: Record[ServiceRequest | None] = None
    """The request that is served alone, without turns, as no other has arrived; None when the state
    is read."""
    log: Record[list[int] | None] = None
    """For a probe: the end of each use, the beginning of the next, and the cycles of service so
    far; None without a probe."""

    def request(self, cycles: int, direction: int, owner: str) -> ServiceRequest:
        """Request ``cycles`` of service."""
        now = self.clock.cycle
        entry = ServiceRequest(cycles, direction, owner, now)
        if cycles == 0:
            entry.finished = True
            return entry
        turns = self.turns
        if self.only is not None or turns.ring:
            self.catch_up()
        else:
            self.seen = now
        if not turns.ring and self.log is not None:
            self._note(now)
        self.served_cycles += cycles
        if turns.ring or turns.turnaround:
            turns.add(entry)
            if self.alarm is not None and now + cycles < self.alarm[0]:
                self._hasten(self.alarm)
        else:
            self.only, self.idle_since = entry, now + cycles
            turns.direction = direction
        return entry

    def serve_alone(self, cycles: int) -> None:
        """Serve a request to its end at once, where no other request can arrive meanwhile."""
        now = self.clock.cycle
        if self.log is not None:
            self._note(now)
        self.served_cycles += cycles
        self.idle_since = now + cycles

    def _note(self, now: int) -> None:
        """Report the last use to the channel's probe when another use begins."""
        if self.log is not None:
            self.log += (self.idle_since, now, self.served_cycles)

    def catch_up(self) -> None:
        """Bring the arbiter up to the present cycle."""
        now, only = self.clock.cycle, self.only
        if only is not None:
            self.only = None
            if self.idle_since > now:
                self.turns.add(only)
                self.turns.advance(now - only.since)
                self.idle_since = only.since
            else:
                only.finished = True
        elif now > self.seen and self.turns.ring:
            self.idle_since = now - self.turns.advance(now - self.seen)
        self.seen = now

    def is_done(self, entry: ServiceRequest) -> bool:
        """Return whether a request has been served by now."""
        if entry is self.only:
            if self.idle_since > self.clock.cycle:
                return False
            self.only, entry.finished = None, True
        elif not entry.finished and self.clock.cycle > self.seen:
            self.catch_up()
        return entry.finished

    def wait(self, entry: ServiceRequest) -> simpy.Event:
        """Return an event that happens when ``entry`` has been served."""
        event = self.clock.event()
        self.waiting.append((entry, event))
        self._set_alarm()
        return event

    def _set_alarm(self) -> None:
        """Set the alarm at the next finish, unless one is set: it is earlier, and sets the next."""
        if self.alarm is None:
            now = self.clock.cycle
            cycles = self.turns.next_finish() if self.only is None else self.idle_since - now
            self.alarm = (now + cycles, self.clock.alarm(cycles, self._ring))

    def _hasten(self, alarm: tuple[int, Alarm]) -> None:
        """Move the alarm forward if a request that has arrived finishes before it."""
        if self.clock.cycle + self.turns.next_finish() < alarm[0]:
            self.clock.cancel(alarm[1])
            self.alarm = None
            self._set_alarm()

    def _ring(self, _: simpy.Event) -> None:
        self.alarm = None
        self.catch_up()
        waiting = []
        for pair in self.waiting:
            if pair[0].finished:
                pair[1].succeed()
            else:
                waiting.append(pair)
        self.waiting = waiting
        if waiting:
            self._set_alarm()

    def state(self) -> tuple[object, ...]:
        """Return the requests in service and waiting, in order."""
        self.catch_up()
        return self.turns.state(), tuple(entry.owner for entry, _ in self.waiting)

    def gauges(self) -> Numbers:
        """Return the service requested so far, the cycle of the alarm, and the progress of uses."""
        due = self.alarm[0] if self.alarm else 0
        left = max(self.idle_since - self.clock.cycle, 0)
        return self.served_cycles, due, left, *self.turns.gauges()

    def counters(self) -> Numbers:
        """Return the cycles of service requested so far."""
        return (self.served_cycles,)

    def limit(self, seen: GaugeInterval) -> int:
        """Return how often the period can repeat before the alarm or a large request ends.

        A channel without a request in the period keeps its state and catches up later.
        """
        requested = seen.before[0] != seen.after[0]
        rang, rings = seen.before[1], seen.after[1]
        if rang == rings:
            pending = seen.ends_before(rings) if rings else FOREVER
            if not requested:
                return pending
            if seen.before[2] != seen.after[2]:
                return NEVER
            return min(pending, self.turns.limit(seen.start_at(3)))
        if not requested:
            return NEVER
        if rings - rang == seen.cycles:
            return self.turns.limit(seen.start_at(3), horizon=rings - seen.end)
        return self._limit_skip(seen)

    def _limit_skip(self, seen: GaugeInterval) -> int:
        """Limit a skip while the alarm is set for the finish of a large request.

        The alarm is set again in every period, and must not be due in the period after the skip.
        """
        nearest = min(seen.before[1] - seen.start, seen.after[1] - seen.end)
        shrinks = seen.before[6::2] != seen.after[6::2]
        return self.turns.limit(seen.start_at(3)) if shrinks and nearest > seen.cycles else NEVER

    def skip(self, skip: SkippedPeriods) -> None:
        """Advance the state by the skipped periods, and the alarm if it belongs to the period."""
        seen = skip.stretch
        (before, rang), (after, rings) = seen.before[:2], seen.after[:2]
        if before == after:
            return
        self.served_cycles += (after - before) * skip.times
        self.seen += skip.cycles
        self.idle_since += skip.cycles
        self.turns.skip(SkippedPeriods(seen.start_at(3), skip.times, (), ()))
        if self.alarm is None or rang == rings:
            return
        due, alarm = self.alarm
        if rings - rang == seen.cycles:
            self.clock.postpone(alarm, skip.cycles)
            self.alarm = (due + skip.cycles, alarm)
        else:
            self.clock.cancel(alarm)
            self.alarm = None
            self._set_alarm()


class DramTransfer(NamedTuple):
    """Bytes to read from or write to DRAM; ``rows``: their rows there."""

    n_bytes: int
    direction: int
    rows: TileRows | None = None


@lru_cache(1 << 14)
def _channel_cycles(accelerator: Accelerator, transfer: DramTransfer) -> tuple[int, ...]:
    """Return the cycles of each channel for its part of a transfer."""
    n_bytes, direction, rows = transfer
    return tuple(
        accelerator.transfer_cycles(n_bytes, rows, write=bool(direction), channel=at)
        for at in range(accelerator.dram.channels)
    )


class DramChannels:
    """The channels of the DRAM, or of a memory beside it that ``accelerator`` has as its DRAM.

    A transfer is interleaved over them, and ends when each has served its part. ``transfers`` are
    all transfers of the run: channels with equal parts of each are simulated as a single one.
    """

    def __init__(
        self, clock: Clock, accelerator: Accelerator, transfers: Collection[DramTransfer]
    ) -> None:
        spec = accelerator.dram
        batch = (accelerator.batch_cycles(write=False), accelerator.batch_cycles(write=True))
        cycles = [_channel_cycles(accelerator, transfer) for transfer in transfers]
        shares = list(zip(*cycles, strict=True)) or [()] * spec.channels
        distinct = {
            share: Channel(clock, ReadWriteArbiter(batch, spec.turnaround_cycles))
            for share in shares
        }
        self.channels = tuple(distinct.values())
        self.by_number = [distinct[share] for share in shares]
        """By number of the channel, the simulated one that stands for it."""
        self.parts: dict[DramTransfer, list[tuple[Channel, int]]] = {
            transfer: [(channel, share[at]) for share, channel in distinct.items()]
            for at, transfer in enumerate(transfers)
        }
        """By transfer, the cycles of each simulated channel."""
