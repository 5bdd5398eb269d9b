"""Channels: a buffer port, and the DRAM made of several channels behind one queue."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import simpy

from simaccel.hardware import DramSpec, Rate
from simaccel.machine.clock import Clock
from simaccel.machine.turns import Entry, Turns


class Channel:
    """One resource of fixed rate. Finishes are computed when somebody looks or waits."""

    def __init__(self, clock: Clock, rate: Rate, turn_cycles: int, turnaround_cycles: int = 0) -> None:
        self.clock = clock
        self.rate = rate
        self.turns = Turns(turn_cycles, turnaround_cycles)
        self.seen = 0
        self.served_cycles = 0
        self.waiting: list[tuple[Entry, simpy.Event]] = []
        self.alarm: tuple[int, simpy.Timeout] | None = None

    def request(self, cycles: int, direction: int, owner: str) -> Entry:
        """Ask for ``cycles`` of service."""
        entry = Entry(cycles, direction, owner)
        if cycles == 0:
            entry.finished = True
            return entry
        self.catch_up()
        self.served_cycles += cycles
        self.turns.add(entry)
        if self.waiting:
            self._set_alarm()
        return entry

    def catch_up(self) -> None:
        """Bring the ring up to the present cycle."""
        now = self.clock.cycle
        if now > self.seen:
            if self.turns.ring:
                self.turns.advance(now - self.seen)
            self.seen = now

    def done(self, entry: Entry) -> bool:
        """Whether a request has been served by now."""
        self.catch_up()
        return entry.finished

    def wait(self, entry: Entry) -> simpy.Event:
        """Give an event that happens when ``entry`` has been served."""
        event = self.clock.event()
        self.waiting.append((entry, event))
        self._set_alarm()
        return event

    def _set_alarm(self) -> None:
        """Wake at the next finish, unless an earlier alarm will look at it again."""
        due = self.clock.cycle + self.turns.next_finish()
        if self.alarm is not None:
            if self.alarm[0] <= due:
                return
            self.clock.cancel(self.alarm[1])
        self.alarm = (due, self.clock.call_in(due - self.clock.cycle, self._ring))

    def _ring(self, _: simpy.Event) -> None:
        self.alarm = None
        self.catch_up()
        for entry, event in self.waiting:
            if entry.finished:
                event.succeed()
        self.waiting = [pair for pair in self.waiting if not pair[0].finished]
        if self.waiting:
            self._set_alarm()


@dataclass(eq=False, slots=True)
class Transfer:
    """A DRAM request: its pieces in the channels once it has been accepted."""

    n_bytes: int
    direction: int
    owner: str
    accepted: simpy.Event
    pieces: list[tuple[Channel, Entry]] = field(default_factory=list)


class Dram:
    """DRAM channels, with a limit on the requests that are accepted and not yet answered."""

    def __init__(self, clock: Clock, spec: DramSpec, rate: Rate) -> None:
        self.clock = clock
        self.spec = spec
        self.channels = [
            Channel(clock, rate, spec.turn_cycles, spec.turnaround_cycles)
            for _ in range(spec.channels)
        ]
        self.outstanding = 0
        self.queue: deque[Transfer] = deque()

    def request(self, n_bytes: int, direction: int, owner: str) -> Transfer:
        """Ask for a transfer; it is accepted at once or when an earlier one has been answered."""
        transfer = Transfer(n_bytes, direction, owner, self.clock.event())
        if self.outstanding < self.spec.max_outstanding:
            self._accept(transfer)
        else:
            self.queue.append(transfer)
        return transfer

    def _accept(self, transfer: Transfer) -> None:
        self.outstanding += 1
        for index, channel in enumerate(self.channels):
            piece = self.spec.channel_bytes(transfer.n_bytes, index)
            cycles = channel.rate.cycles(piece)
            entry = channel.request(cycles, transfer.direction, transfer.owner)
            transfer.pieces.append((channel, entry))

    def answer(self) -> None:
        """Take a request as answered (data arrived, or written); accept the next one."""
        self.outstanding -= 1
        if self.queue:
            transfer = self.queue.popleft()
            self._accept(transfer)
            transfer.accepted.succeed()
