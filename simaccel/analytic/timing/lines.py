"""The line of a memory's channel: the loads that were asked for last, in order of service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import TypeVar

import numpy as np

from simaccel.analytic.blocks import Move
from simaccel.analytic.bodies import FALSE, TRUE, Tiled
from simaccel.analytic.family import Bools, Floats
from simaccel.analytic.pointwise import anywhere, pick
from simaccel.analytic.timing.times import CHANNEL, EARLIER, UNASKED, ZERO, Reached
from simaccel.analytic.timing.turns import Pace
from simaccel.hardware import Accelerator

State = Sequence[Floats]
"""Whether the last transfer was a store, when loads got their turn, and what `Line.keys` names."""
RECENT = 8
"""Loads of which a later one of the program may go ahead."""
_APART = 128
_EACH = 4
"""More loads that are some candidate's last, and so many for each, take less time one by one."""


class ApartError(Exception):
    """Candidates that go too different ways to be gone through together."""


@dataclass(frozen=True, eq=False)
class Before:
    """What a channel was like for some candidates, when it had been moved on so many times."""

    where: Bools
    state: State
    moves: int


@dataclass(eq=False)
class Transfer:
    """A load or a store: when it was asked for (-1: not by this candidate).

    ``number``: how many of its kind had been gone through before. ``turn``: its place in the order
    in which all are gone through. ``before``: what the channel was like; the last holds.
    """

    begin: Floats
    tiled: Tiled
    move: Move
    number: Floats
    turn: Floats | int
    before: Sequence[Before]


@dataclass(eq=False)
class Request(Transfer):
    """A load, and when it has been served."""

    end: Floats
    engine: str
    arrival: Floats
    """When the tile is there."""


@dataclass(eq=False)
class Post(Transfer):
    """A store, and by how much it delays loads."""

    delays: Sequence[tuple[Request, Floats]]


Served = TypeVar("Served", bound=Transfer)


def in_order(later: list[tuple[Served, Bools]]) -> list[tuple[Served, Bools]]:
    """Return transfers of some candidates in the order in which they were asked for."""
    if len(later) < 2:  # noqa: PLR2004 - one is in order
        return later
    times = [pick(mine, one.begin, np.inf) for one, mine in later]
    if not any(isinstance(time, np.ndarray) for time in times):
        order = sorted(range(len(later)), key=times.__getitem__)
        return [later[number] for number in order]
    asked = np.stack(np.broadcast_arrays(*times))
    numbers = np.arange(len(later)).reshape(-1, *[1] * (asked.ndim - 1))
    others = numbers[:, None]
    before = (asked[:, None] < asked) | ((asked[:, None] == asked) & (others < numbers))
    theirs = (np.count_nonzero(before, axis=0) == others) & np.isfinite(asked)
    there = theirs.reshape(len(later), len(later), -1).any(axis=-1)
    return [
        (later[number][0], mine[number])
        for mine, some in zip(theirs, there, strict=True)
        for number in np.flatnonzero(some)
    ]


@dataclass(eq=False)
class Line:
    """The channel of a memory, ``at`` the accelerator with that memory in the DRAM's place."""

    at: Accelerator
    name: str
    recent: list[Request] = field(default_factory=list)
    """The last loads as they are gone through; the channel serves the oldest first."""
    most: int = RECENT
    """Of so many, those are forgotten that are no candidate's last any more."""
    latest: Floats = field(default_factory=lambda: UNASKED)
    """When the last of them was asked for."""
    loads: Floats = field(default_factory=lambda: ZERO)
    """How many there were."""
    wrote: Bools = field(default_factory=lambda: FALSE)
    """Whether the last transfer was a store."""
    turned: Floats = field(default_factory=lambda: ZERO)
    """When the last loads got their turn behind a store."""
    posts: list[Post] = field(default_factory=list)
    """The last stores."""
    stores: Floats = field(default_factory=lambda: ZERO)
    """How many there were."""
    until: Floats = field(default_factory=lambda: ZERO)
    """No store ends later."""
    turns: int = 0
    """How many transfers were gone through, those served again as well."""
    stored: set[int] = field(default_factory=set)
    """Tiles of stores, which a later load of the program may go ahead of."""
    moves: list[list[tuple[int, Floats]]] = field(default_factory=list)
    """By how much what it was like was moved on each time, by place."""

    @cached_property
    def pace(self) -> Pace:
        """Its batches and its change of direction."""
        loads, stores = (self.at.batch_cycles(write=way) for way in (False, True))
        return Pace(loads, stores, self.at.dram.turnaround_cycles)

    @cached_property
    def keys(self) -> list[object]:
        """Names of what changes: when the channel is free, and what is left of the last stores."""
        parts = ("since", "begin", "end", "port", "tile")
        return [
            self.channel,
            *((self.kept, n, part) for n in range(len(EARLIER)) for part in parts),
        ]

    @cached_property
    def _times(self) -> Callable[[Reached], tuple[Floats, ...]]:
        return itemgetter(*self.keys)

    def before(self, x: Reached, where: Bools = TRUE) -> Before:
        """Return what it is like now, to go back to."""
        return Before(where, self.state(x), len(self.moves))

    def moved(self, one: Before) -> State:
        """Return what it was like, as long ago as it was then."""
        found = list(one.state)
        for moves in self.moves[one.moves :]:
            for at, late in moves:
                found[at] = found[at] + late
        return found

    def state(self, x: Reached) -> State:
        """Return what it is like now."""
        return [self.wrote, self.turned, *self._times(x)]

    def keep(self, new: Request) -> None:
        """Keep a load, and forget those that are no candidate's last any more.

        Raises:
            ApartError: too many are kept.

        """
        if len(self.recent) >= self.most:
            self.recent = [one for one in self.recent if anywhere(self.counts(one))]
            self.most = max(RECENT, 2 * len(self.recent))
            if len(self.recent) > max(_APART, _EACH * np.size(self.loads)):
                raise ApartError
        self.recent.append(new)

    def counts(self, one: Request) -> Bools:
        """Return where a load is one of the last."""
        found: Bools = (one.begin >= 0) & (self.loads - one.number <= RECENT)
        return found

    def asked_after(self, begin: Floats, there: Bools) -> list[tuple[Request, Bools]]:
        """Return the last loads that were asked for after a time, with whose they are."""
        before = there & (begin < self.latest)
        if not anywhere(before):
            return []
        found = []
        for one in self.recent:
            mine = before & (begin < one.begin)
            if anywhere(mine) and anywhere(mine := mine & self.counts(one)):
                found.append((one, mine))
        return found

    def keeps(self, one: Post) -> Bools:
        """Return where a store is one of the last."""
        found: Bools = (one.begin >= 0) & (self.stores - one.number <= len(EARLIER))
        return found

    def later_than(self, ends: Sequence[Floats]) -> list[tuple[Request, Floats]]:
        """Return the last loads that end later than they did, with by how much."""
        every = zip(self.recent, ends, strict=True)
        return [(one, one.end - end) for one, end in every if one.end is not end]

    def turn(self) -> int:
        """Count a transfer that is gone through."""
        self.turns += 1
        return self.turns

    @cached_property
    def channel(self) -> str:
        """What the time is called at which it has served all loads so far."""
        return self.key(CHANNEL)

    @cached_property
    def kept(self) -> str:
        """What stands before what is left of the last stores."""
        return self.key("store")

    def key(self, what: str) -> str:
        """Name a time or an amount of this channel."""
        return what if self.name == "dram" else f"{what} of {self.name}"

    def move_on(self, moved: Floats, was: State, x: Reached) -> None:
        """Let all transfers be so much later, and what the channel ``was`` like as it is now."""
        every = enumerate(zip(self.state(x), was, strict=True))
        self.moves.append([(at, now - then) for at, (now, then) in every if now is not then])
        for one in (*self.recent, *self.posts):
            one.begin = pick(one.begin >= 0, one.begin + moved, one.begin)
            if isinstance(one, Request):
                one.end, one.arrival = one.end + moved, one.arrival + moved
        self.latest = pick(self.latest >= 0, self.latest + moved, self.latest)
        self.until = self.until + moved
