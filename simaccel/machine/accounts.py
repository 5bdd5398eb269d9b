"""Accounts of the engines' cycles: one activity at any time, summed by cause.

busy + stalls by cause + idle = total, by construction: an engine is always in exactly one
activity and each change books the cycles since the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

from simaccel.machine.stateful import Counter, Record, SkippedPeriods, State, StatefulPart
from simaccel.units import Cause


@dataclass(frozen=True, slots=True)
class Wait:
    """The direct wait of an engine: for a tile (``kind``: ready or free) that another one holds."""

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
        """Take the kind of each lane (engine, channel, tile) by name, before the first event."""

    def interval(
        self, engine: str, start: int, end: int, cause: Cause, wait: Wait, site: int
    ) -> None:
        """Take one activity of an engine, from cycle ``start`` to ``end``."""

    def note_service(self, channel: str, start: int, reported: int, uses: Sequence[int]) -> None:
        """Take uses of a channel from ``start`` on; before, it had served ``reported`` cycles.

        ``uses`` has three numbers for each use: the cycle of its end, the cycle in which the next
        one begins, and the cycles of service so far. The first use may be empty; a use without a
        pause after it continues in the next. The caller changes ``uses`` after the call.
        """

    def note_held(self, tile: str, start: int, end: int, n_bytes: int) -> None:
        """Take the bytes that the slots of a tile held from cycle ``start`` to ``end``."""

    def position(self) -> int:
        """Return the number of the next row."""

    def repeat(self, first_row: int, period_cycles: int, times: int) -> None:
        """Repeat all rows from ``first_row`` on ``times`` more times, a period later each."""

    def checkpoint(self, now: int) -> None:
        """Save all reports, which are complete up to ``now``."""


OUTER_SITES: Final = 1 << 20
"""Sites below are of commands; sites above are of commands in the cycles of another operator."""
_MOST_OUTER: Final = 2000
"""Operators whose sites fit 32 bits; with more, commands keep their own sites everywhere."""


def outer_site(site: int, operator: int) -> int:
    """Return the site of a command that runs in the cycles of another operator."""
    return site + (1 + operator) * OUTER_SITES if operator < _MOST_OUTER else site


@dataclass(eq=False)
class StallAccount(StatefulPart):
    """The cycles of one engine by cause, and the root cause for engines that wait for it."""

    kept: ClassVar[bool] = True
    """Whether cycles are booked."""

    engine: str
    busy_root: Record[Cause]
    """The cause to which waits for this engine are booked while it works."""
    listener: Listener | None = None
    cause: State[Cause] = Cause.IDLE
    wait: State[Wait] = NO_WAIT
    since: Counter[int] = 0
    site: State[int] = 0
    outer: State[int] = 0
    """The offset of sites in the cycles of another operator, the one before or the next."""
    cycles: Counter[list[int]] = field(default_factory=lambda: [0] * len(Cause))
    followers: State[list[StallAccount]] = field(default_factory=list)
    request_order: Record[int] = 0
    """The ascending number of its engine's last request to the DRAM."""

    @property
    def root(self) -> Cause:
        """The root cause of engines that wait for this one."""
        if self.cause is Cause.BUSY:
            return self.busy_root
        return Cause.DRAIN if self.cause is Cause.IDLE else self.cause

    def switch(self, now: int, cause: Cause, wait: Wait = NO_WAIT) -> None:
        """Book the cycles so far, and begin another activity."""
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
        """Change the cause of the present work, also for the engines that wait for this one."""
        if root is self.busy_root:
            return
        self.busy_root = root
        if self.cause is Cause.BUSY:
            for follower in self.followers:
                follower.switch(now, root, follower.wait)

    def flush(self, now: int) -> None:
        """Book the cycles so far, and continue the activity."""
        self.switch(now, self.cause, self.wait)

    def enter(self, now: int, site: int) -> None:
        """Begin another command; the cycles so far belong to the one before."""
        if site + self.outer != self.site:
            self.flush(now)
            self.site = site + self.outer

    def pass_on(self, now: int, late: int, *, goes_on: bool) -> None:
        """Continue in the cycles of the next operator; a command that came early is in its own.

        ``late``: the offset of other sites; ``goes_on``: whether the engine's next command is the
        next operator's.
        """
        self.flush(now)
        self.site = self.site % OUTER_SITES + (late if self.site < OUTER_SITES else 0)
        self.outer = 0 if goes_on else late

    def follow(self, now: int, other: StallAccount, wait: Wait) -> None:
        """Wait for another engine: book its activity as the cause, until ``unfollow``."""
        other.followers.append(self)
        self.switch(now, other.root, wait)

    def unfollow(self, other: StallAccount) -> None:
        """Stop booking another engine's activity."""
        if self in other.followers:
            other.followers.remove(self)

    def state(self) -> tuple[object, ...]:
        """Return activity and followers; followers switch in the order in which they came."""
        return self.cause, self.wait, self.site, self.outer, tuple(self.followers)

    def counters(self) -> tuple[int, ...]:
        """Return the booked cycles, which are complete only after a flush."""
        return (*self.cycles, self.since)

    def skip(self, skip: SkippedPeriods) -> None:
        """Book the cycles of the skipped periods."""
        for index, amount in skip.growth():
            if index < len(self.cycles):
                self.cycles[index] += amount
            else:
                self.since += amount


class NoAccount(StallAccount):
    """The account of a run that only returns its cycles: nothing is booked."""

    kept = False

    def switch(self, now: int, cause: Cause, wait: Wait = NO_WAIT) -> None:
        """Book nothing."""

    def blame(self, now: int, root: Cause) -> None:
        """Book nothing."""

    def enter(self, now: int, site: int) -> None:
        """Book nothing."""

    def pass_on(self, now: int, late: int, *, goes_on: bool) -> None:
        """Book nothing."""

    def follow(self, now: int, other: StallAccount, wait: Wait) -> None:  # noqa: ARG002 - as Account
        """Store the wait, for the message of a deadlock."""
        self.wait = wait
