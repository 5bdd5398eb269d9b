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

_KEPT = 2
"""Requests of an engine that others may share a pipe with: it may have gone on before them."""
Sets = tuple[object, int]
"""What the end of a request sets, and how many cycles later."""


class Pipes(Systolic):
    """The last requests of engines on each pipe: ``since``, ``until``, and its own ``end``."""

    def __init__(self, accelerator: Accelerator, begin: Begin | None) -> None:
        super().__init__(accelerator, begin)
        self.users: dict[str, dict[str, list[Sequence[Sets]]]] = {UP: {}, DOWN: {}}
        """By pipe and engine: what its last requests set when they end, the latest first."""
        self.names: dict[tuple[str, str, int], Sequence[object]] = {}
        """By pipe, engine and request: what its times are called."""

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
        for other, last in self.users[pipe].items():
            for n in reversed(range(len(last))) if other != engine else ():
                began, ends, alone = self._named(pipe, other, n)
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
                self._later(pipe, other, n, shared)
        self._keep(pipe, engine, (asked, end, asked + service), where, sets)
        return end

    def _later(self, pipe: str, engine: str, n: int, shift: Floats) -> None:
        """Let a request end later, and the one behind it that waited for the engine."""
        ends = self._named(pipe, engine, n)[1]
        until = self.x[ends]
        for key, latency in (*self.users[pipe][engine][n], (ends, 0)):
            self.later_at([key], until + latency, shift)
        if n:
            began, _, alone = self._named(pipe, engine, n - 1)
            behind = pick(self.x[began] == until, shift, 0)
            if anywhere(behind):
                for name in (began, alone):
                    self.x[name] = self.x[name] + behind
                self._later(pipe, engine, n - 1, behind)

    def _keep(
        self, pipe: str, engine: str, times: Sequence[Floats], where: Bools, sets: Sequence[Sets]
    ) -> None:
        """Keep a request as the last one."""
        last = self.users[pipe].setdefault(engine, [])
        self.users[pipe][engine] = [sets, *last[: _KEPT - 1]]
        for n in range(len(last[: _KEPT - 1]), -1, -1):
            names = self._named(pipe, engine, n)
            new = [self.x[name] for name in self._named(pipe, engine, n - 1)] if n else times
            for name, time in zip(names, new, strict=True):
                self.x[name] = time if where is TRUE else pick(where, time, self.x[name])

    def lasting(self, growth: Times, interval: Floats) -> Floats:
        """Return in how many periods the last one that is not asked again still shares a pipe."""
        found = super().lasting(growth, interval)
        for pipe, users in self.users.items():
            late = ZERO
            for engine in users:
                since = self._named(pipe, engine)[0]
                late = larger(late, pick(growth.get(since, ZERO) > 0, self.x[since], ZERO))
            for engine in users:
                since, until, _ = self._named(pipe, engine)
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

    def _named(self, pipe: str, engine: str, n: int = 0) -> Sequence[object]:
        """Return what the times of one of an engine's last requests on a pipe are called."""
        if (pipe, engine, n) not in self.names:
            names = ((pipe, engine, n, what) for what in ("since", "until", "end"))
            self.names[pipe, engine, n] = tuple(names)
        return self.names[pipe, engine, n]
