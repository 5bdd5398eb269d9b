"""Tiles that engines of some cores make for those of others, counted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

import simpy

from simaccel.machine.accounts import StallAccount
from simaccel.machine.clock import Clock
from simaccel.machine.stateful import (
    FOREVER,
    NEVER,
    GaugeInterval,
    Numbers,
    SkippedPeriods,
    StatefulPart,
    growth,
)

Reader = tuple[str, str]
"""An engine, and the operator for which it reads."""


class TileCounts(StatefulPart):
    """Counts of the tiles of a tensor that each maker has made, and each reader has taken.

    A tile is there when every maker has made its part. Makers and readers meet the tiles in the
    same order, so counting them is enough.
    """

    STATE = ("waiting", "coming")
    GAUGES = ("made", "taken")
    WIRING = ("clock", "makers", "comers")

    def __init__(
        self, clock: Clock, makers: Sequence[tuple[str, StallAccount]], readers: Sequence[Reader]
    ) -> None:
        self.clock = clock
        self.makers = tuple(makers)
        """Engines that store the tensor, and their books."""
        self.made = dict.fromkeys((name for name, _ in makers), 0)
        self.taken = dict.fromkeys(readers, 0)
        self.waiting: dict[Reader, simpy.Event] = {}
        self.coming = dict.fromkeys(self.made, 0)
        """Tiles that have left an engine, and are not in the memory yet."""
        self.comers = {name: partial(self._arrive, name) for name in self.made}

    def state(self) -> tuple[object, ...]:
        """Return who waits, and what is on its way."""
        return tuple(self.waiting), tuple(self.coming.values())

    def gauges(self) -> Numbers:
        """Return the tiles made by each maker, then those taken by each reader."""
        return (*self.made.values(), *self.taken.values())

    def limit(self, seen: GaugeInterval) -> int:
        """Return the periods in which no reader waits for more or fewer tiles than in this one."""
        grown = [new - old for old, new in zip(seen.before, seen.after, strict=True)]
        n_makers = len(self.made)
        pairs = product(range(n_makers), range(n_makers, len(grown)))
        leads = ((seen.before[a] - seen.before[b], grown[a], grown[b]) for a, b in pairs)
        return min((_periods(*lead) for lead in leads), default=FOREVER)

    def skip(self, skip: SkippedPeriods) -> None:
        """Add the tiles of the skipped periods."""
        makers, readers = list(self.made), list(self.taken)
        for at, amount in growth(skip.stretch.before, skip.stretch.after, skip.times):
            if at < len(makers):
                self.made[makers[at]] += amount
            else:
                self.taken[readers[at - len(makers)]] += amount

    def hand_on(self, maker: str, lag: int) -> None:
        """Count a tile that is in the memory in ``lag`` cycles."""
        self.coming[maker] += 1
        if lag:
            self.clock.call_in(lag, self.comers[maker])
        else:
            self._arrive(maker)

    def _arrive(self, maker: str, _: simpy.Event | None = None) -> None:
        self.coming[maker] -= 1
        self.made[maker] += 1
        waiting, self.waiting = self.waiting, {}
        for event in waiting.values():
            event.succeed()

    def take(self, reader: Reader) -> tuple[str, StallAccount] | None:
        """Take the next tile if it is there; else return the first maker that it waits for."""
        number = self.taken[reader]
        for name, account in self.makers:
            if self.made[name] <= number:
                return name, account
        self.taken[reader] += 1
        return None

    def wait(self, reader: Reader) -> simpy.Event:
        """Return the event of the next tile of any maker."""
        self.waiting[reader] = self.clock.event()
        return self.waiting[reader]


def _periods(lead: int, made: int, taken: int) -> int:
    """Return how often a period that makes and takes so many tiles can repeat after the first.

    ``lead``: tiles made and not taken at the beginning of the first one. If it changes from period
    to period, all that a period takes has to be there as it begins.

    >>> _periods(0, 2, 2) == FOREVER, _periods(3, 2, 1) == FOREVER, _periods(9, 1, 3)
    (True, True, 3)
    >>> _periods(0, 2, 1)
    -1
    """
    if made == taken:
        return FOREVER
    if lead < taken:
        return NEVER
    return FOREVER if made > taken else (lead - taken) // (taken - made)
