"""The declaration of every part's state, so that a repetition can be recognised.

The machine is deterministic: if all that determines its future is as it was a period ago, the
period repeats. Each class whose attributes change declares all its fields, with types that say how
they may differ between the two ends of a period that repeats:

- ``State[T]`` must be equal;
- ``Gauge[T]`` has numbers that may change by the same amount in each period (positions of loops,
  times of events); ``limit`` returns how often they can;
- ``Counter[T]`` only counts events: nothing in the machine reads it;
- ``Record[T]`` is not compared: it does not influence the machine and is constant in a period that
  repeats (a peak), or it follows from the state;
- any other field doesn't change while the machine runs.

A field can have two roles: in ``State[Gauge[T]]`` a part must be equal, and numbers may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Annotated, NamedTuple, TypeVar

FOREVER = 2**62
"""The limit of a part that can repeat without end."""
NEVER = -1
"""The limit of a part that doesn't repeat."""

Numbers = tuple[int, ...]
_T = TypeVar("_T")


class FieldRole(Enum):
    """The role of a field in the recognition of a period."""

    STATE = auto()
    GAUGE = auto()
    COUNTER = auto()
    RECORD = auto()


State = Annotated[_T, FieldRole.STATE]
Gauge = Annotated[_T, FieldRole.GAUGE]
Counter = Annotated[_T, FieldRole.COUNTER]
Record = Annotated[_T, FieldRole.RECORD]


class GaugeInterval(NamedTuple):
    """The gauges of a part at two boundaries with the same state; ``end`` is now."""

    start: int
    end: int
    before: Numbers
    after: Numbers

    @property
    def cycles(self) -> int:
        """Length of the period."""
        return self.end - self.start

    def ends_before(self, due: int) -> int:
        """Return how many more periods end before the cycle ``due``."""
        return (due - 1 - self.end) // self.cycles

    def start_at(self, first: int) -> GaugeInterval:
        """Return the interval of the gauges from number ``first`` on."""
        return GaugeInterval(self.start, self.end, self.before[first:], self.after[first:])


class SkippedPeriods(NamedTuple):
    """``times`` periods to skip; ``before`` and ``after``: counters at the ends of ``interval``."""

    interval: GaugeInterval
    times: int
    before: Numbers
    after: Numbers

    @property
    def cycles(self) -> int:
        """Cycles that are skipped."""
        return self.interval.cycles * self.times

    def growth(self) -> Sequence[tuple[int, int]]:
        """Return the amount to add to each counter that grows: (index, amount)."""
        return growth(self.before, self.after, self.times)


def growth(before: Numbers, after: Numbers, times: int) -> Sequence[tuple[int, int]]:
    """Return what ``times`` more periods add to each number that grows: (index, amount).

    >>> growth((1, 5, 7), (1, 6, 9), 10)
    [(1, 10), (2, 20)]
    """
    if before is after or before == after:
        return ()
    pairs = enumerate(zip(before, after, strict=True))
    return [(index, (new - old) * times) for index, (old, new) in pairs if new != old]


class StatefulPart:
    """A part of the machine that changes while it runs."""

    __slots__ = ()

    def state(self) -> tuple[object, ...]:
        """Return what must be equal at both boundaries."""
        return ()

    def gauges(self) -> Numbers:
        """Return the numbers that may differ by the same amount in each period."""
        return ()

    def counters(self) -> Numbers:
        """Return the numbers that only count events."""
        return ()

    def limit(self, interval: GaugeInterval) -> int:
        """Return how often the period can repeat, by the gauges of this part."""
        raise NotImplementedError

    def skip(self, skip: SkippedPeriods) -> None:
        """Advance by the skipped periods."""
