"""Arbiters: the order in which a channel serves requests; pure arithmetic, no SimPy.

Round-robin: turns of a fixed quantum. Read-write, of a DRAM channel: it keeps its direction while
requests of it are left, and turns around after a batch if others wait. Between arrivals and
departures whole rounds are skipped in closed form: a large request costs no more than a small one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

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

READ, WRITE = 0, 1
"""The directions of requests."""


@dataclass(eq=False, slots=True)
class ServiceRequest(StatefulPart):
    """A request in service: cycles of service left, direction, owner.

    An owner has one request at a time in a ring; ``since`` distinguishes successive ones.
    """

    remaining: Gauge[int]
    direction: State[int]
    owner: State[str]
    since: Gauge[int] = 0
    finished: Record[bool] = False
    """Whether it has left the ring."""


@dataclass(eq=False, slots=True, kw_only=True)
class Arbiter(StatefulPart):
    """Requests in service; ``left`` cycles of the turn or batch are left, after ``gap`` idle ones.

    ``direction``: of that turn or batch.
    """

    ring: State[Gauge[list[ServiceRequest]]] = field(default_factory=list)
    """All requests."""
    left: Gauge[int] = 0
    gap: Gauge[int] = 0
    direction: Gauge[int] = 0
    finish: Record[int] = 0
    """Cycles until the first request leaves; 0 before any request."""

    def longest_turn(self) -> int:
        """Return the most cycles of a turn or batch."""
        raise NotImplementedError

    def state(self) -> tuple[object, ...]:
        """Return the requests in the order of the ring."""
        return tuple((entry.owner, entry.direction) for entry in self.ring)

    def gauges(self) -> Numbers:
        """Return the progress of the turn, the rest of each request, and since when it waits."""
        numbers = [self.left, self.gap, self.direction]
        for entry in self.ring:
            numbers += (entry.remaining, entry.since)
        return tuple(numbers)

    def limit(self, interval: GaugeInterval, horizon: int = 0) -> int:
        """Return how often a period can repeat in which large requests shrink.

        The size of one does not affect the others as long as more than a turn of it is left and its
        finish is more than ``horizon`` cycles after the period, where no event has been computed
        yet. The first three gauges must not change.
        """
        before, after = interval.before, interval.after
        if before[:3] != after[:3]:
            return NEVER
        limit, beyond = FOREVER, horizon + self.longest_turn()
        for at in range(3, len(after), 2):
            shrinks = before[at] - after[at]
            if shrinks == 0:
                continue
            if before[at + 1] != after[at + 1]:
                return NEVER
            limit = min(limit, max(NEVER, (after[at] - interval.cycles - beyond - 1) // shrinks))
        return limit

    def skip(self, skip: SkippedPeriods) -> None:
        """Reduce what is left of large requests; the others are replaced by their successors."""
        self.finish = 0
        before, after = skip.interval.before, skip.interval.after
        for at, entry in enumerate(self.ring):
            left, since = 3 + 2 * at, 4 + 2 * at
            entry.remaining -= (before[left] - after[left]) * skip.times
            if before[since] != after[since]:
                entry.since += skip.cycles


@dataclass(eq=False, slots=True)
class RoundRobinArbiter(Arbiter):
    """A ring of requests. The head has ``left`` cycles of its turn; no cycle is idle.

    The first request to finish is the one that needs fewest turns (the first of these in the ring).
    Until then all others take whole turns, so the cycle in which it finishes has a closed form.
    """

    turnaround: ClassVar[int] = 0
    quantum: int

    def longest_turn(self) -> int:
        """Return the cycles of a turn."""
        return self.quantum

    def add(self, entry: ServiceRequest) -> None:
        """Append a request to those that wait."""
        self.finish = 0
        self.ring.append(entry)
        if len(self.ring) == 1:
            self._start_turn(entry)

    def _start_turn(self, head: ServiceRequest) -> None:
        self.left = min(self.quantum, head.remaining)
        self.direction = head.direction

    def advance(self, cycles: int) -> int:
        """Serve for ``cycles``; requests whose service ends leave the ring as ``finished``.

        Return the cycles of these in which no request was left.
        """
        while len(self.ring) > 1:
            finish = self.finish or self.next_finish()
            if cycles < finish:
                self.finish = finish - cycles
                self._pass(cycles)
                return 0
            cycles -= finish
            self._leave()
        return self._advance_alone(cycles) if self.ring else cycles

    def _advance_alone(self, cycles: int) -> int:
        """Serve the only request, in one turn after the other."""
        head = self.ring[0]
        left = cycles - head.remaining
        if left >= 0:
            self.ring.clear()
            head.remaining = self.left = 0
            head.finished = True
            return left
        head.remaining -= cycles
        if cycles < self.left:
            self.left -= cycles
        else:
            over = (cycles - self.left) % self.quantum
            self.left = min(self.quantum - over, head.remaining)
        return 0

    def next_finish(self) -> int:
        """Return the cycles until the next request is finished, if none arrives."""
        if len(self.ring) == 1:
            return self.ring[0].remaining
        if not self.finish:
            self.finish = self._finish_of(*self._next_departure())
        return self.finish

    def _next_departure(self) -> tuple[int, int]:
        """Return the whole rounds before a request finishes, and its place in the ring."""
        quantum, ring = self.quantum, self.ring
        rounds = [(entry.remaining - 1) // quantum for entry in ring]
        rounds[0] = (ring[0].remaining - self.left + quantum - 1) // quantum
        least = min(rounds)
        return least, rounds.index(least)

    def _finish_of(self, rounds: int, place: int) -> int:
        """Return the cycles until a request is finished: its own turns and those of the others."""
        others = len(self.ring) - 1
        cycles = self.ring[place].remaining + rounds * others * self.quantum
        if place:
            cycles += self.left + (place - 1) * self.quantum
        return cycles

    def _leave(self) -> None:
        """Advance to the next finish; requests before the finished one had one turn more."""
        ring, quantum = self.ring, self.quantum
        rounds, place = self._next_departure()
        ring[0].remaining += quantum - self.left
        for at, entry in enumerate(ring):
            entry.remaining -= quantum * (rounds + (at < place))
        gone = ring[place]
        gone.remaining, gone.finished = 0, True
        self.ring = ring[place + 1 :] + ring[:place]
        self.direction = gone.direction
        self._start_turn(self.ring[0])
        self.finish = 0

    def _pass(self, cycles: int) -> None:
        """Serve several requests for fewer cycles than until the next finish."""
        if cycles >= self.left:
            cycles = self._whole_turns(cycles)
        self.left -= cycles
        self.ring[0].remaining -= cycles

    def _whole_turns(self, cycles: int) -> int:
        """Serve whole rounds at once, then whole turns; return the cycles that are left."""
        ring, quantum = self.ring, self.quantum
        cycles -= self._turn()
        if cycles >= len(ring) * quantum:
            rounds, cycles = divmod(cycles, len(ring) * quantum)
            for entry in ring:
                entry.remaining -= rounds * quantum
            self.left = min(quantum, ring[0].remaining)
        while cycles >= self.left:
            cycles -= self._turn()
        return cycles

    def _turn(self) -> int:
        """End the turn of the head, which stays in the ring; return the cycles of the turn."""
        cycles, head = self.left, self.ring.pop(0)
        head.remaining -= cycles
        self.ring.append(head)
        self._start_turn(self.ring[0])
        return cycles


@dataclass(eq=False, slots=True)
class ReadWriteArbiter(Arbiter):
    """Requests by direction (0 reads, 1 writes), the oldest first.

    ``left`` cycles of the batch are left, after ``gap`` idle cycles. A batch begins with a change
    of direction, or when the first request of the other direction arrives. ``turnaround``: idle
    cycles at a change of direction.
    """

    batch: tuple[int, int]
    """Cycles of a batch of reads, and of writes."""
    turnaround: int = 0
    queues: State[Gauge[tuple[list[ServiceRequest], list[ServiceRequest]]]] = field(
        default_factory=lambda: ([], [])
    )
    """The ring's requests: reads, and writes."""

    def longest_turn(self) -> int:
        """Return the cycles of the longer batch."""
        return max(self.batch)

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
