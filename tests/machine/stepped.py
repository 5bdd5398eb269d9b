"""A DRAM channel that keeps its direction, stepped by the cycle: the rule itself."""

from dataclasses import dataclass, field

READ, WRITE = 0, 1


@dataclass
class SteppedQueues:
    """The rule itself: each cycle goes to the oldest of a direction, or is lost to a turnaround."""

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

    def step(self) -> int | None:
        """Serve one cycle; give the number of the request that this finishes."""
        ours, theirs = self.queues[self.direction], self.queues[1 - self.direction]
        if not ours:
            return None
        if self.lost:
            self.lost -= 1
            return None
        ours[0][0] -= 1
        self.left -= 1
        done = ours.pop(0)[1] if not ours[0][0] else None
        if theirs and (not ours or not self.left):
            self._turn()
        return done
