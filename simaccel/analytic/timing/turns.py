"""A load and a store on one channel: who is served when, batch by batch.

A channel keeps its direction while it has work in it. Where the other direction waits, it gets its
turn after a batch, which counts from the change of direction or from when the other began to wait.
All times and amounts are cycles, by candidate.
"""

from __future__ import annotations

from dataclasses import dataclass

from simaccel.analytic.family import Bools, Floats, Ints
from simaccel.analytic.pointwise import larger, pick, smaller, up


@dataclass(frozen=True)
class Pace:
    """Cycles of a batch of loads and of one of stores, and of a change of direction."""

    loads: int
    stores: int
    turn: int


@dataclass(frozen=True, eq=False)
class Posted:
    """A store: what is left of it is served from ``begin`` to its ``end``, if no load comes.

    ``since``: where the batch of loads before ``begin`` counts from, or when the store was asked
    for.
    """

    since: Floats
    begin: Floats
    end: Floats


def after_loads(
    asked: Floats, busy: Floats, service: Ints, wrote: Bools, pace: Pace, turned: Floats | int = 0
) -> Posted:
    """Return when a store is served that loads are served before, and beside, until ``busy``.

    ``wrote``: whether the last transfer was a store. ``turned``: when loads got their turn.

    >>> int(after_loads(10, 60, 5, False, Pace(100, 4, 7)).begin)
    67
    >>> last = after_loads(10, 60, 5, False, Pace(20, 4, 7)).end  # 20, 7 + 4, 7 + 20, 7 + 1
    >>> int(last), int(delay_of(60, 10, 5, Pace(20, 4, 7)))
    (76, 33)
    """
    waits = _counted_from(asked, turned, pace)
    left = larger(busy - waits, 0)
    loads, stores = up(left / pace.loads), up(service / pace.stores)
    rounds = larger(smaller(loads - 1, stores), 0)
    before = smaller(service, rounds * pace.stores)
    free = larger(busy, asked) + rounds * 2 * pace.turn + before
    idle = (left == 0) & wrote
    begin = free + pick(idle, 0, pace.turn)
    early = waits + stores * pace.loads + (2 * stores - 1) * pace.turn + service
    done = stores < loads
    since = pick(left > 0, free - (left - rounds * pace.loads), asked)
    return Posted(since, pick(done, early, begin), pick(done, early, begin + service - before))


def _counted_from(asked: Floats, turned: Floats | int, pace: Pace) -> Floats:
    """Return since when a batch of loads counts for a store: it may come while they turn."""
    return larger(asked, pick(asked + pace.turn >= turned, turned, 0))


def delay_of(
    end: Floats, asked: Floats, service: Ints, pace: Pace, turned: Floats | int = 0
) -> Floats:
    """Return the cycles by which a store delays a load that had ended at ``end``."""
    loads = up((end - _counted_from(asked, turned, pace)) / pace.loads) - 1
    rounds = larger(smaller(loads, up(service / pace.stores)), 0)
    found: Floats = rounds * 2 * pace.turn + smaller(service, rounds * pace.stores)
    return found


def meeting(
    asked: Floats, start: Floats, service: Ints, store: Posted, pace: Pace
) -> tuple[Floats, Posted]:
    """Return when a load ends that meets a store, and what becomes of the store.

    ``start``: when the loads before it have been served.
    """
    turn = pace.turn
    waits = larger(store.begin - turn, store.since)
    # one that is there when the loads run out belongs to their batch
    goes_on = asked < waits
    now = pick(goes_on, smaller(service, larger(store.since + pace.loads - start, 0)), 0)
    later = service - now
    turned = pick(goes_on, start + now + turn, larger(start, store.begin))
    left = store.end - pick(goes_on, store.begin, turned)
    turned = pick(goes_on, larger(turned, store.begin), turned)
    loads, stores = up(later / pace.loads), up(left / pace.stores)
    first = (stores <= loads) & (later > 0)
    rounds = smaller(loads, stores)
    between = smaller(left, rounds * pace.stores)
    end = pick(later > 0, turned + later + between + (2 * rounds - 1) * turn, start + now)
    stored = (
        turned
        + left
        + pick(first, (stores - 1) * (pace.loads + 2 * turn), later + 2 * rounds * turn)
    )
    begin = pick(first, stored, pick(later > 0, end + turn, turned))
    batch = pick(later > 0, end - (later - (loads - 1) * pace.loads), store.since)
    return end, Posted(batch, begin, stored)
