"""Channels stepped by the cycle: the rules themselves, and who is served until when by them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

READ, WRITE = 0, 1


class Use(NamedTuple):
    """What an engine asks of a channel: ``cycles`` of service from cycle ``at`` on."""

    at: int
    engine: str
    cycles: int
    direction: int


class Stepped(Protocol):
    """A channel that serves a cycle after the other."""

    def arrive(self, cycles: int, direction: int, number: int) -> None:
        """Come behind those who wait."""

    def even(self) -> int:
        """Cycles in which the same is done; 0 where nobody waits."""

    def step(self, cycles: int = 1) -> int | None:
        """Serve for so many even cycles; give the number of the request that this finishes."""


def finishes(channel: Stepped, uses: Sequence[Use]) -> list[int]:
    """Say when each use ends, of uses in the order in which they come."""
    now, come, found = 0, 0, [0] * len(uses)
    while come < len(uses) or channel.even():
        if come < len(uses) and (uses[come].at == now or not channel.even()):
            now = uses[come].at
            channel.arrive(uses[come].cycles, uses[come].direction, come)
            come += 1
            continue
        cycles = channel.even()
        if come < len(uses):
            cycles = min(cycles, uses[come].at - now)
        done = channel.step(cycles)
        now += cycles
        if done is not None:
            found[done] = now
    return found


@dataclass
class SteppedQueues:
    """DRAM: each cycle goes to the oldest of a direction, or is lost to a turnaround."""

    batch: tuple[int, int]
    turnaround: int
    queues: tuple[list[list[int]], list[list[int]]] = field(default_factory=lambda: ([], []))
    left: int = 0
    lost: int = 0
    direction: int = READ

    def arrive(self, cycles: int, direction: int, number: int) -> None:
        """Stand behind those of the same direction."""
        if not any(self.queues):
            if direction != self.direction:
                self._turn()
        elif not self.queues[direction]:
            self.left = self.batch[self.direction]
        self.queues[direction].append([cycles, number])

    def _turn(self) -> None:
        self.direction = 1 - self.direction
        self.lost, self.left = self.turnaround, self.batch[self.direction]

    def even(self) -> int:
        """Count the cycles until a request, a batch or a turnaround ends."""
        ours, theirs = self.queues[self.direction], self.queues[1 - self.direction]
        if not ours:
            return 0
        return self.lost or (min(ours[0][0], self.left) if theirs else ours[0][0])

    def step(self, cycles: int = 1) -> int | None:
        """Serve some even cycles; give the number of the request that this finishes."""
        ours, theirs = self.queues[self.direction], self.queues[1 - self.direction]
        if not ours:
            return None
        if self.lost:
            self.lost -= cycles
            return None
        ours[0][0] -= cycles
        self.left -= cycles
        done = ours.pop(0)[1] if not ours[0][0] else None
        if theirs and (not ours or not self.left):
            self._turn()
        return done


@dataclass
class SteppedRing:
    """Turns: each cycle goes to the head of the ring."""

    quantum: int
    ring: list[list[int]] = field(default_factory=list)  # [cycles left, direction, number]
    left: int = 0

    def arrive(self, cycles: int, direction: int, number: int) -> None:
        """Stand behind those who wait."""
        self.ring.append([cycles, direction, number])
        if len(self.ring) == 1:
            self._begin()

    def _begin(self) -> None:
        self.left = min(self.quantum, self.ring[0][0])

    def even(self) -> int:
        """Count the cycles until a turn ends; alone, turn follows turn."""
        if len(self.ring) == 1:
            return self.ring[0][0]
        return self.left if self.ring else 0

    def step(self, cycles: int = 1) -> int | None:
        """Serve some even cycles; give the number of the request that this finishes."""
        if not self.ring:
            return None
        head = self.ring[0]
        head[0] -= cycles
        self.left -= cycles
        if self.left < 0:  # it was alone for more than a turn
            self.left = min(self.left % self.quantum, head[0])
        if self.left:
            return None
        self.ring.pop(0)
        if head[0]:
            self.ring.append(head)
        if self.ring:
            self._begin()
        return None if head[0] else head[2]
