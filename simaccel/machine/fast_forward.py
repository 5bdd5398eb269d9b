"""Exact fast-forward: what repeats is skipped, to the cycle.

At the boundary of a loop's iteration the leader of the loop (one of its engines, when its turn
comes) compares the machine with what it was at an earlier boundary. When all parts say that they
repeat, whole periods are skipped: each part moves on by what it grew in one period times their
number. ``docs/decisions/0002-fast-forward.md`` says why this is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simaccel.machine.accounts import Listener
from simaccel.machine.clock import Clock
from simaccel.machine.engines import Engine
from simaccel.machine.probes import Probe
from simaccel.machine.stateful import (
    FOREVER,
    NEVER,
    GaugeInterval,
    Numbers,
    SkippedPeriods,
    StatefulPart,
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The machine at one boundary."""

    cycle: int
    events: int
    places: list[int]
    """Where the engines are: a first look, which tells most states apart."""
    states: list[tuple[object, ...]]
    gauges: list[Numbers]
    counters: list[Numbers]
    """By part; empty where a part has none."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """The machine is as it was at a snapshot, and stays so for ``times`` more periods."""

    cycles: int
    times: int
    stretches: list[GaugeInterval]


class Scope:
    """The parts that can change while engines are in one operator (or anywhere), and their lanes.

    Engines meet at the end of an operator. So nobody touches the tokens of another one; data that
    are still under way to them are pending events of the clock, which is always a part.
    """

    def __init__(self, parts: Sequence[StatefulPart], lanes: Sequence[Probe]) -> None:
        self.parts = parts
        self.lanes = lanes
        self.order = list(range(len(parts)))
        """In which parts are compared: those first that differed last."""
        self.movers = [
            at for at, part in enumerate(parts) if type(part).skip is not StatefulPart.skip
        ]
        """The parts in which something moves on with time."""


class FastForward:
    """Remembers, compares and skips. ``looked_at`` counts parts, for those who budget looks.

    ``scopes`` by operator; that of no name has all parts.
    """

    def __init__(
        self,
        clock: Clock,
        engines: Sequence[Engine],
        scopes: Mapping[str, Scope],
        listener: Listener | None,
    ) -> None:
        self.clock = clock
        self.engines = engines
        self.scopes = scopes
        self.listener = listener
        self.looked_at = 0

    def places(self) -> list[int]:
        """Return the step at which each engine is."""
        return [engine.at for engine in self.engines]

    def flush(self, scope: Scope) -> None:
        """Book all cycles up to now, so that accounts and lanes count to the same point."""
        for engine in self.engines:
            engine.account.flush(self.clock.cycle)
        for lane in scope.lanes:
            lane.flush(self.clock.cycle)

    def snapshot(self, scope: Scope) -> Snapshot:
        """Remember the machine as it is. With a listener, flush first if counters matter."""
        if self.listener is None:
            self.flush(scope)
        self.looked_at += 2 * len(scope.parts)
        return Snapshot(
            self.clock.cycle,
            self.clock.events,
            self.places(),
            [part.state() for part in scope.parts],
            [part.gauges() if part.GAUGES else () for part in scope.parts],
            [part.counters() if part.COUNTERS else () for part in scope.parts],
        )

    def compare(self, scope: Scope, old: Snapshot) -> Repetition | None:
        """Find how often the period since a snapshot repeats, if it does.

        One period less than the limits allow, because the machine may have something to set
        right in the first one (``Channel._limit_skip``).
        """
        now, limit = self.clock.cycle, FOREVER
        if now == old.cycle:
            return None
        stretches = [GaugeInterval(old.cycle, now, (), ())] * len(scope.parts)
        for at, index in enumerate(scope.order):
            part = scope.parts[index]
            if part.state() != old.states[index]:
                limit = NEVER
            elif part.GAUGES:
                seen = GaugeInterval(old.cycle, now, old.gauges[index], part.gauges())
                stretches[index] = seen
                limit = min(limit, part.limit(seen))
            if limit < 0:
                scope.order.insert(0, scope.order.pop(at))
                self.looked_at += at + 1
                return None
        self.looked_at += len(scope.parts)
        return Repetition(now - old.cycle, limit - 1, stretches)

    def skip(self, scope: Scope, old: Snapshot, found: Repetition) -> None:
        """Move the machine on by the periods that would repeat."""
        self.flush(scope)
        for at in scope.movers:
            part, counters = scope.parts[at], old.counters[at]
            part.skip(SkippedPeriods(found.stretches[at], found.times, counters, part.counters()))
