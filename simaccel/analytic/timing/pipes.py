"""Pipes of the NoC in time: who uses one at once shares it turn by turn."""

from __future__ import annotations

from collections.abc import Sequence

from simaccel.analytic.bodies import TRUE
from simaccel.analytic.family import Bools, Floats, Ints
from simaccel.analytic.pointwise import anywhere, larger, pick, smaller, up, without
from simaccel.analytic.timing.ports import NEVER
from simaccel.analytic.timing.systolic import Systolic
from simaccel.analytic.timing.times import DOWN, UP, ZERO, Begin, Times
from simaccel.hardware import Accelerator

Sets = tuple[object, int]
"""What the end of a request sets, and how many cycles later."""


class Pipes(Systolic):
    """The last request of each engine on each pipe: ``since``, ``until``, and its own ``end``."""

    def __init__(self, accelerator: Accelerator, begin: Begin | None) -> None:
        super().__init__(accelerator, begin)
        self.users: dict[str, dict[str, Sequence[Sets]]] = {UP: {}, DOWN: {}}
        """By pipe and engine: what its last request sets when it ends."""
        self.names: dict[tuple[str, str], Sequence[object]] = {}
        """By pipe and engine: what its last request's times are called."""

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
        for other, others in self.users[pipe].items():
            if other == engine:
                continue
            began, ends, alone = self.names[pipe, other]
            until = self.x[ends]
            if not anywhere(until > asked):
                continue
            since = self.x[began]
            at = larger(asked, since)
            there = where & (until > at) & (end > at)
            if not anywhere(there):
                continue
            mine = smaller(end - at, service)
            theirs = smaller(until - at, self.x[alone] - since)
            shared = pick(there, smaller(mine, theirs), 0)
            end = end + shared
            for key, latency in (*others, (ends, 0)):
                self.later_at([key], until + latency, shared)
        times = asked, end, asked + service
        for name, time in zip(self._named(pipe, engine), times, strict=True):
            self.x[name] = time if where is TRUE else pick(where, time, self.x[name])
        self.users[pipe][engine] = sets
        return end

    def lasting(self, growth: Times, interval: Floats) -> Floats:
        """Return in how many periods the last one that is not asked again still shares a pipe."""
        found = super().lasting(growth, interval)
        for pipe, users in self.users.items():
            late = ZERO
            for engine in users:
                since = self.names[pipe, engine][0]
                late = larger(late, pick(growth.get(since, ZERO) > 0, self.x[since], ZERO))
            for engine in users:
                since, until, _ = self.names[pipe, engine]
                ahead = self.x[until] - late
                again = growth.get(since, ZERO) > 0
                faster = interval - growth.get(until, ZERO)
                there = without(again) & (late > 0) & (ahead > 0) & (faster > 0)
                if anywhere(there):
                    n = up(ahead / larger(faster, 1)) - 1
                    found = smaller(found, pick(there, n, NEVER))
        return found

    def still_there(self, growth: Times, moved: Floats, more: Floats) -> None:
        """Let requests that are not asked again end when those that share their pipe let them."""
        for since, until, _ in self.names.values():
            if until in growth:
                again = growth.get(since, ZERO) > 0
                late = moved - more * growth[until]
                self.x[until] = self.x[until] - pick(again, 0, (growth[until] > 0) * late)

    def _named(self, pipe: str, engine: str) -> Sequence[object]:
        """Return what the times of an engine's last request on a pipe are called."""
        if (pipe, engine) not in self.names:
            names = ((pipe, engine, what) for what in ("since", "until", "end"))
            self.names[pipe, engine] = tuple(names)
        return self.names[pipe, engine]
