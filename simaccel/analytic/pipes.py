"""Pipes of the NoC in time: who uses one at once shares it turn by turn."""

from __future__ import annotations

from collections.abc import Sequence

from simaccel.analytic.bodies import TRUE
from simaccel.analytic.family import Bools, Floats, Ints
from simaccel.analytic.pointwise import anywhere, larger, pick, smaller
from simaccel.analytic.systolic import Systolic
from simaccel.analytic.times import DOWN, UP, Begin
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
            until = self.get(ends)
            if not anywhere(until > asked):
                continue
            since = self.get(began)
            at = larger(asked, since)
            there = where & (until > at) & (end > at)
            if not anywhere(there):
                continue
            mine = smaller(end - at, service)
            theirs = smaller(until - at, self.get(alone) - since)
            shared = pick(there, smaller(mine, theirs), 0)
            end = end + shared
            for key, latency in (*others, (ends, 0)):
                self.later_at([key], until + latency, shared)
        times = asked, end, asked + service
        for name, time in zip(self._named(pipe, engine), times, strict=True):
            self.x[name] = time if where is TRUE else pick(where, time, self.get(name))
        self.users[pipe][engine] = sets
        return end

    def _named(self, pipe: str, engine: str) -> Sequence[object]:
        """Return what the times of an engine's last request on a pipe are called."""
        if (pipe, engine) not in self.names:
            names = ((pipe, engine, what) for what in ("since", "until", "end"))
            self.names[pipe, engine] = tuple(names)
        return self.names[pipe, engine]
