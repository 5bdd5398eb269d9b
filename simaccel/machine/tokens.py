"""Tokens: what a tile becomes at run time, a counted hand-over from one engine to another."""

from __future__ import annotations

from dataclasses import dataclass

import simpy

from simaccel.machine.accounts import Account, Cause, Wait
from simaccel.machine.clock import Clock
from simaccel.machine.stateful import Stateful
from simaccel.machine.walks import Handover


@dataclass(frozen=True)
class Delay:
    """How long data are on their way when their engine goes on, and what that is booked to."""

    cycles: int
    cause: Cause


NO_DELAY = Delay(0, Cause.DRAM_LATENCY)


class Tokens(Stateful):
    """Ready (or free) tokens of one tile from ``source`` to ``target``."""

    STATE = ("count", "in_flight", "waiter")
    WIRING = ("clock", "handover", "source", "target", "wait", "delay")

    def __init__(
        self,
        clock: Clock,
        handover: Handover,
        count: int,
        source: Account,
        target: Account,
        delay: Delay = NO_DELAY,
    ) -> None:
        self.clock = clock
        self.handover = handover
        self.count = count
        self.delay = delay
        self.source = source
        self.target = target
        self.in_flight = 0
        self.waiter: simpy.Event | None = None
        self.wait = Wait(handover.tile, handover.kind, handover.source)

    def state(self) -> tuple[object, ...]:
        """Only the target waits, so whether somebody does is enough."""
        return self.count, self.in_flight, self.waiter is not None

    def take(self) -> simpy.Event | None:
        """Take a token, or give the event to wait for; the wait is booked to its root."""
        if self.count:
            self.count -= 1
            return None
        self.waiter = self.clock.event()
        if self.in_flight:
            self.target.switch(self.clock.cycle, self.delay.cause, self.wait)
        else:
            self.target.follow(self.clock.cycle, self.source, self.wait)
        return self.waiter

    def post(self) -> None:
        """Put a token down; whoever waits takes it at once."""
        if self.waiter is None:
            self.count += 1
            return
        self.target.unfollow(self.source)
        self.waiter.succeed()
        self.waiter = None

    def hand_on(self) -> None:
        """Put a token down when the data that are on their way have arrived."""
        if self.delay.cycles == 0:
            self.post()
            return
        self.in_flight += 1
        if self.waiter is not None:
            self.target.unfollow(self.source)
            self.target.switch(self.clock.cycle, self.delay.cause, self.wait)
        self.clock.call_in(self.delay.cycles, self._arrive)

    def _arrive(self, _: simpy.Event) -> None:
        self.in_flight -= 1
        self.post()
