"""Channels: resources of fixed rate, such as a buffer port, and the channels of a memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import simpy

from simaccel.hardware import Accelerator
from simaccel.hardware.dram.tile import TileRows
from simaccel.machine.arbiters import ReadWriteArbiter, RoundRobinArbiter, ServiceRequest
from simaccel.machine.clock import Alarm, Clock
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
    """One resource of fixed rate that serves requests in the order of its arbiter.

    The arbiter is brought up to date only when the state is read or a process waits for a request.
    An alarm is set if and only if a process waits. A lone request bypasses the arbiter until
    another request arrives or the state is read.
    """

    clock: Clock
    arbiter: State[Gauge[RoundRobinArbiter | ReadWriteArbiter]]
    waiting: State[list[tuple[ServiceRequest, simpy.Event]]] = field(default_factory=list)
    """Requests that a process waits for, with the event of their end."""
    served_cycles: Gauge[Counter[int]] = 0
    """Cycles of service requested so far."""
    alarm: Gauge[tuple[int, Alarm] | None] = None
    """(cycle of the next finish, its alarm)."""
    idle_since: Gauge[int] = 0
    """When the last use ended, or will end if it is served alone."""
    arbiter_cycle: Record[int] = 0
    """The cycle up to which the arbiter has served."""
    lone_request: Record[ServiceRequest | None] = None
    """The request that bypasses the arbiter while no other has arrived; None once the state has
    been read."""
    log: Record[list[int] | None] = None
    """For a probe: the end of each use, the beginning of the next, and the cycles of service so
    far; None without a probe."""

    def request(self, cycles: int, direction: int, owner: str) -> ServiceRequest:
        """Request ``cycles`` of service for the process ``owner``."""
        now = self.clock.cycle
        entry = ServiceRequest(cycles, direction, owner, now)
        if cycles == 0:
            entry.finished = True
            return entry
        arbiter = self.arbiter
        if self.lone_request is not None or arbiter.ring:
            self.catch_up()
        else:
            self.arbiter_cycle = now
        if not arbiter.ring and self.log is not None:
            self._note(now)
        self.served_cycles += cycles
        if arbiter.ring or arbiter.turnaround:
            arbiter.add(entry)
            if self.alarm is not None and now + cycles < self.alarm[0]:
                finish, alarm = self.alarm
                if now + arbiter.next_finish() < finish:  # the alarm has to ring earlier
                    self.clock.cancel(alarm)
                    self.alarm = None
                    self._set_alarm()
        else:
            self.lone_request, self.idle_since = entry, now + cycles
            arbiter.direction = direction
        return entry

    def serve_alone(self, cycles: int) -> None:
        """Serve a request to its end at once, where no other request can arrive meanwhile."""
        now = self.clock.cycle
        if self.log is not None:
            self._note(now)
        self.served_cycles += cycles
        self.idle_since = now + cycles

    def _note(self, now: int) -> None:
        """Log the end of the last use for the channel's probe when another use begins."""
        if self.log is not None:
            self.log += (self.idle_since, now, self.served_cycles)

    def catch_up(self) -> None:
        """Bring the arbiter up to the present cycle."""
        now, lone = self.clock.cycle, self.lone_request
        if lone is not None:
            self.lone_request = None
            if self.idle_since > now:
                self.arbiter.add(lone)
                self.arbiter.advance(now - lone.since)
                self.idle_since = lone.since
            else:
                lone.finished = True
        elif now > self.arbiter_cycle and self.arbiter.ring:
            self.idle_since = now - self.arbiter.advance(now - self.arbiter_cycle)
        self.arbiter_cycle = now

    def is_done(self, entry: ServiceRequest) -> bool:
        """Return whether a request has been served by now."""
        if entry is self.lone_request:
            if self.idle_since > self.clock.cycle:
                return False
            self.lone_request, entry.finished = None, True
        elif not entry.finished and self.clock.cycle > self.arbiter_cycle:
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
            now, is_alone = self.clock.cycle, self.lone_request is not None
            cycles = self.idle_since - now if is_alone else self.arbiter.next_finish()
            self.alarm = (now + cycles, self.clock.alarm(cycles, self._ring))

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
        return self.arbiter.state(), tuple(entry.owner for entry, _ in self.waiting)

    def gauges(self) -> Numbers:
        """Return the cycles requested so far, the alarm's cycle, those left, and the arbiter's."""
        alarm_cycle = self.alarm[0] if self.alarm else 0
        remaining = max(self.idle_since - self.clock.cycle, 0)
        return self.served_cycles, alarm_cycle, remaining, *self.arbiter.gauges()

    def counters(self) -> Numbers:
        """Return the cycles of service requested so far."""
        return (self.served_cycles,)

    def limit(self, interval: GaugeInterval) -> int:
        """Return how often the period can repeat before the alarm or a large request ends.

        A channel without a request in the period keeps its state and catches up later.
        """
        requested = interval.before[0] != interval.after[0]
        old_alarm, new_alarm = interval.before[1], interval.after[1]
        if old_alarm == new_alarm:
            pending = interval.ends_before(new_alarm) if new_alarm else FOREVER
            if not requested:
                return pending
            if interval.before[2] != interval.after[2]:
                return NEVER
            return min(pending, self.arbiter.limit(interval.start_at(3)))
        if not requested:
            return NEVER
        if new_alarm - old_alarm == interval.cycles:
            return self.arbiter.limit(interval.start_at(3), horizon=new_alarm - interval.end)
        return self._limit_skip(interval)

    def _limit_skip(self, interval: GaugeInterval) -> int:
        """Limit a skip while the alarm is set for the finish of a large request.

        The alarm is set again in every period, and must not be due in the period after the skip.
        """
        nearest = min(interval.before[1] - interval.start, interval.after[1] - interval.end)
        shrinks = interval.before[6::2] != interval.after[6::2]
        is_in_time = shrinks and nearest > interval.cycles
        return self.arbiter.limit(interval.start_at(3)) if is_in_time else NEVER

    def skip(self, skip: SkippedPeriods) -> None:
        """Advance the state by the skipped periods, and the alarm if it belongs to the period."""
        interval = skip.interval
        (before, old_alarm), (after, new_alarm) = interval.before[:2], interval.after[:2]
        if before == after:
            return
        self.served_cycles += (after - before) * skip.times
        self.arbiter_cycle += skip.cycles
        self.idle_since += skip.cycles
        self.arbiter.skip(SkippedPeriods(interval.start_at(3), skip.times, (), ()))
        if self.alarm is None or old_alarm == new_alarm:
            return
        due, alarm = self.alarm
        if new_alarm - old_alarm == interval.cycles:
            self.clock.postpone(alarm, skip.cycles)
            self.alarm = (due + skip.cycles, alarm)
        else:
            self.clock.cancel(alarm)
            self.alarm = None
            self._set_alarm()


class DramTransfer(NamedTuple):
    """Bytes to read from (``direction`` 0) or write to (1) DRAM; ``rows``: their rows there."""

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
            share: Channel(clock, ReadWriteArbiter(batch, turnaround=spec.turnaround_cycles))
            for share in shares
        }
        self.channels = tuple(distinct.values())
        self.by_number = [distinct[share] for share in shares]
        """By number of the channel, the simulated channel that represents it."""
        self.parts: dict[DramTransfer, list[tuple[Channel, int]]] = {
            transfer: [(channel, share[at]) for share, channel in distinct.items()]
            for at, transfer in enumerate(transfers)
        }
        """By transfer, each simulated channel with its cycles of service."""
