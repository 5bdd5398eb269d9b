"""Multicast: a load of several cores that is read once, when all have a free slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import simpy

from simaccel.machine.accounts import StallAccount, Wait
from simaccel.machine.arbiters import ServiceRequest
from simaccel.machine.channel import Channel
from simaccel.machine.clock import Clock
from simaccel.machine.stateful import Record, State, StatefulPart

Pieces = Sequence[tuple[Channel, ServiceRequest]]
"""Requests to the channels of a memory."""


class Loader(Protocol):
    """An engine that loads."""

    name: str
    clock: Clock
    account: StallAccount

    def request_transfer(self) -> Pieces:
        """Request the transfer of the current step from the memory."""


@dataclass(eq=False)
class Multicast(StatefulPart):
    """One load for engines of several cores; the last engine that arrives requests it for all.

    Waits are booked to the first core that has not arrived. The bytes are counted for the engine
    of the first core.
    """

    members: Sequence[Loader]
    waiting: State[dict[Loader, simpy.Event]] = field(default_factory=dict)
    blamed: Record[StallAccount | None] = None
    """The account that waits are booked to; it depends on which engines wait."""

    def state(self) -> tuple[object, ...]:
        """Return the waiting engines in the order of their arrival."""
        return tuple(self.members.index(engine) for engine in self.waiting)

    def join(self, engine: Loader, tile: str) -> Pieces | simpy.Event:
        """Arrive with a free slot; return the requests, or an event that has them as its value."""
        now = engine.clock.cycle
        for other in self.waiting:
            if self.blamed is not None:
                other.account.unfollow(self.blamed)
        coming = (*self.waiting, engine)
        missing = [member for member in self.members if member not in coming]
        if not missing:
            pieces, waiting = engine.request_transfer(), self.waiting
            self.waiting, self.blamed = {}, None
            for event in waiting.values():
                event.succeed(pieces)
            return pieces
        event = engine.clock.event()
        self.waiting[engine] = event
        self.blamed = missing[0].account
        wait = Wait(tile, "free", missing[0].name)
        for other in self.waiting:
            other.account.follow(now, self.blamed, wait)
        return event
