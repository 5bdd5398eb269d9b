"""Time: a SimPy environment in integer cycles whose pending events can be counted and moved."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import simpy
from simpy.core import EmptySchedule


class Clock(simpy.Environment):
    """The accelerator clock. ``now`` is an integer number of cycles."""

    def __init__(self) -> None:
        super().__init__(initial_time=0)
        self.events = 0

    @property
    def cycle(self) -> int:
        """The present cycle."""
        return int(self._now)

    def call_in(self, cycles: int, call: Callable[[simpy.Event], None]) -> simpy.Timeout:
        """Call back after ``cycles``."""
        event = self.timeout(cycles)
        assert event.callbacks is not None
        event.callbacks.append(call)
        return event

    def run_some(self, steps: int) -> bool:
        """Process up to ``steps`` events; give False when none are left."""
        step = self.step
        try:
            for _ in range(steps):
                step()
                self.events += 1
        except EmptySchedule:
            return False
        return True

    def cancel(self, event: simpy.Event) -> None:
        """Take a pending event back."""
        self._queue[:] = [entry for entry in self._queue if entry[3] is not event]
        heapq.heapify(self._queue)
