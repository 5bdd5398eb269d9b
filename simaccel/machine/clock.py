"""The clock: a SimPy environment in integer cycles whose pending events can be moved."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from types import MethodType
from typing import Any

import simpy
from simpy.core import EmptySchedule
from simpy.events import EventPriority

from simaccel.machine.stateful import (
    FOREVER,
    NEVER,
    Gauge,
    GaugeInterval,
    Numbers,
    Record,
    SkippedPeriods,
    State,
    StatefulPart,
)

Call = Callable[[simpy.Event], None]


class Alarm(simpy.Timeout):
    """A timeout that its channel sets, cancels and moves; the clock keeps its order."""


class Clock(simpy.Environment, StatefulPart):
    """The accelerator clock. ``now`` is an integer number of cycles."""

    _queue: State[Gauge[list[tuple[float, EventPriority, int, simpy.Event]]]]
    _now: Gauge[float]
    _eid: Record[Any]
    _active_proc: Record[simpy.Process | None]
    events: Record[int]
    skips: bool
    """Whether cycles in which nothing else happens may pass at once (`pass_time`)."""
    cycle: Record[int]
    """The present cycle, as an integer."""

    def __init__(self) -> None:
        super().__init__(initial_time=0)
        # SimPy binds these once for its own environment, for others with each use
        for name, kind in (("timeout", simpy.Timeout), ("event", simpy.Event)):
            setattr(self, name, MethodType(kind, self))
        self.events = 0
        self.skips = False
        self.cycle = 0

    def call_in(self, cycles: int, call: Call) -> None:
        """Call back after ``cycles``."""
        event = self.timeout(cycles)
        event.callbacks.append(call)

    def alarm(self, cycles: int, call: Call) -> Alarm:
        """Call back after ``cycles``, unless the alarm is cancelled or moved."""
        event = Alarm(self, cycles)
        event.callbacks.append(call)
        return event

    def run_some(self, steps: int) -> bool:
        """Process up to ``steps`` events, as SimPy does; return False when none are left."""
        queue, next_of = self._queue, heapq.heappop
        for _ in range(steps):
            if not queue:
                return False
            due, _, _, event = next_of(queue)
            self._now = self.cycle = due  # type: ignore[assignment]  # integers only
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            for callback in callbacks:
                callback(event)
            self.events += 1
            if not event._ok:  # noqa: SLF001 - the environment is what looks at it
                raise event._value  # noqa: SLF001 - the exception
        return True

    def pass_time(self, cycles: int, times: int = 1) -> int:
        """Pass ``cycles`` up to ``times`` times at once, before anything else happens.

        Return how often, as one event: 0 if a timeout would not be the next event.
        """
        queue, now = self._queue, self.cycle
        if not self.skips:
            return 0
        if queue:
            times = min(times, (int(queue[0][0]) - now - 1) // cycles)
        if times <= 0:
            return 0
        self.events += 1
        self._now = self.cycle = now + times * cycles
        return times

    def step(self) -> None:
        """Process the next event.

        Raises:
            EmptySchedule: there is none.
        """
        if not self.run_some(1):
            raise EmptySchedule

    def cancel(self, event: simpy.Event) -> None:
        """Cancel a pending event."""
        self._queue[:] = [entry for entry in self._queue if entry[3] is not event]
        heapq.heapify(self._queue)

    def postpone(self, event: simpy.Event, cycles: int) -> None:
        """Move a pending event, which keeps its place among events of the same time."""
        self._queue[:] = [
            (due + cycles, priority, number, pending) if pending is event else entry
            for entry in self._queue
            for due, priority, number, pending in (entry,)
        ]
        heapq.heapify(self._queue)

    def state(self) -> tuple[object, ...]:
        """Return the callbacks of pending events, in order."""
        return tuple(entry[3].callbacks[:1] for entry in sorted(self._queue))

    def gauges(self) -> Numbers:
        """Return the cycles of pending events; those of alarms belong to their channels."""
        return tuple(
            0 if isinstance(entry[3], Alarm) else int(entry[0]) for entry in sorted(self._queue)
        )

    def limit(self, interval: GaugeInterval) -> int:
        """Return the periods until an event is due that has not moved with the period."""
        limit = FOREVER
        for old, new in zip(interval.before, interval.after, strict=True):
            if old == new:
                limit = min(limit, interval.ends_before(new) if new else FOREVER)
            elif new - old != interval.cycles:
                return NEVER
        return limit

    def skip(self, skip: SkippedPeriods) -> None:
        """Advance time, with the events that belong to the period."""
        interval = skip.interval
        self._queue[:] = [
            (due if old == new else due + skip.cycles, priority, number, event)
            for old, new, (due, priority, number, event) in zip(
                interval.before, interval.after, sorted(self._queue), strict=True
            )
        ]
        heapq.heapify(self._queue)
        self._now = self.cycle = self.cycle + skip.cycles
