"""Exact fast-forward: periods that repeat are skipped, with results that are exact to the cycle.

At the boundary of a loop's iteration the leader of the loop (one of its engines) compares the state
of the machine with the state at an earlier boundary. If all parts repeat, whole periods are
skipped: each counter grows by its growth in one period times the number of periods.
``docs/decisions/fast-forward.md`` proves that this is exact.
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
    """The state of the machine at one boundary."""

    cycle: int
    events: int
    places: list[int]
    """Positions of the engines, which distinguish most states at little cost."""
    states: list[tuple[object, ...]]
    gauges: list[Numbers]
    counters: list[Numbers]
    """By part; empty for a part without any."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A repetition that was found: the period since a snapshot recurs ``times`` more times."""

    cycles: int
    times: int
    intervals: list[GaugeInterval]


class Scope:
    """The parts that can change while engines are in one operator (or in any), and their probes.

    Engines meet at the end of an operator, so they use no tokens of another operator; data in
    flight are pending events of the clock, which is part of every scope.
    """

    def __init__(self, parts: Sequence[StatefulPart], lanes: Sequence[Probe]) -> None:
        self.parts = parts
        self.lanes = lanes
        self.order = list(range(len(parts)))
        """The order in which parts are compared: those that differed last come first."""
        self.movers = [
            at for at, part in enumerate(parts) if type(part).skip is not StatefulPart.skip
        ]
        """The parts that a skip changes."""


class FastForward:
    """The comparison of states, and the skip; ``looked_at`` counts compared parts (the cost).

    ``scopes``: by operator; the one with the empty name has all parts.
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
        self.cores = len({id(engine.resources) for engine in engines}) or 1

    def places(self) -> list[int]:
        """Return the position of each engine, as the number of its step."""
        return [engine.at for engine in self.engines]

    def flush(self, scope: Scope) -> None:
        """Book all cycles up to now in accounts and probes."""
        for engine in self.engines:
            engine.account.flush(self.clock.cycle)
        for lane in scope.lanes:
            lane.flush(self.clock.cycle)

    def snapshot(self, scope: Scope) -> Snapshot:
        """Return the present state. With a listener, flush first if counters matter."""
        if self.listener is None:
            self.flush(scope)
        self.looked_at += 2 * len(scope.parts)
        return Snapshot(
            self.clock.cycle,
            self.clock.events,
            self.places(),
            [part.state() for part in scope.parts],
            [part.gauges() for part in scope.parts],
            [part.counters() for part in scope.parts],
        )

    def compare(self, scope: Scope, old: Snapshot) -> Repetition | None:
        """Return how often the period since a snapshot repeats; None if it doesn't.

        It is one period less than the limits allow, because alarms may have to be set again in
        the first one (``Channel._limit_skip``).
        """
        now, limit = self.clock.cycle, FOREVER
        if now == old.cycle:
            return None
        intervals = [GaugeInterval(old.cycle, now, (), ())] * len(scope.parts)
        for at, index in enumerate(scope.order):
            part = scope.parts[index]
            if part.state() != old.states[index]:
                limit = NEVER
            elif gauges := part.gauges():
                interval = GaugeInterval(old.cycle, now, old.gauges[index], gauges)
                intervals[index] = interval
                limit = min(limit, part.limit(interval))
            if limit < 0:
                scope.order.insert(0, scope.order.pop(at))
                self.looked_at += at + 1
                return None
        self.looked_at += len(scope.parts)
        return Repetition(now - old.cycle, limit - 1, intervals)

    def skip(self, scope: Scope, old: Snapshot, found: Repetition) -> None:
        """Advance the machine by the periods of a repetition."""
        self.flush(scope)
        for at in scope.movers:
            part, counters = scope.parts[at], old.counters[at]
            part.skip(SkippedPeriods(found.intervals[at], found.times, counters, part.counters()))
