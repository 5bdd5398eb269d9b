"""Tokens: counted hand-overs of a tile, or of a free slot, from one engine to another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import simpy

from simaccel.machine.accounts import NO_WAIT, StallAccount, Wait
from simaccel.machine.clock import Clock
from simaccel.machine.instructions import TokenStream
from simaccel.machine.stateful import Record, SkippedPeriods, State, StatefulPart
from simaccel.units import Cause


@dataclass(frozen=True)
class Delay:
    """Cycles that data take to arrive after their engine goes on, and the cause of such waits."""

    cycles: int
    cause: Cause


NO_DELAY = Delay(0, Cause.DRAM_LATENCY)


@dataclass(eq=False)
class Tokens(StatefulPart):
    """Ready (or free) tokens of one tile from ``source`` to ``target``."""

    clock: Clock
    handover: TokenStream
    count: State[int]
    source: StallAccount
    target: StallAccount
    delay: Delay = NO_DELAY
    memory: int = 0
    """The age of a token in cycles from which its arrival no longer matters."""
    wait: Wait = field(init=False)
    in_flight: State[deque[bool]] = field(default_factory=deque)
    """Tokens whose data are in flight, oldest first; False: a token without data, behind others."""
    waiter: State[simpy.Event | None] = None
    blamed: State[Tokens | None] = None
    posted: State[deque[int]] = field(default_factory=deque)
    needed: Record[list[Tokens]] = field(default_factory=list)
    """The tokens that the waiting engine needs together and that have not come."""
    watcher: Record[Tokens | None] = None
    """The tokens at which the engine waits that also needs these."""
    came: Record[int] = 0
    """The arrival of the token that was taken last, if it still matters."""

    def __post_init__(self) -> None:
        """Set the wait for a token."""
        self.wait = Wait(self.handover.tile, self.handover.kind, self.source.engine)

    def state(self) -> tuple[object, ...]:
        """Return the tokens and whether the target waits; no other engine can wait for them."""
        waits = self.waiter is not None
        if not self.posted:
            return self.count, tuple(self.in_flight), waits, self.blamed
        now, memory = self.clock.cycle, self.memory
        ages = tuple(min(now - cycle, memory) for cycle in self.posted)
        return self.count, tuple(self.in_flight), waits, self.blamed, ages

    def skip(self, skip: SkippedPeriods) -> None:
        """Keep the age of the tokens."""
        self.posted = deque(cycle + skip.cycles for cycle in self.posted)
        self.came += skip.cycles

    def take(self, needed: Callable[[], list[Tokens]]) -> simpy.Event | None:
        """Take a token, or return the event to wait for; the wait is booked to its root cause.

        ``needed`` returns the missing tokens of the target's next command, these first. The wait is
        booked to the one that comes last.
        """
        if self.count:
            self.count -= 1
            if self.memory:
                self.came = self.posted.popleft()
            return None
        self.waiter = self.clock.event()
        if not self.target.kept:
            self.target.follow(self.clock.cycle, self.source, self.wait)
            return self.waiter
        self.needed = needed()
        for tokens in self.needed:
            tokens.watcher = self
        self._blame()
        return self.waiter

    def _blame(self) -> None:
        """Book the wait to the root cause of the tile that comes last."""
        last = self if len(self.needed) == 1 else max(self.needed, key=Tokens.lateness)
        if self.blamed is not None:
            self.target.unfollow(self.blamed.source)
        self.blamed = last
        if last.in_flight:
            self.target.switch(self.clock.cycle, last.delay.cause, last.wait)
        else:
            self.target.follow(self.clock.cycle, last.source, last.wait)

    def lateness(self) -> tuple[int, int]:
        """Return a key that orders missing tokens: data in flight, in work, not yet begun.

        A DRAM channel serves the oldest load first, so of two the younger comes last.
        """
        if self.in_flight:
            return 0, 0
        source = self.source
        begun = source.wait is NO_WAIT and source.cause is not Cause.IDLE
        return (1, source.request_order) if begun else (2, 0)

    def _tell(self, waiting: Tokens) -> None:
        """Update which tile comes last for the engines that need this one."""
        if waiting is not self:
            if self.count:
                waiting.needed.remove(self)
                self.watcher = None
            waiting._blame()

    def post(self) -> None:
        """Add a token; a waiting target takes it at once."""
        if self.waiter is None:
            self.count += 1
            if self.memory:
                self.posted.append(self.clock.cycle)
            if self.watcher is not None:
                self._tell(self.watcher)
            return
        self.came = self.clock.cycle
        if self.blamed is not None:
            self.target.unfollow(self.blamed.source)
        for tokens in self.needed:
            tokens.watcher = None
        self.needed, self.blamed = [], None
        self.waiter.succeed()
        self.waiter = None

    def hand_on(self, lag: int = 0) -> None:
        """Add a token when the data in flight have arrived.

        ``lag``: cycles until the last of them leaves its engine.
        """
        cycles = self.delay.cycles + lag
        if cycles == 0:
            self.post()
            return
        self.in_flight.append(True)
        if self.waiter is None:
            if self.watcher is not None:
                self._tell(self.watcher)
        elif self.target.kept:
            self._blame()
        self.clock.call_in(cycles, self._arrive)

    def pass_empty(self) -> None:
        """Add the token of a reserved slot, for which no data are in flight."""
        if self.in_flight:
            self.in_flight.append(False)
        else:
            self.post()

    def _arrive(self, _: simpy.Event) -> None:
        self.in_flight.popleft()
        self.post()
        while self.in_flight and not self.in_flight[0]:
            self.in_flight.popleft()
            self.post()
