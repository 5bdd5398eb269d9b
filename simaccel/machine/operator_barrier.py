"""The barrier at the end of each operator, at which engines wait before the next one.

It also determines when the cycles of an operator end (`simaccel.machine.totals`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain

import simpy

from simaccel.machine.clock import Clock
from simaccel.machine.stateful import Counter, Numbers, SkippedPeriods, State, StatefulPart
from simaccel.program.dependences import CoreDependence

Ends = Callable[[str], None]
Closes = Callable[[str, Mapping[int, str]], None]
"""Call with an operator whose cycles end and, by core, the operator of the next cycles."""


class OperatorBarrier(StatefulPart):
    """The barrier at the end of each operator: when all engines arrived, its results are in DRAM.

    Engines that need these results wait at a gate. An engine that has arrived goes on up to the
    next gate, at most to the end of its next operator. ``loaders`` of a core go on together, so
    that loads of the next operator queue after those of this one. Engines that waited go on in the
    order of all engines of all cores.

    ``members`` are the engines of each operator's cores, by core, and ``storers`` those of all
    that store; operators in ``free`` wait for nothing of the one before. Before an operator,
    engines also wait for operators of other cores that it depends on (``dependences``). ``close``
    is called where the cycles of an operator end, ``end`` where it does.
    """

    clock: Clock
    members: Mapping[str, tuple[str, ...]]
    computing: Mapping[str, set[str]]
    """By operator, its engines without those that store."""
    free: frozenset[str]
    cores: Mapping[str, int]
    engines: tuple[str, ...]
    loaders: Mapping[str, frozenset[str]]
    """By loader, the loaders of its core, which go on together."""
    dependences: Mapping[str, tuple[CoreDependence, ...]]
    close: Closes
    end: Ends
    comers: Mapping[str, Callable[[simpy.Event], None]]
    arrived: State[dict[str, set[str]]]
    """By operator, the engines that have arrived at its end, until all have."""
    all_arrived: State[set[str]]
    """All engines in ``arrived``."""
    held: State[dict[str, simpy.Event]]
    """Loaders that wait for the other loaders of their core."""
    gated: State[dict[str, simpy.Event]]
    coming: State[dict[str, str]]
    """Engines whose last results are still in flight, and their operators."""
    depending: State[dict[str, tuple[str, simpy.Event]]]
    """Engines that wait for operators of other cores, each with its own next operator."""
    following: State[dict[int, str]]
    """By core, the operator after the one whose end engines arrive at, if it is free."""
    closed: State[dict[str, dict[int, str]]]
    """Operators whose cycles have ended before them; by core, the operator of the next cycles."""
    ended: Counter[dict[str, int]]
    """The number of times that each operator has ended."""

    def __init__(
        self,
        clock: Clock,
        members: Mapping[str, Mapping[int, Sequence[str]]],
        loaders: Collection[Collection[str]],
        storers: Collection[str],
        free: Collection[str],
        dependences: Mapping[str, Sequence[CoreDependence]],
        close: Closes,
        end: Ends,
    ) -> None:
        self.clock = clock
        self.members = {name: tuple(chain(*by.values())) for name, by in members.items()}
        self.computing = {name: {*own} - {*storers} for name, own in self.members.items()}
        self.free = frozenset(free)
        self.cores = {engine: core for by in members.values() for core in by for engine in by[core]}
        self.engines = tuple(dict.fromkeys(chain.from_iterable(self.members.values())))
        self.loaders = {name: frozenset(core) for core in loaders for name in core}
        self.dependences = {name: tuple(others) for name, others in dependences.items() if others}
        self.close, self.end = close, end
        self.comers = {name: partial(self._admit, name) for name in self.engines}
        self.arrived = {name: set() for name in self.members}
        self.ended = dict.fromkeys(self.members, 0)
        self.following = dict.fromkeys(self.cores.values(), "")
        self.all_arrived, self.coming, self.closed = set(), {}, {}
        self.held, self.gated, self.depending = {}, {}, {}

    def state(self) -> tuple[object, ...]:
        """Return the engines that arrived or wait, and the leads of operators that are awaited."""
        where = tuple(
            (one in self.all_arrived, one in self.held, one in self.gated, one in self.depending)
            for one in self.engines
        )
        apart = tuple(
            self._lead(name, one) for name, some in self.dependences.items() for one in some
        )
        closed = tuple((name, *after.values()) for name, after in self.closed.items())
        return where, tuple(self.coming.items()), apart, (*self.following.values(), *closed)

    def _lead(self, operator: str, other: CoreDependence) -> int:
        """Return the ends of an awaited operator beyond those that are needed."""
        more = self.ended[other.operator] - other.needed_rounds(self.ended[operator])
        return more if other.common else min(more, 0) and -1

    def counters(self) -> Numbers:
        """Return how often each operator has ended."""
        return tuple(self.ended.values())

    def skip(self, skip: SkippedPeriods) -> None:
        """Add the ends of operators in the skipped periods."""
        names = list(self.ended)
        for at, amount in skip.growth():
            self.ended[names[at]] += amount

    def arrive(
        self, engine: str, operator: str, following: str, lag: int = 0
    ) -> simpy.Event | None:
        """Arrive at the end of an operator; return the event to wait for, or None.

        ``following`` is the operator after it, empty if none. ``lag``: cycles until the last
        results of the engine have arrived.
        """
        self.following[self.cores[engine]] = following if following in self.free else ""
        if lag > 0:
            self.coming[engine] = operator
            self.clock.call_in(lag, self.comers[engine])
            return None
        return self._arrive(engine, operator)

    def _admit(self, engine: str, _: simpy.Event) -> None:
        self._arrive(engine, self.coming.pop(engine))

    def _arrive(self, engine: str, operator: str) -> simpy.Event | None:
        arrived = self.arrived[operator]
        arrived.add(engine)
        self.all_arrived.add(engine)
        event = None
        if engine in self.loaders:
            event, loaders = self.clock.event(), self.loaders[engine]
            self.held[engine] = event
            if loaders <= arrived:
                self._let_go({name: self.held.pop(name) for name in loaders})
        if len(arrived) == len(self.members[operator]):
            if event is None and engine not in self.gated:
                event = self.gated[engine] = self.clock.event()
            if self.closed.pop(operator, None) is None:
                self.close(operator, {})
            self.end(operator)
            self.ended[operator] += 1
            waiting = {name: self.gated.pop(name) for name in arrived if name in self.gated}
            self.all_arrived -= arrived
            arrived.clear()
            self._let_go(waiting | self._free() if self.depending else waiting)
        elif operator not in self.closed and self.computing[operator] <= arrived:
            cores = {self.cores[name] for name in self.members[operator]}
            after = {core: self.following[core] for core in sorted(cores)}
            if all(after.values()):
                self.closed[operator] = after
                self.close(operator, after)
        return event

    def owner(self, engine: str, operator: str) -> str:
        """Return the operator to which an engine's cycles at the end of one belong."""
        after = self.closed.get(operator)
        return operator if after is None else after[self.cores[engine]]

    def _free(self) -> dict[str, simpy.Event]:
        """Remove and return the waits for operators of other cores that are fulfilled."""
        free = [one for one, (name, _) in self.depending.items() if not self.awaited_operator(name)]
        return {one: self.depending.pop(one)[1] for one in free}

    def _let_go(self, waiting: dict[str, simpy.Event]) -> None:
        for one in self.engines:
            if one in waiting:
                waiting[one].succeed()

    def waits(self, engine: str) -> bool:
        """Return whether the last operator of an engine has not ended."""
        return engine in self.all_arrived or engine in self.coming

    def gate(self, engine: str) -> simpy.Event | None:
        """Return the event to wait for if the engine's last operator has not ended."""
        if not self.waits(engine):
            return None
        self.gated[engine] = self.clock.event()
        return self.gated[engine]

    def awaited_operator(self, operator: str) -> str:
        """Return an operator of other cores that has to end before ``operator``; empty if none."""
        for other in self.dependences.get(operator, ()):
            if self._lead(operator, other) < 0:
                return other.operator
        return ""

    def depend(self, engine: str, operator: str) -> simpy.Event:
        """Return the event to wait for while operators of other cores are awaited."""
        event = self.clock.event()
        self.depending[engine] = operator, event
        return event
