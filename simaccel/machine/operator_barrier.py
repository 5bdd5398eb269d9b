"""The ends of operators: who may begin the next one, and when."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import simpy

from simaccel.machine.clock import Clock
from simaccel.machine.stateful import StatefulPart


class OperatorBarrier(StatefulPart):
    """Engines come to the end of each operator; when all have, DRAM holds what was stored.

    Who needs that waits at a gate; whoever has come goes on as far as the next gate, and no
    further than the end of the next operator. ``loaders`` go on together, so that loads of the
    next operator stand behind those of this one. Who has waited goes on in the order of the
    engines, those of all cores. Loaders of one core do not wait for those of another.
    """

    STATE = ("arrived", "held", "gated", "coming")
    WIRING = ("clock", "engines", "loaders", "close", "comers")

    def __init__(
        self,
        clock: Clock,
        engines: Sequence[str],
        loaders: Collection[Collection[str]],
        close: Callable[[str], None],
    ) -> None:
        self.clock = clock
        self.engines = tuple(engines)
        self.loaders = {name: frozenset(core) for core in loaders for name in core}
        """By loader those of its core, which go on together."""
        self.close = close
        self.arrived: set[str] = set()
        self.coming: dict[str, str] = {}
        """Engines whose last results are still on their way, and their operators."""
        self.comers = {name: partial(self._come, name) for name in self.engines}
        self.held: dict[str, simpy.Event] = {}
        """Loaders that wait for one another."""
        self.gated: dict[str, simpy.Event] = {}

    def state(self) -> tuple[object, ...]:
        """Return who has come and who waits."""
        here = tuple(
            (one in self.arrived, one in self.held, one in self.gated) for one in self.engines
        )
        return here, tuple(self.coming.items())

    def arrive(self, engine: str, operator: str, lag: int = 0) -> simpy.Event | None:
        """Come to the end of an operator; return what to wait for before going on.

        ``lag``: cycles until the last results of the engine are there.
        """
        if lag > 0:
            self.coming[engine] = operator
            self.clock.call_in(lag, self.comers[engine])
            return None
        return self._arrive(engine, operator)

    def _come(self, engine: str, _: simpy.Event) -> None:
        self._arrive(engine, self.coming.pop(engine))

    def _arrive(self, engine: str, operator: str) -> simpy.Event | None:
        self.arrived.add(engine)
        event = None
        if engine in self.loaders:
            event, loaders = self.clock.event(), self.loaders[engine]
            self.held[engine] = event
            if loaders <= self.arrived:
                self._let_go({name: self.held.pop(name) for name in loaders})
        if len(self.arrived) == len(self.engines):
            if event is None and engine not in self.gated:
                event = self.gated[engine] = self.clock.event()
            self.close(operator)
            waiting, self.gated, self.arrived = self.gated, {}, set()
            self._let_go(waiting)
        return event

    def _let_go(self, waiting: dict[str, simpy.Event]) -> None:
        for one in self.engines:
            if one in waiting:
                waiting[one].succeed()

    def waits(self, engine: str) -> bool:
        """Whether the operator that an engine left last has not ended."""
        return engine in self.arrived or engine in self.coming

    def gate(self, engine: str) -> simpy.Event | None:
        """Return the event to wait for if the operator that the engine has done has not ended."""
        if not self.waits(engine):
            return None
        self.gated[engine] = self.clock.event()
        return self.gated[engine]
