"""Exact fast-forward: periods that repeat are skipped, with results that are exact to the cycle.

At the boundary of a loop's iteration the leader of the loop (one of its engines) compares the state
of the machine with the state at an earlier boundary. If all parts repeat, whole periods are
skipped: each counter grows by its growth in one period times the number of periods.
``docs/decisions/fast-forward.md`` proves that this is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simaccel.hardware.cores import without_core
from simaccel.machine.accounts import Listener
from simaccel.machine.clock import Clock
from simaccel.machine.detection_budget import (
    LOOK_POINTS,
    PART_POINTS,
    DetectionBudget,
    SharedBudget,
)
from simaccel.machine.engines import Engine
from simaccel.machine.instructions import Action, Instruction
from simaccel.machine.probes import Probe
from simaccel.machine.stateful import (
    FOREVER,
    NEVER,
    GaugeInterval,
    Numbers,
    SkippedPeriods,
    StatefulPart,
)
from simaccel.units import COMPUTE_UNITS


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
        self.gauged, self.counting, self.movers = (
            [at for at, part in enumerate(parts) if getattr(type(part), name) is not inherited]
            for name in ("gauges", "counters", "skip")
            for inherited in (getattr(StatefulPart, name),)
        )
        """The parts that have gauges, or counters, and those that a skip changes."""


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
        self.accounts = [engine.account for engine in engines if engine.account.kept]
        self.scopes = scopes
        self.listener = listener
        self.looked_at = 0
        self.cores = len({id(engine.resources) for engine in engines}) or 1

    def places(self) -> list[int]:
        """Return the position of each engine, as the number of its step."""
        return [engine.at for engine in self.engines]

    def flush(self, scope: Scope) -> None:
        """Book all cycles up to now in accounts and probes."""
        for account in self.accounts:
            account.flush(self.clock.cycle)
        for lane in scope.lanes:
            lane.flush(self.clock.cycle)

    def snapshot(self, scope: Scope) -> Snapshot:
        """Return the present state. With a listener, flush first if counters matter."""
        if self.listener is None:
            self.flush(scope)
        parts = scope.parts
        self.looked_at += 2 * len(parts)
        states = [part.state() for part in parts]  # channels catch up
        gauges: list[Numbers] = [()] * len(parts)
        counters = gauges.copy()
        for at in scope.gauged:
            gauges[at] = parts[at].gauges()
        for at in scope.counting:
            counters[at] = parts[at].counters()
        return Snapshot(
            self.clock.cycle, self.clock.events, self.places(), states, gauges, counters
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
            elif before := old.gauges[index]:
                interval = GaugeInterval(old.cycle, now, before, part.gauges())
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


LEAST_TRIPS = 5
"""The fewest trips of a loop with a detector; a shorter one ends before a period is skipped."""
_NEAR_THE_END = 4
"""Periods before the end of a loop from which on no more looks are worth their cost."""


@dataclass(eq=False)
class Slot:
    """The snapshot that the loops at one depth of an engine share, as only one of them runs."""

    owner: Instruction | None = None
    """The end of the loop that it is of."""
    snapshot: Snapshot | None = None


class RepeatRecorder:
    """The positions of snapshots in a listener's rows, by which it learns of repetitions."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.first_rows: dict[PeriodDetector, int] = {}

    def begin(self, watch: PeriodDetector) -> None:
        """Store the position at which a period begins, in case it repeats."""
        self.first_rows[watch] = self.listener.position()

    def forget(self) -> None:
        """Drop open periods: a checkpoint flushed the probes, so their rows are not contiguous."""
        self.first_rows = {}

    def knows(self, watch: PeriodDetector) -> bool:
        """Return whether the rows since the detector's snapshot are contiguous."""
        return watch in self.first_rows

    def repeat(self, watch: PeriodDetector, found: Repetition) -> None:
        """Repeat the rows; open periods that began inside them are dropped."""
        first_row = self.first_rows.pop(watch)
        self.listener.repeat(first_row, found.cycles, found.times)
        self.first_rows = {w: row for w, row in self.first_rows.items() if row <= first_row}


class PeriodDetector:
    """A detector of repeated machine states at a loop's iterations (Brent's cycle detection)."""

    def __init__(
        self, forward: FastForward, leader: Engine, at: int, pool: SharedBudget, slot: Slot
    ) -> None:
        self.forward = forward
        self.leader = leader
        self.op = leader.plan.ops[at]
        self.scope = forward.scopes[_operator(leader.plan.ops[self.op.target - 1 : at])]
        self.budget = DetectionBudget(pool)
        self.slot = slot
        self.recorder: RepeatRecorder | None = None
        self.bystanders: list[int] = []
        """Other engines in the loop: once they have moved, no earlier state can occur again."""
        self.rest = self.paused = 0
        self.entered = 0
        self.iteration = 0
        self.power = 1
        self.looks = 0

    def go_round(self) -> None:
        """Pass the boundary of an iteration; skip periods if the machine repeats."""
        self.rest -= 1
        if self.rest < 0 and self._rounds_left() > 0:
            self._look()

    def _rounds_left(self) -> int:
        """Return the remaining iterations of the loop."""
        return self.op.trips - 1 - self.leader.iterations[self.op.depth]

    def _look(self) -> None:
        budget, forward = self.budget, self.forward
        if not budget.may_look(forward.clock.events):
            self.rest = self.paused = budget.rest(forward.clock.events, self.paused + 1)
            return
        looked_at, places = forward.looked_at, forward.places()
        old = self._recall_snapshot(places)
        repetition = forward.compare(self.scope, old) if old and places == old.places else None
        if old and repetition:
            self._use(old, repetition)
        elif old is None or self.looks >= self.power:
            self._remember(2 * self.power if old else 1)
        else:
            self.looks += 1
        # probes are free; several cores have as many times the events in a period
        parts, lanes = len(self.scope.parts), len(self.scope.lanes)
        points = PART_POINTS * (forward.looked_at - looked_at) * (parts - lanes) // parts
        budget.spend(LOOK_POINTS - (-points // forward.cores))

    def _recall_snapshot(self, places: list[int]) -> Snapshot | None:
        """Return the snapshot, unless it is another loop's or its state can't occur again."""
        old = self.slot.snapshot
        if old is None or self.slot.owner is not self.op:
            return None
        if self.entered != self.leader.counts[self.op.target - 1]:
            return None
        if any(places[i] != old.places[i] for i in self.bystanders):
            return None
        return old

    def _remember(self, power: int) -> None:
        if self.recorder is not None:
            self.forward.flush(self.scope)
            self.recorder.begin(self)
        self.slot.owner, self.slot.snapshot = self.op, self.forward.snapshot(self.scope)
        self.entered = self.leader.counts[self.op.target - 1]
        self.iteration = self.leader.iterations[self.op.depth]
        self.power, self.looks = power, 0

    def _use(self, old: Snapshot, repetition: Repetition) -> None:
        """Skip the repetition, unless the listener's rows since the snapshot were interrupted."""
        round_trips = self.leader.iterations[self.op.depth] - self.iteration
        if self.recorder is not None and not self.recorder.knows(self) and repetition.times > 1:
            self._remember(1)
            self.rest = round_trips - 1
            return
        if repetition.times > 0 and (self.recorder is None or self.recorder.knows(self)):
            self.forward.skip(self.scope, old, repetition)
            if self.recorder is not None:
                self.recorder.repeat(self, repetition)
            self.slot.owner = None
            self.budget.reward((self.forward.clock.events - old.events) * repetition.times)
        left = self._rounds_left()
        self.rest = left if left <= _NEAR_THE_END * round_trips else 0


def _operator(ops: Sequence[Instruction]) -> str:
    """Return the operator that a loop is in; empty if operators are in the loop."""
    if any(op.act is Action.MEET for op in ops):
        return ""
    return next((op.operator for op in ops if op.operator), "")


def watch_loops(forward: FastForward, recorder: RepeatRecorder | None) -> None:
    """Set a detector for each loop at its boundary in the plan of its leader.

    The leader of a loop is the array if it has steps in it, else the SFU, else a DMA engine: the
    engine that works longest in an iteration is the last to finish it.
    """
    pool, slots = SharedBudget(), dict[tuple[str, int], Slot]()
    sites = {e.name: {o.site for o in e.plan.ops if o.act is Action.END} for e in forward.engines}
    inside: defaultdict[int, list[object]] = defaultdict(list)
    for engine in forward.engines:
        for site in sites[engine.name]:
            inside[site].append(engine.resources)
    led: set[int] = set()
    order = {name: at for at, name in enumerate(COMPUTE_UNITS)}
    for leader in sorted(
        forward.engines, key=lambda e: order.get(without_core(e.name), len(order))
    ):
        for at, op in enumerate(leader.plan.ops):
            if op.act is Action.END and op.trips >= LEAST_TRIPS and op.site not in led:
                slot = slots.setdefault((leader.name, op.depth), Slot())
                watch = PeriodDetector(forward, leader, at, pool, slot)
                watch.recorder = recorder
                watch.bystanders = [
                    i
                    for i, e in enumerate(forward.engines)
                    if op.site not in sites[e.name] and e.resources in inside[op.site]
                ]
                leader.boundaries[at] = watch.go_round
        led |= sites[leader.name]
