"""The trips of a loop over what arrives, and when they take the same again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property

import numpy as np

from simaccel.analytic.bodies import FALSE, RING, TRUE, Bodies
from simaccel.analytic.family import Bools, Floats, Ints, ints
from simaccel.analytic.pointwise import (
    anywhere,
    highest,
    larger,
    lowest,
    pick,
    plain,
    smaller,
    without,
)
from simaccel.analytic.timing.times import ARRAY, DRAM, SFU, STORES, ZERO, Times

_FEW = 2
"""Iterations of a loop that are gone through, beyond the slots of its tiles and a period."""
_STEADY = 2
_LONGEST = 4
"""Iterations, at most, that are looked at together: they take as long as as many before."""
_STORING = 4
"""Iterations more, at most, where a store from before the loop delays its loads."""


class Trips:
    """The trips of a loop over what arrives: full ones, and a smaller last one.

    ``period``: iterations after which all slots are as before.
    """

    def __init__(self, size: Ints, body: Bodies) -> None:
        tile = smaller(plain(body.tile), size)
        self.period = _slots_repeat(body)
        period = self.period
        self.periods: list[int] = (
            [period] if isinstance(period, int) else np.unique(period).tolist()
        )
        self.one = not anywhere(size > tile)
        self.slots = body.most_slots
        self.full, rest = size // tile, size % tile
        self.most, self.least = highest(self.full), lowest(self.full)
        self.has_rest: Bools = rest > 0
        self.ragged = anywhere(self.has_rest)
        self.rest: Ints = larger(rest, 1)
        self.tile = tile
        self.piece = plain(body.tile)
        """The size of a tile of what is large enough."""
        self.known: dict[object, Ints] = {}

    @cached_property
    def count(self) -> Ints:
        """How many there are, the smaller last one too."""
        return self.full + self.has_rest

    def size_of(self, number: Ints) -> Ints:
        """Return the size of the piece with a number."""
        return self.same(pick(number >= self.full, self.rest, self.tile))

    def same(self, size: Ints) -> Ints:
        """Return a size that is equal and always the same."""
        if type(size) is not np.ndarray:
            return size
        return self.known.setdefault((size.shape, size.tobytes()), size)


def _slots_repeat(body: Bodies) -> Ints:
    """Return after how many iterations all slots of a body are as before, by candidate."""
    found = ints(1)
    for tiled in body.tiles:
        found = np.lcm(found, pick(tiled.own, larger(tiled.slots, 1), 1))
    return smaller(plain(found), RING)


def grows_evenly(
    older: Times, last: Times, now: Times, here: Bools, counters: Collection[object] = ()
) -> Bools:
    """Return for which candidates of some everything has grown by as much as before.

    Everything but ``counters`` by the same, too: where some run ahead, slots will hold them up.
    """
    found, rate = here, ZERO
    for key, time in now.items():
        before = last.get(key, ZERO)
        if time is not before:
            growth = time - before
            found = found & ((growth == 0) | (growth == before - older.get(key, ZERO)))
            if key not in counters:
                found = found & ((growth == 0) | (rate == 0) | (growth == rate))
                rate = larger(rate, growth)
            if not anywhere(found):
                break
    return found


def state_before(history: Sequence[Times], which: Ints, now: Times) -> Times:
    """Return the times before an iteration, whose number each candidate has its own of."""
    first, *others = sorted(set(np.ravel(which).tolist()))
    found = dict(history[first])
    for number in others:
        for key in now:
            old, new = found.get(key, ZERO), history[number].get(key, ZERO)
            if new is not old:
                found[key] = pick(which >= number, new, old)
    return found


class Steady:
    """The full iterations of a loop until each takes as long as the one before.

    ``todo``: how many there are; ``names`` what is kept of a channel.
    """

    def __init__(
        self,
        trips: Trips,
        todo: Ints,
        names: Sequence[Callable[[str], str]],
        counters: Collection[object],
    ) -> None:
        self.trips, self.period, self.todo = trips, trips.period, todo
        self.counters = counters
        self.history: list[Times] = []
        """The times before each iteration."""
        self.gone, self.settled = plain(ints(0)), FALSE
        self.names, self.stores = names, FALSE
        self.took = self.period
        """Iterations after which each has settled; of others those of their slots."""
        self.few = _FEW + trips.slots + self.period
        self.least = lowest(todo)
        self.most = min(highest(todo), highest(self.few) + _STORING)

    def left(self, done: int) -> Bools:
        """Return which candidates have one more to go through."""
        few = done < self.few + _STORING * self.stores
        runs = TRUE if done < self.least else self.todo > done
        found: Bools = runs & without(self.settled) & few
        return found

    def went(self, done: int, here: Bools, now: Times) -> None:
        """Take in the times after an iteration."""
        self.gone = self.gone + here
        if done >= _STEADY:
            self.stores = beside_a_store(self.history, now, self.trips, self.names)
            here = here & without(self.stores)
            for n in range(1, min(_LONGEST, len(self.history) // 2) + 1):
                even = grows_evenly(
                    self.history[-2 * n], self.history[-n], now, here, self.counters
                )
                if anywhere(even):
                    self.took = pick(even, n, self.took)
                    self.settled |= even
                    here = here & without(even)
                if not anywhere(here):
                    break

    def before(self, now: Times, tail: Ints) -> tuple[Times, Floats, Ints, Ints]:
        """Return the times a period ago, how many such periods follow, and of how many iterations.

        At last, how many iterations are left after them.
        ``tail``: how many full iterations at the end each has to be gone through at least.
        """
        period = smaller(self.took, larger(self.gone, 1))
        left = larger(self.todo - self.gone, 0)
        more = larger(left - tail, 0) // period
        more = pick(more * period > 1, more, 0)  # one is gone through as soon as skipped
        left = left - more * period
        if not anywhere(more):
            return now, more, period, left
        return state_before(self.history, self.gone - period, now), more, period, left


def beside_a_store(
    history: Sequence[Times], now: Times, trips: Trips, names: Sequence[Callable[[str], str]]
) -> Bools:
    """Return where the last period of a loop had a store from before it beside its loads.

    Such a period takes longer than those that follow, and so does the iteration behind it, whose
    loads were asked for in it. ``names`` what is kept of each channel.
    """
    found, before = FALSE, history[0]
    goes_on = {
        unit: now.get(unit, ZERO) != before.get(unit, ZERO)
        for unit in (ARRAY, SFU)
        if now.get(unit) is not before.get(unit)
    }
    for name in names:
        end, stores = now.get((name("store"), 0, "end")), name(STORES)
        if end is None:
            continue
        none = now.get(stores, ZERO) == before.get(stores, ZERO)
        none = none & (now.get(name(DRAM), ZERO) != before.get(name(DRAM), ZERO))
        for n in trips.periods if anywhere(none) else ():
            state = history[max(0, len(history) - n - 1)]
            for unit, moved in goes_on.items():
                late = moved & (end > state.get(unit, ZERO))
                found = found | (none & late & (trips.period == n))
    return found
