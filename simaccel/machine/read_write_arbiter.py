"""Read-write arbiter: a DRAM channel keeps its direction while requests of it are left.

If requests of the other direction wait, the channel turns around after a batch. Within a direction
the oldest request is served first. Pure arithmetic, no SimPy: whole rounds of batches are skipped
in closed form, so the cost of a request does not depend on its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simaccel.machine.round_robin_arbiter import ServiceRequest, advance_entries, shrinking_limit
from simaccel.machine.stateful import (
    Gauge,
    GaugeInterval,
    Numbers,
    Record,
    SkippedPeriods,
    State,
    StatefulPart,
)


@dataclass(eq=False, slots=True)
class ReadWriteArbiter(StatefulPart):
    """Requests by direction (0 reads, 1 writes), the oldest first.

    ``left`` cycles of the batch are left, after ``gap`` idle cycles. A batch begins with a change
    of direction, or when the first request of the other direction arrives.
    """

    batch: tuple[int, int]
    """Cycles of a batch of reads, and of writes."""
    turnaround: int = 0
    queues: State[Gauge[tuple[list[ServiceRequest], list[ServiceRequest]]]] = field(
        default_factory=lambda: ([], [])
    )
    ring: State[Gauge[list[ServiceRequest]]] = field(default_factory=list)
    """All waiting requests: reads, then writes."""
    left: Gauge[int] = 0
    gap: Gauge[int] = 0
    direction: Gauge[int] = 0
    finish: Record[int] = 0
    """Cycles until the next request leaves; 0 before any request."""

    def add(self, entry: ServiceRequest) -> None:
        """Append a request to those of its direction."""
        self.finish = 0
        queue, ours = self.queues[entry.direction], entry.direction == self.direction
        if not (self.ring or ours):
            self._change()
        elif not queue:
            self.left = self.batch[self.direction]
        queue.append(entry)
        self.ring.insert(len(self.ring) if entry.direction else len(queue) - 1, entry)

    def _change(self) -> None:
        self.direction = 1 - self.direction
        self.gap, self.left = self.turnaround, self.batch[self.direction]

    def advance(self, cycles: int) -> int:
        """Serve for ``cycles``; requests whose service ends leave as ``finished``.

        Return the cycles of these in which no request was left.
        """
        while self.ring:
            finish = self.next_finish()
            if cycles < finish:
                self._pass(cycles)
                self.finish = finish - cycles
                return 0
            cycles -= finish
            self._pass(finish)
            self._leave()
        return cycles

    def next_finish(self) -> int:
        """Return the cycles until the next request is finished, if none arrives."""
        if not self.finish:
            self.finish = self._first_finish()
        return self.finish

    def _first_finish(self) -> int:
        ours, theirs = self.queues[self.direction], self.queues[1 - self.direction]
        rest = ours[0].remaining - self.left
        if not theirs or rest <= 0:
            return self.gap + ours[0].remaining
        batch, other = self.batch[self.direction], self.batch[1 - self.direction]
        # batches after this one: theirs, ours, theirs, ...
        needed, needs = -(-rest // batch), -(-theirs[0].remaining // other)
        start, length = self.gap + self.left + self.turnaround, self._round()
        if needs <= needed:
            return start + (needs - 1) * (length - other) + theirs[0].remaining
        return start + other + self.turnaround + (needed - 1) * (length - batch) + rest

    def _round(self) -> int:
        return sum(self.batch) + 2 * self.turnaround

    def _pass(self, cycles: int) -> None:
        """Serve for fewer cycles than until the next finish."""
        if self.queues[1 - self.direction]:
            if cycles >= self.gap + self.left:
                cycles = self._whole_batches(cycles)
            self.left -= max(0, cycles - self.gap)
        served = max(0, cycles - self.gap)
        self.gap -= min(self.gap, cycles)
        self.queues[self.direction][0].remaining -= served

    def _whole_batches(self, cycles: int) -> int:
        """Serve whole rounds at once, then whole batches; return the cycles that are left."""
        cycles -= self._end_batch()
        rounds, cycles = divmod(cycles, self._round())
        for queue, batch in zip(self.queues, self.batch, strict=True):
            queue[0].remaining -= rounds * batch
        if cycles >= self.gap + self.left:
            cycles -= self._end_batch()
        return cycles

    def _end_batch(self) -> int:
        """Serve the batch to its end; return its cycles."""
        cycles = self.gap + self.left
        self.queues[self.direction][0].remaining -= self.left
        self._change()
        return cycles

    def _leave(self) -> None:
        """Remove the request that has been served."""
        queue = next(q for q in self.queues if q and not q[0].remaining)
        gone = queue.pop(0)
        gone.finished = True
        self.ring.remove(gone)
        self.finish = 0
        if not self.queues[self.direction] and self.queues[1 - self.direction]:
            self._change()
        elif not self.queues[1 - self.direction]:
            self.left = self.batch[self.direction]

    def state(self) -> tuple[object, ...]:
        """Return the requests by direction and age."""
        return tuple((entry.owner, entry.direction) for entry in self.ring)

    def gauges(self) -> Numbers:
        """Return the progress of the batch, the rest of each request, and since when it waits."""
        numbers = [self.left, self.gap, self.direction]
        for entry in self.ring:
            numbers += (entry.remaining, entry.since)
        return tuple(numbers)

    def limit(self, interval: GaugeInterval, horizon: int = 0) -> int:
        """Return how often a period can repeat in which a large request shrinks."""
        return shrinking_limit(interval, horizon + max(self.batch))

    def skip(self, skip: SkippedPeriods) -> None:
        """Reduce what is left of large requests; the others are replaced by their successors."""
        self.finish = 0
        advance_entries(self.ring, skip)
