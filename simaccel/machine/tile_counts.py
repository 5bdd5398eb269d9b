"""Waits for tiles of a tensor between cores: a reader begins when enough tiles are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import simpy

from simaccel.machine.accounts import StallAccount
from simaccel.machine.clock import Clock
from simaccel.machine.stateful import (
    FOREVER,
    NEVER,
    Gauge,
    GaugeInterval,
    Numbers,
    SkippedPeriods,
    State,
    StatefulPart,
    growth,
)
from simaccel.program.awaited_tiles import AwaitedTiles

Reader = tuple[str, str]
"""An engine, and the operator for which it reads."""


@dataclass(eq=False)
class TileCounts(StatefulPart):
    """Counts of the tiles of a tensor that each maker has stored, and each reader has taken.

    A tile can be read when every maker has stored its part. Makers and readers go through the tiles
    in the same order, so counts are enough.
    """

    clock: Clock
    makers: Sequence[tuple[str, StallAccount]]
    """Engines that store the tensor, and their accounts."""
    readers: Mapping[Reader, AwaitedTiles]
    on_arrival: Mapping[str, Callable[[simpy.Event], None]] = field(init=False)
    waiting: State[dict[Reader, simpy.Event]] = field(default_factory=dict)
    in_flight: State[dict[str, int]] = field(init=False)
    """Tiles that have left an engine, and are not in the memory yet, by maker."""
    made: Gauge[dict[str, int]] = field(init=False)
    taken: Gauge[dict[Reader, int]] = field(init=False)

    def __post_init__(self) -> None:
        """Begin without any tile."""
        self.made = dict.fromkeys((name for name, _ in self.makers), 0)
        self.taken = dict.fromkeys(self.readers, 0)
        self.in_flight = dict.fromkeys(self.made, 0)
        self.on_arrival = {name: partial(self._arrive, name) for name in self.made}

    def state(self) -> tuple[object, ...]:
        """Return the readers that wait, and the tiles in flight by maker."""
        return tuple(self.waiting), tuple(self.in_flight.values())

    def gauges(self) -> Numbers:
        """Return the tiles made by each maker, then those taken by each reader."""
        return (*self.made.values(), *self.taken.values())

    def limit(self, interval: GaugeInterval) -> int:
        """Return how often the period can repeat with each reader waiting as in this one."""
        grown = [new - old for old, new in zip(interval.before, interval.after, strict=True)]
        tiles, n_makers = tuple(self.readers.values()), len(self.made)
        pairs = product(range(n_makers), range(n_makers, len(grown)))
        return min(
            (
                _periods(
                    tiles[b - n_makers],
                    (interval.before[a], interval.before[b]),
                    grown[a],
                    grown[b],
                )
                for a, b in pairs
            ),
            default=FOREVER,
        )

    def skip(self, skip: SkippedPeriods) -> None:
        """Add the tiles of the skipped periods."""
        makers, readers = list(self.made), list(self.taken)
        for at, amount in growth(skip.interval.before, skip.interval.after, skip.times):
            if at < len(makers):
                self.made[makers[at]] += amount
            else:
                self.taken[readers[at - len(makers)]] += amount

    def hand_on(self, maker: str, lag: int) -> None:
        """Count a tile of a maker that is in the memory in ``lag`` cycles."""
        self.in_flight[maker] += 1
        if lag:
            self._wake()
            self.clock.call_in(lag, self.on_arrival[maker])
        else:
            self._arrive(maker)

    def _arrive(self, maker: str, _: simpy.Event | None = None) -> None:
        self.in_flight[maker] -= 1
        self.made[maker] += 1
        self._wake()

    def _wake(self) -> None:
        """Let waiting readers check again whether they can go on."""
        waiting, self.waiting = self.waiting, {}
        for event in waiting.values():
            event.succeed()

    def take(self, reader: Reader) -> tuple[str, StallAccount] | None:
        """Take the next tile if it is stored; else return the first maker that is behind."""
        needed = self.readers[reader].needed_count(self.taken[reader])
        for name, account in self.makers:
            if self.made[name] < needed:
                return name, account
        self.taken[reader] += 1
        return None

    def is_coming(self, reader: Reader, maker: str) -> bool:
        """Return whether all that a reader needs next of a maker is stored or in flight."""
        needed = self.readers[reader].needed_count(self.taken[reader])
        return self.made[maker] + self.in_flight[maker] >= needed

    def wait(self, reader: Reader) -> simpy.Event:
        """Return the event of the next tile of any maker that is in flight, or stored."""
        self.waiting[reader] = self.clock.event()
        return self.waiting[reader]


def _periods(tiles: AwaitedTiles, before: tuple[int, int], made: int, taken: int) -> int:
    """Return how often a period that makes and takes so many tiles can repeat after the first.

    ``before``: tiles made and taken as the first one begins. A period of whole rounds repeats
    forever. Others repeat while each tile read needs one more tile made: at the end of a round a
    window (``ahead``) needs no more. If makers and reader differ in pace, all tiles that a period
    takes must be stored as it begins.

    >>> plain, window = AwaitedTiles("S", 100, 100), AwaitedTiles("S", 100, 100, ahead=2)
    >>> _periods(plain, (9, 0), 1, 3), _periods(plain, (0, 0), 2, 1), _periods(window, (2, 0), 2, 2)
    (3, -1, 48)
    """
    known, number = before
    rounds, rest = divmod(taken, tiles.read)
    if not rest and made == rounds * tiles.made:
        return FOREVER
    left, lead = tiles.steady_count(number), known + 1 - tiles.needed_count(number)
    if left < taken or (made != taken and lead < max(taken, 1)):
        return NEVER
    most = left // taken - 1 if taken else FOREVER
    return most if made >= taken else min(most, (lead - taken) // (taken - made))
