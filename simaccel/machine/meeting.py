"""The end of an operator: engines wait for one another, so that DRAM holds what was stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import simpy

from simaccel.machine.clock import Clock
from simaccel.machine.stateful import Stateful


class Meeting(Stateful):
    """All engines arrive; the last one lets all go on, in the order of the engines."""

    STATE = ("arrived",)
    WIRING = ("clock", "operator", "engines", "close")

    def __init__(
        self, clock: Clock, operator: str, engines: Sequence[str], close: Callable[[str], None]
    ) -> None:
        self.clock = clock
        self.operator = operator
        self.engines = tuple(engines)
        self.close = close
        self.arrived: dict[str, simpy.Event] = {}

    def state(self) -> tuple[object, ...]:
        """Return who waits."""
        return tuple(engine in self.arrived for engine in self.engines)

    def arrive(self, engine: str) -> simpy.Event:
        """Return the event to wait for."""
        event = self.arrived[engine] = self.clock.event()
        if len(self.arrived) == len(self.engines):
            self.close(self.operator)
            for one in self.engines:
                self.arrived[one].succeed()
            self.arrived = {}
        return event
