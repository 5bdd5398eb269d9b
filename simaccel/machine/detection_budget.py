"""Budget for detecting repetitions: events earn points, comparing machine states costs points."""

from __future__ import annotations

from dataclasses import dataclass

# Points of about a quarter of a microsecond.
EVENT_POINTS = 26
LOOK_POINTS = 6
PART_POINTS = 3

_EVENTS_PER_POINT = 8
"""Events of the run for each point that a detector earns."""
_EVENTS_PER_POOL_POINT = 3
"""Events of the run for each point that is added to the shared pool."""
_FIRST = 1500
"""Points that a detector may spend before it has earned them, if the pool has them."""
_POOL = 12_000
_MOST = 1 << 20
_REWARD = 3
"""The part of the saved events' points that a skip gives back: one in so many."""
_LONGEST_PAUSE = 1 << 12


@dataclass(eq=False)
class SharedBudget:
    """Points that detectors may take in advance; refilled during the run, up to a limit."""

    spent: int = 0

    def points_left(self, events: int) -> int:
        """Return the points that are left; negative after a look that cost more than these."""
        return min(events // _EVENTS_PER_POOL_POINT, _POOL) - self.spent


class DetectionBudget:
    """The points of one detector, which saves them for series of looks of growing length."""

    def __init__(self, pool: SharedBudget) -> None:
        self.pool = pool
        self.points = 0
        self.advance = _FIRST
        self.most = _FIRST
        self.resting = False
        self.rested_at = 0
        """Events at the last rest."""
        self.paid = 0
        """Events that have earned their points."""

    def may_look(self, events: int) -> bool:
        """Add the points earned since the last call; return whether there are points to spend."""
        earned = (events - self.paid) // _EVENTS_PER_POINT
        self.points = min(self.points + earned, self.most)
        self.paid += earned * _EVENTS_PER_POINT
        if self.advance > 0 and self.pool.points_left(events) > 0:
            return True
        if self.points <= (self.most // 2 if self.resting else 0):
            return False
        self.resting = False
        return True

    def rest(self, events: int, passed: int) -> int:
        """Return the boundaries to pass without a look; ``passed``: those since the last call.

        When the pool is empty, the pause grows each time that all points were spent in vain.
        """
        if self.advance > 0 and events < _POOL * _EVENTS_PER_POOL_POINT:
            needed = (1 - self.pool.points_left(events)) * _EVENTS_PER_POOL_POINT
        else:
            if not self.resting:
                self.resting = True
                self.most = min(2 * self.most, _MOST)
            needed = (self.most // 2 - self.points) * _EVENTS_PER_POINT
        since, self.rested_at = events - self.rested_at, events
        return min(needed * passed // max(since, 1), _LONGEST_PAUSE)

    def spend(self, points: int) -> None:
        """Pay ``points``; missing ones are taken from the pool, which has to be refilled first."""
        self.points -= points
        if self.points < 0:
            taken = min(self.advance, -self.points)
            self.advance -= taken
            self.pool.spent += taken
            self.points += taken

    def reward(self, events: int) -> None:
        """Add a share of the events that a skip saved."""
        points = events * EVENT_POINTS // _REWARD
        self.pool.spent = max(self.pool.spent - points, 0)
        self.points = min(self.points + points, self.most)
