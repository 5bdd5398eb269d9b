"""Turns: requesters of one resource are served in turns of a fixed quantum of cycles.

Pure arithmetic, no SimPy: between arrivals and departures whole rounds are skipped in closed
form, so the cost of a request does not depend on its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simaccel.machine.stateful import FOREVER, NEVER, Numbers, Skip, Stateful, Stretch


@dataclass(eq=False, slots=True)
class Entry(Stateful):
    """A request in service: cycles of service left, direction (0 read, 1 write), owner.

    An owner has one request at a time in a ring, so ``since`` tells it from those before.
    """

    STATE = ("direction", "owner")
    GAUGES = ("remaining", "since")
    RECORDS = ("finished",)  # has left the ring

    remaining: int
    direction: int
    owner: str
    since: int = 0
    finished: bool = False


@dataclass(eq=False, slots=True)
class Turns(Stateful):
    """A ring of entries. The head has ``left`` cycles of its turn after ``gap`` idle ones."""

    STATE = ("ring",)
    GAUGES = ("left", "gap", "direction", "ring")
    WIRING = ("quantum", "turnaround")

    quantum: int
    turnaround: int = 0
    ring: list[Entry] = field(default_factory=list)
    left: int = 0
    gap: int = 0
    direction: int = 0

    def add(self, entry: Entry) -> None:
        """Append a request behind those that wait."""
        self.ring.append(entry)
        if len(self.ring) == 1:
            self._start_turn()

    def _start_turn(self) -> None:
        head = self.ring[0]
        self.left = min(self.quantum, head.remaining)
        self.gap = self.turnaround if head.direction != self.direction else 0
        self.direction = head.direction

    def _end_turn(self) -> None:
        head = self.ring.pop(0)
        if head.remaining:
            self.ring.append(head)
        else:
            head.finished = True
        if self.ring:
            self._start_turn()

    def _round(self) -> tuple[int, int]:
        """Give the length of a round and how many rounds pass before a last turn may begin.

        Only at the start of a turn (its gap still to come) of a ring with more than one entry.
        """
        switches = sum(
            entry.direction != self.ring[i - 1].direction for i, entry in enumerate(self.ring)
        )
        rounds = min((entry.remaining - 1) // self.quantum for entry in self.ring)
        return len(self.ring) * self.quantum + switches * self.turnaround, rounds

    def _at_turn_start(self) -> bool:
        head = self.ring[0]
        switched = head.direction != self.ring[-1].direction
        return self.left == self.quantum and self.gap == self.turnaround * switched

    def advance(self, cycles: int) -> None:
        """Serve for ``cycles``; entries whose service ends on the way leave, ``finished``."""
        if len(self.ring) == 1 and self.gap + self.ring[0].remaining <= cycles:
            self._serve_the_last()
            return
        while cycles and self.ring:
            if len(self.ring) > 1 and cycles > self.quantum and self._at_turn_start():
                length, rounds = self._round()
                rounds = min(rounds, cycles // length)
                for entry in self.ring:
                    entry.remaining -= rounds * self.quantum
                cycles -= rounds * length
                self.left = min(self.quantum, self.ring[0].remaining)
            step = min(self.gap, cycles)
            self.gap -= step
            cycles -= step
            if len(self.ring) == 1:
                step = min(self.ring[0].remaining, cycles)
                self.left = self._left_alone(step)
            else:
                step = min(self.left, cycles)
                self.left -= step
            self.ring[0].remaining -= step
            cycles -= step
            if self.left == 0:
                self._end_turn()

    def _serve_the_last(self) -> None:
        head = self.ring.pop()
        head.remaining = self.left = self.gap = 0
        head.finished = True

    def _left_alone(self, step: int) -> int:
        """Give what is left of the turn after ``step`` cycles of turns that follow one another."""
        remaining = self.ring[0].remaining - step
        if step < self.left:
            return self.left - step
        over = (step - self.left) % self.quantum
        return min(self.quantum - over, remaining)

    def next_finish(self) -> int:
        """Cycles until the next entry leaves, if nothing arrives."""
        if len(self.ring) == 1:
            return self.gap + self.ring[0].remaining
        copy = Turns(
            self.quantum,
            self.turnaround,
            [Entry(e.remaining, e.direction, e.owner, e.since) for e in self.ring],
            self.left,
            self.gap,
            self.direction,
        )
        return copy._until_first()

    def _until_first(self) -> int:
        everyone, passed = len(self.ring), 0
        while len(self.ring) == everyone:
            step = self.gap + self.left
            if self._at_turn_start():
                length, rounds = self._round()
                step = length * rounds or step
            self.advance(step)
            passed += step
        return passed

    def state(self) -> tuple[object, ...]:
        """Give who waits, in turn."""
        return tuple((entry.owner, entry.direction) for entry in self.ring)

    def gauges(self) -> Numbers:
        """Give where the turn is, and what is left of each entry since when."""
        numbers = [self.left, self.gap, self.direction]
        for entry in self.ring:
            numbers += (entry.remaining, entry.since)
        return tuple(numbers)

    def limit(self, seen: Stretch, horizon: int = 0) -> int:
        """Let a large entry shrink as long as others can't tell its size.

        They can't while it has more than a turn to go and its finish lies beyond ``horizon``
        cycles after a period, where nobody has looked yet.
        """
        before, after = seen.before, seen.after
        if before[:3] != after[:3]:
            return NEVER
        limit = FOREVER
        for at in range(3, len(after), 2):
            shrinks = before[at] - after[at]
            if shrinks == 0:
                continue
            if before[at + 1] != after[at + 1]:
                return NEVER
            needed = seen.cycles + horizon + self.quantum
            limit = min(limit, max(NEVER, (after[at] - needed - 1) // shrinks))
        return limit

    def skip(self, skip: Skip) -> None:
        """Let large entries shrink; successors take the place of the others."""
        before, after = skip.stretch.before, skip.stretch.after
        for at, entry in enumerate(self.ring):
            left, since = 3 + 2 * at, 4 + 2 * at
            entry.remaining -= (before[left] - after[left]) * skip.times
            if before[since] != after[since]:
                entry.since += skip.cycles
