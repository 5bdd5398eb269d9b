"""Pipes of the NoC in time: who uses one at once shares it turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from simaccel.analytic.family import Bools, Floats, Ints
from simaccel.analytic.pointwise import anywhere, larger, pick, plain, smaller, up, without
from simaccel.analytic.systolic import Systolic
from simaccel.analytic.times import ZERO, Begin, Times
from simaccel.hardware import Accelerator

NEVER: Final[Floats] = plain(np.full((), np.inf))
Sets = tuple[object, int]
"""What the end of a request sets, and how many cycles later."""


class Pipes(Systolic):
    """The last request of each engine on each pipe: ``since``, ``until``, and its own ``end``."""

    def __init__(self, accelerator: Accelerator, begin: Begin | None) -> None:
        super().__init__(accelerator, begin)
        self.users: dict[tuple[str, str], Sequence[Sets]] = {}
        """By pipe and engine: what its last request sets when it ends."""

    def piped(
        self,
        pipe: str,
        engine: str,
        asked: Floats,
        service: Ints,
        where: Bools,
        sets: Sequence[Sets],
    ) -> Floats:
        """Return when a request on a pipe ends; those that it shares it with end later.

        Of two that are there at once each gets every other turn, until one has all it asked for.
        """
        end = asked + service
        if not anywhere(service):
            return end
        self.add(pipe, where, service)
        for (name, other), others in self.users.items():
            if name != pipe or other == engine:
                continue
            since, until = self.get((pipe, other, "since")), self.get((pipe, other, "until"))
            at = larger(asked, since)
            there = where & (until > at) & (end > at)
            if not anywhere(there):
                continue
            mine = smaller(end - at, service)
            theirs = smaller(until - at, self.get((pipe, other, "end")) - since)
            shared = pick(there, smaller(mine, theirs), 0)
            end = end + shared
            for key, latency in (*others, ((pipe, other, "until"), 0)):
                self.later_at([key], until + latency, shared)
        for what, time in (("since", asked), ("until", end), ("end", asked + service)):
            self.x[pipe, engine, what] = pick(where, time, self.get((pipe, engine, what)))
        self.users[pipe, engine] = sets
        return end

    def lasting(self, growth: Times, interval: Floats) -> Floats:
        """Return in how many periods the last one that is not asked again still shares a pipe."""
        found = NEVER
        for pipe, engine in self.users:
            late = ZERO
            for name, other in self.users:
                if name == pipe:
                    since = (pipe, other, "since")
                    late = larger(late, pick(growth.get(since, ZERO) > 0, self.get(since), ZERO))
            key = (pipe, engine, "until")
            ahead = self.get(key) - late
            again = growth.get((pipe, engine, "since"), ZERO) > 0
            faster = interval - growth.get(key, ZERO)
            there = without(again) & (late > 0) & (ahead > 0) & (faster > 0)
            if anywhere(there):
                n = up(ahead / larger(faster, 1)) - 1
                found = smaller(found, pick(there, n, NEVER))
        return found

    def still_there(self, growth: Times, moved: Floats, more: Floats) -> None:
        """Let requests that are not asked again end when those that share their pipe let them."""
        for pipe, engine in self.users:
            key = (pipe, engine, "until")
            if key in growth:
                again = growth.get((pipe, engine, "since"), ZERO) > 0
                late = moved - more * growth[key]
                self.x[key] = self.x[key] - pick(again, 0, (growth[key] > 0) * late)
