"""The end of an operator: engines wait for one another, so that DRAM holds what was stored."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from simaccel.machine.clock import Clock
from simaccel.machine.stateful import Stateful


class Meeting(Stateful):
    """All engines arrive; the last one lets the others go."""

    STATE = ("arrived",)
    WIRING = ("clock", "operator", "size", "close")

    def __init__(
        self, clock: Clock, operator: str, size: int, close: Callable[[str], None]
    ) -> None:
        self.clock = clock
        self.operator = operator
        self.size = size
        self.close = close
        self.arrived: list[tuple[str, simpy.Event]] = []

    def state(self) -> tuple[object, ...]:
        """Return who waits, in the order in which they will go on."""
        return tuple(engine for engine, _ in self.arrived)

    def arrive(self, engine: str) -> simpy.Event | None:
        """Return the event to wait for, or None to the last one."""
        if len(self.arrived) + 1 < self.size:
            event = self.clock.event()
            self.arrived.append((engine, event))
            return event
        self.close(self.operator)
        for _, event in self.arrived:
            event.succeed()
        self.arrived = []
        return None
