"""The end of an operator: engines wait for one another, so that DRAM holds what was stored."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from simaccel.machine.clock import Clock


class Meeting:
    """All engines arrive; the last one lets the others go."""

    def __init__(self, clock: Clock, operator: str, size: int, close: Callable[[str], None]) -> None:
        self.clock = clock
        self.operator = operator
        self.size = size
        self.close = close
        self.arrived: list[simpy.Event] = []

    def arrive(self) -> simpy.Event | None:
        """Give the event to wait for, or None to the last one."""
        if len(self.arrived) + 1 < self.size:
            self.arrived.append(self.clock.event())
            return self.arrived[-1]
        self.close(self.operator)
        for event in self.arrived:
            event.succeed()
        self.arrived = []
        return None
