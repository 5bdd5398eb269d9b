"""What looking for repetitions may cost: points, of which an event of the run earns a few."""

from __future__ import annotations

from dataclasses import dataclass

# Points of about a quarter of a microsecond.
EVENT_POINTS = 20
LOOK_POINTS = 6
PART_POINTS = 3

_SHARE = 160
"""A watch spends at most one in so many points of the run's events."""
_FIRST = 2000
"""What a watch may spend in advance of what it earns, as long as the pool lasts."""
_POOL = 12_000
_MOST = 1 << 20
_REWARD = 4
"""One in so many points of the events that a skip saves comes back for more looks."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 8, 1 << 12


@dataclass(eq=False)
class Pool:
    """Points that watches may take in advance; skips fill it up again."""

    points: int = _POOL


class Purse:
    """The points of one watch. It saves up for bursts of looks, longer ones each time."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.points = 0
        self.advance = _FIRST
        self.most = _FIRST
        self.pause = _SHORTEST_PAUSE
        self.resting = False
        self.events = 0

    def may_look(self, events: int) -> bool:
        """Earn from the events since last time; tell whether there are points to spend."""
        earned = (events - self.events) * EVENT_POINTS // _SHARE
        self.points = min(self.points + earned, self.most)
        self.events = events
        if self.points <= 0:
            taken = min(self.advance, self.pool.points)
            self.advance -= taken
            self.pool.points -= taken
            self.points += taken
        if self.points <= (self.most // 2 if self.resting else 0):
            return False
        self.resting = False
        return True

    def rest(self) -> int:
        """Give how many boundaries to let pass: more each time that all was spent in vain."""
        if not self.resting:
            self.resting = True
            self.most = min(2 * self.most, _MOST)
            self.pause = min(2 * self.pause, _LONGEST_PAUSE)
        return self.pause

    def reward(self, events: int) -> None:
        """Take a share of what a skip saved."""
        points = events * EVENT_POINTS // _REWARD
        self.pool.points = min(self.pool.points + points, _POOL)
        self.points = min(self.points + points, self.most)
        self.pause = _SHORTEST_PAUSE
