"""Pipes of the NoC in time: who uses one at once shares it turn by turn."""

from __future__ import annotations

from collections.abc import Sequence

from simaccel.analytic.family import Bools, Floats, Ints
from simaccel.analytic.pointwise import anywhere, larger, pick, smaller
from simaccel.analytic.systolic import Systolic
from simaccel.analytic.times import Begin
from simaccel.hardware import Accelerator

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
