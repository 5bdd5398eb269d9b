"""Budget of looking for repetitions: events earn credit, comparing machine states spends it."""

from __future__ import annotations

from dataclasses import dataclass

# Points of about a quarter of a microsecond.
EVENT_POINTS = 26
LOOK_POINTS = 6
PART_POINTS = 3

_EVENTS_PER_POINT = 8
"""Of the run, for each watch."""
_EVENTS_PER_POOL_POINT = 3
"""Of the run, for what the watches may spend in advance."""
_FIRST = 1500
"""What a watch may spend in advance of what it earns, as long as the pool lasts."""
_POOL = 12_000
_MOST = 1 << 20
_REWARD = 3
"""One in so many points of the events that a skip saves comes back for more looks."""
_LONGEST_PAUSE = 1 << 12


@dataclass(eq=False)
class SharedBudget:
    """Points that watches may take in advance; it fills up as the run goes on, to a limit."""

    spent: int = 0

    def points_left(self, events: int) -> int:
        """Return the points that nobody has taken by now; less than none after the last look."""
        return min(events // _EVENTS_PER_POOL_POINT, _POOL) - self.spent


class DetectionBudget:
    """The points of one watch. It saves up for bursts of looks, longer ones each time."""

    def __init__(self, pool: SharedBudget) -> None:
        self.pool = pool
        self.points = 0
        self.advance = _FIRST
        self.most = _FIRST
        self.resting = False
        self.asked = 0
        """Events when the watch last had to rest."""
        self.paid = 0
        """Events that have earned their points."""

    def may_look(self, events: int) -> bool:
        """Earn from the events since last time; tell whether there are points to spend."""
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
        """Return how many boundaries to let pass, after ``passed`` since the last rest.

        Once nothing more comes in advance, more is saved up each time that all was spent in vain.
        """
        if self.advance > 0 and events < _POOL * _EVENTS_PER_POOL_POINT:
            needed = (1 - self.pool.points_left(events)) * _EVENTS_PER_POOL_POINT
        else:
            if not self.resting:
                self.resting = True
                self.most = min(2 * self.most, _MOST)
            needed = (self.most // 2 - self.points) * _EVENTS_PER_POINT
        since, self.asked = events - self.asked, events
        return min(needed * passed // max(since, 1), _LONGEST_PAUSE)

    def spend(self, points: int) -> None:
        """Pay. What is missing is taken in advance; an empty pool then has to fill up first."""
        self.points -= points
        if self.points < 0:
            taken = min(self.advance, -self.points)
            self.advance -= taken
            self.pool.spent += taken
            self.points += taken

    def reward(self, events: int) -> None:
        """Take a share of what a skip saved."""
        points = events * EVENT_POINTS // _REWARD
        self.pool.spent = max(self.pool.spent - points, 0)
        self.points = min(self.points + points, self.most)
