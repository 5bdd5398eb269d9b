"""The line of a memory's channel: the loads that were asked for last, in order of service."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from simaccel.analytic.blocks import Move
from simaccel.analytic.bodies import FALSE, Tiled
from simaccel.analytic.family import Bools, Floats
from simaccel.analytic.pointwise import anywhere, pick
from simaccel.analytic.times import UNASKED, ZERO
from simaccel.analytic.turns import Pace
from simaccel.hardware import Accelerator

RECENT = 6
"""Loads of which a later one of the program may go ahead."""


@dataclass(eq=False)
class Request:
    """A load: when it was asked for (-1: not by this candidate), served, and the channel free.

    ``number``: loads that had been gone through before.
    """

    begin: Floats
    free: Floats
    end: Floats
    engine: str
    tiled: Tiled
    arrival: Floats
    """When the tile is there."""
    number: Floats
    move: Move


@dataclass(frozen=True, eq=False)
class Place:
    """One place in the order of service: a load for each candidate that has one there."""

    members: list[tuple[Request, Bools]]

    @cached_property
    def later(self) -> Bools:
        """Candidates that have a load here."""
        return functools.reduce(operator.or_, (mine for _, mine in self.members))

    def of(self, name: Literal["begin", "free", "end"]) -> Floats:
        """Return a time of each candidate's load."""
        found = ZERO
        for one, mine in self.members:
            found = pick(mine, getattr(one, name), found)
        return found


def in_order(later: list[tuple[Request, Bools]]) -> list[Place]:
    """Return loads in the order of service, each place with those that a candidate has there."""
    if len(later) < 2:  # noqa: PLR2004 - one is in order
        return [Place([one]) for one in later]
    times = [pick(mine, one.begin, np.inf) for one, mine in later]
    if not any(isinstance(time, np.ndarray) for time in times):
        order = sorted(range(len(later)), key=times.__getitem__)
        return [Place([later[number]]) for number in order]
    asked = np.stack(np.broadcast_arrays(*times))
    numbers = np.arange(len(later)).reshape(-1, *[1] * (asked.ndim - 1))
    others = numbers[:, None]
    before = (asked[:, None] < asked) | ((asked[:, None] == asked) & (others < numbers))
    theirs = (np.count_nonzero(before, axis=0) == others) & np.isfinite(asked)
    there = theirs.reshape(len(later), len(later), -1).any(axis=-1)
    return [
        Place([(later[number][0], mine[number]) for number in np.flatnonzero(some)])
        for mine, some in zip(theirs, there, strict=True)
        if anywhere(some)
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
    stored: set[int] = field(default_factory=set)
    """Tiles of stores, which a later load of the program may go ahead of."""

    @cached_property
    def pace(self) -> Pace:
        """Its batches and its change of direction."""
        loads, stores = (self.at.batch_cycles(write=way) for way in (False, True))
        return Pace(loads, stores, self.at.dram.turnaround_cycles)

    def key(self, what: str) -> str:
        """Name a time or an amount of this channel."""
        return what if self.name == "dram" else f"{what} of {self.name}"

    def move_on(self, moved: Floats) -> None:
        """Let all loads be so much later."""
        for one in self.recent:
            one.begin = pick(one.begin >= 0, one.begin + moved, one.begin)
            one.free, one.end = one.free + moved, one.end + moved
            one.arrival = one.arrival + moved
        self.latest = pick(self.latest >= 0, self.latest + moved, self.latest)
