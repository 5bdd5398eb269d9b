"""Channels: a buffer port, and the DRAM made of several channels behind one queue."""

from __future__ import annotations

from collections.abc import Collection
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
    GaugeInterval,
    Numbers,
    SkippedPeriods,
    StatefulPart,
)


class Channel(StatefulPart):
    """One resource of fixed rate. Finishes are computed when somebody looks or waits.

    An alarm is set if and only if somebody waits. Who is alone takes no turns until somebody else
    comes, or looks.
    """

    STATE = ("turns", "waiting")
    GAUGES = ("served_cycles", "alarm", "idle_since", "turns")
    COUNTERS = ("served_cycles",)
    RECORDS = ("seen", "log", "only")  # there is none when somebody looks
    WIRING = ("clock",)

    def __init__(self, clock: Clock, turns: RoundRobinArbiter | ReadWriteArbiter) -> None:
        self.clock = clock
        self.turns = turns
        self.seen = 0
        self.idle_since = 0
        """When the last use ended, or will end if it is served alone."""
        self.only: ServiceRequest | None = None
        """Who has been served since it came, without turns, because nobody else was there."""
        self.served_cycles = 0
        self.waiting: list[tuple[ServiceRequest, simpy.Event]] = []
        self.alarm: tuple[int, Alarm] | None = None
        self.log: list[int] | None = None
        """For a lane, if there is one: when each use ended, when the next one began, and the cycles
        of service of all uses by then."""

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
        """Serve somebody who waits until it is done, while nobody else can ask."""
        now = self.clock.cycle
        if self.log is not None:
            self._note(now)
        self.served_cycles += cycles
        self.idle_since = now + cycles

    def _note(self, now: int) -> None:
        """Let the lane know of the last use, now that another one begins."""
        if self.log is not None:
            self.log += (self.idle_since, now, self.served_cycles)

    def catch_up(self) -> None:
        """Bring the ring up to the present cycle."""
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
        """Whether a request has been served by now."""
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
        """Wake at the next finish. An alarm that is set is not later and will look again."""
        if self.alarm is None:
            now = self.clock.cycle
            cycles = self.turns.next_finish() if self.only is None else self.idle_since - now
            self.alarm = (now + cycles, self.clock.alarm(cycles, self._ring))

    def _hasten(self, alarm: tuple[int, Alarm]) -> None:
        """Set the alarm anew if what has arrived finishes before it."""
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
        """Return who is served and who waits, in order."""
        self.catch_up()
        return self.turns.state(), tuple(entry.owner for entry, _ in self.waiting)

    def gauges(self) -> Numbers:
        """Return what was asked for so far, when the alarm rings and how far uses are."""
        due = self.alarm[0] if self.alarm else 0
        left = max(self.idle_since - self.clock.cycle, 0)
        return self.served_cycles, due, left, *self.turns.gauges()

    def counters(self) -> Numbers:
        """Return the cycles of service that were asked for."""
        return (self.served_cycles,)

    def limit(self, seen: GaugeInterval) -> int:
        """Return how long the alarm, or what is left of a large request, lets the period repeat.

        A channel that nobody has asked anything stays as it is and catches up by itself.
        """
        asked = seen.before[0] != seen.after[0]
        rang, rings = seen.before[1], seen.after[1]
        if rang == rings:
            pending = seen.ends_before(rings) if rings else FOREVER
            if not asked:
                return pending
            if seen.before[2] != seen.after[2]:
                return NEVER
            return min(pending, self.turns.limit(seen.start_at(3)))
        if not asked:
            return NEVER
        if rings - rang == seen.cycles:
            return self.turns.limit(seen.start_at(3), horizon=rings - seen.end)
        return self._limit_skip(seen)

    def _limit_skip(self, seen: GaugeInterval) -> int:
        """Limit a skip while the alarm foresees the finish of a large request that shrinks.

        It is set anew in every period, and never rings in the period after.
        """
        nearest = min(seen.before[1] - seen.start, seen.after[1] - seen.end)
        shrinks = seen.before[6::2] != seen.after[6::2]
        return self.turns.limit(seen.start_at(3)) if shrinks and nearest > seen.cycles else NEVER

    def skip(self, skip: SkippedPeriods) -> None:
        """Move on, with the alarm if it belongs to the period."""
        seen = skip.stretch
        (asked, rang), (asks, rings) = seen.before[:2], seen.after[:2]
        if asked == asks:
            return
        self.served_cycles += (asks - asked) * skip.times
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
    """Bytes to read from DRAM, or to write to it, which lie in ``rows``."""

    n_bytes: int
    direction: int
    rows: TileRows | None = None


class DramChannels:
    """Channels of DRAM, or of a memory beside it, as ``accelerator`` has it in the DRAM's place.

    A transfer is spread over them, and done when all have served their part. ``transfers`` are all
    that there will be: channels that have the same part of each do the same, so one stands for all.
    """

    def __init__(
        self, clock: Clock, accelerator: Accelerator, transfers: Collection[DramTransfer]
    ) -> None:
        spec = accelerator.dram
        batch = (accelerator.batch_cycles(write=False), accelerator.batch_cycles(write=True))
        shares = [
            tuple(
                accelerator.transfer_cycles(
                    transfer.n_bytes, transfer.rows, write=bool(transfer.direction), channel=at
                )
                for transfer in transfers
            )
            for at in range(spec.channels)
        ]
        distinct = {
            share: Channel(clock, ReadWriteArbiter(batch, spec.turnaround_cycles))
            for share in shares
        }
        self.channels = tuple(distinct.values())
        self.by_number = [distinct[share] for share in shares]
        """For each channel that there is the one that stands for it."""
        self.parts: dict[DramTransfer, list[tuple[Channel, int]]] = {
            transfer: [(channel, share[at]) for share, channel in distinct.items()]
            for at, transfer in enumerate(transfers)
        }
        """Of each transfer, the cycles of each channel."""
