"""Cycles of engines: one activity at any time, summed by cause.

busy + stalls by cause + idle = total, by construction: an engine is always in exactly one
activity and each change books the cycles since the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

from simaccel.machine.stateful import SkippedPeriods, StatefulPart
from simaccel.units import Cause


@dataclass(frozen=True, slots=True)
class Wait:
    """The direct wait of an engine: for a tile, ready or free, that another engine holds."""

    tile: str = ""
    kind: str = ""
    engine: str = ""


NO_WAIT = Wait()


@dataclass(frozen=True)
class EngineCycles:
    """Cycles of one engine: busy + stalls + idle = total."""

    busy: int
    idle: int
    stalls: dict[str, int]


class Listener(Protocol):
    """A listener to what happens (the trace writer)."""

    def announce(self, lanes: Mapping[str, str]) -> None:
        """Learn whom it will hear of: the kind of each lane (engine, channel, tile) by name."""

    def interval(
        self, engine: str, start: int, end: int, cause: Cause, wait: Wait, site: int
    ) -> None:
        """Note that ``engine`` did one thing from cycle ``start`` to ``end``."""

    def note_service(self, channel: str, start: int, told: int, uses: Sequence[int]) -> None:
        """Note uses of a channel from ``start`` on; before, it has served ``told`` cycles.

        ``uses`` are three numbers for each: when it ended, when the next one began, and the cycles
        of service by then. The first may take no cycles; where the pause after a use does, it goes
        on with the next. Only during this call ``uses`` is as it is.
        """

    def note_held(self, tile: str, start: int, end: int, n_bytes: int) -> None:
        """Note the bytes that the slots of a tile held."""

    def position(self) -> int:
        """Return the number of the next row."""

    def repeat(self, first_row: int, period_cycles: int, times: int) -> None:
        """Repeat all rows from ``first_row`` on ``times`` more times, a period later each."""

    def checkpoint(self, now: int) -> None:
        """Keep what was heard: everything up to ``now`` has been told."""


EARLY_SITES: Final = 1 << 20
"""Sites of commands are below; what is done early has others."""
_MOST_EARLY: Final = 2000
"""Operators whose numbers fit 32 bits; what is done early beside others keeps its own."""


def early_site(site: int, operator: int) -> int:
    """Number a command that runs while an operator before its own, by its place, has not ended."""
    return site + (1 + operator) * EARLY_SITES if operator < _MOST_EARLY else site


@dataclass(eq=False)
class StallAccount(StatefulPart):
    """The books of one engine."""

    STATE = ("cause", "wait", "site", "early", "followers")
    COUNTERS = ("cycles", "since")
    RECORDS = ("asked", "busy_root")  # who waits at a channel, in order; what is being done
    WIRING = ("engine", "listener")

    kept: ClassVar[bool] = True
    """Whether anything is booked."""

    engine: str
    busy_root: Cause
    """Whom those that wait for this engine blame while it works."""
    listener: Listener | None = None
    cause: Cause = Cause.IDLE
    wait: Wait = NO_WAIT
    since: int = 0
    site: int = 0
    early: int = 0
    """What is added to sites while the operator before has not ended."""
    cycles: list[int] = field(default_factory=lambda: [0] * len(Cause))
    followers: list[StallAccount] = field(default_factory=list)
    asked: int = 0
    """When its engine last asked the DRAM, as a number that grows."""

    @property
    def root(self) -> Cause:
        """The root of the wait of those who wait for this engine."""
        if self.cause is Cause.BUSY:
            return self.busy_root
        return Cause.DRAIN if self.cause is Cause.IDLE else self.cause

    def switch(self, now: int, cause: Cause, wait: Wait = NO_WAIT) -> None:
        """Book the cycles so far and go over to another activity."""
        if now > self.since:
            self.cycles[self.cause] += now - self.since
            if self.listener is not None:
                self.listener.interval(
                    self.engine, self.since, now, self.cause, self.wait, self.site
                )
            self.since = now
        self.wait = wait
        if cause is not self.cause:
            self.cause = cause
            if self.followers:
                root = self.root
                for follower in self.followers:
                    follower.switch(now, root, follower.wait)

    def blame(self, now: int, root: Cause) -> None:
        """Be busy for another reason from now on; those that wait for this engine learn of it."""
        if root is self.busy_root:
            return
        self.busy_root = root
        if self.cause is Cause.BUSY:
            for follower in self.followers:
                follower.switch(now, root, follower.wait)

    def flush(self, now: int) -> None:
        """Book the cycles so far and go on with the same."""
        self.switch(now, self.cause, self.wait)

    def enter(self, now: int, site: int) -> None:
        """Go over to another command; what was done so far belongs to the one before."""
        if site + self.early != self.site:
            self.flush(now)
            self.site = site + self.early

    def catch_up(self, now: int) -> None:
        """Go on with the same command in its own operator: the one before has ended."""
        self.early = 0
        if self.site >= EARLY_SITES:
            self.flush(now)
            self.site %= EARLY_SITES

    def follow(self, now: int, other: StallAccount, wait: Wait) -> None:
        """Wait for another engine: blame what it does, now and until ``unfollow``."""
        other.followers.append(self)
        self.switch(now, other.root, wait)

    def unfollow(self, other: StallAccount) -> None:
        """Stop blaming another engine."""
        if self in other.followers:
            other.followers.remove(self)

    def state(self) -> tuple[object, ...]:
        """Followers change over in the order in which they came."""
        return self.cause, self.wait, self.site, self.early, tuple(self.followers)

    def counters(self) -> tuple[int, ...]:
        """Return the books, which tell the truth at a flush only."""
        return (*self.cycles, self.since)

    def skip(self, skip: SkippedPeriods) -> None:
        """Book some periods."""
        for index, amount in skip.growth():
            if index < len(self.cycles):
                self.cycles[index] += amount
            else:
                self.since += amount


class NoAccount(StallAccount):
    """The books of an engine of whose run only the cycles count: nothing is booked or blamed."""

    kept = False

    def switch(self, now: int, cause: Cause, wait: Wait = NO_WAIT) -> None:
        """Book nothing."""

    def blame(self, now: int, root: Cause) -> None:
        """Tell nobody."""

    def enter(self, now: int, site: int) -> None:
        """Book nothing."""

    def catch_up(self, now: int) -> None:
        """Book nothing."""

    def follow(self, now: int, other: StallAccount, wait: Wait) -> None:  # noqa: ARG002 - as Account
        """Note what is waited for, in case it never comes."""
        self.wait = wait

    def state(self) -> tuple[object, ...]:
        """Return nothing: what is waited for follows from where the engine is."""
        return ()
