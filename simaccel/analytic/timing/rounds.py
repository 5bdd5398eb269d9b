"""Where in its loops a pass through a mapping is, and what follows: loads are asked for ahead."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from simaccel.analytic.bodies import FALSE, TRUE, Bodies
from simaccel.analytic.family import Bools, Ints, ints
from simaccel.analytic.pointwise import anywhere, larger, pick, plain, smaller, without
from simaccel.analytic.timing.times import Sizes
from simaccel.analytic.timing.trips import Trips

_ZERO: Ints = plain(ints(0))


@dataclass(frozen=True, eq=False)
class Then:
    """What stands behind an item of a body, the iteration of which is ``here``."""

    body: Bodies
    item: Bodies
    here: Round


@dataclass(frozen=True, eq=False)
class Round:
    """An iteration with its ``number`` of a loop over ``rank``, or of a part (no ``trips``).

    ``sizes``: of what it works on. ``outside``: the iteration of the loop around; None for the
    group, which comes once.
    """

    sizes: Sizes
    outside: Round | None = None
    rank: str = ""
    trips: Trips | None = None
    number: Ints = _ZERO
    then: Then | None = None
    known: dict[int, tuple[Sizes, Bools, Bools]] = field(default_factory=dict)

    @property
    def last(self) -> Then | None:
        """What comes when nothing of this iteration or those outside follows."""
        return self.then if self.outside is None else self.outside.last

    def after(self, ahead: Ints | int) -> tuple[Sizes, Bools, Bools]:
        """Look so many iterations ahead: their sizes, where there is one, where windows slid."""
        if isinstance(ahead, int):
            if ahead not in self.known:
                self.known[ahead] = self._after(ahead)
            return self.known[ahead]
        return self._after(ahead)

    def _after(self, ahead: Ints | int) -> tuple[Sizes, Bools, Bools]:
        if self.trips is None:
            if self.outside is None:
                return self.sizes, plain(np.equal(ahead, 0)), FALSE
            sizes, there, _ = self.outside.after(ahead)
            return {**sizes, self.rank: self.sizes[self.rank]}, there, FALSE
        trips, number = self.trips, self.number + ahead
        if not anywhere(number >= trips.least):
            if self.sizes[self.rank] is trips.tile:
                return self.sizes, TRUE, TRUE
            return {**self.sizes, self.rank: trips.tile}, TRUE, TRUE
        over, inside = self._over(ahead)
        if self.outside is None or not anywhere(over):
            size = trips.size_of(inside)
            return {**self.sizes, self.rank: size}, plain(over == 0), plain(inside > 0)
        sizes, there, _ = self.outside.after(over)
        if sizes[self.rank] is self.outside.sizes[self.rank]:
            size = trips.size_of(inside)
        else:
            rest = larger(sizes[self.rank] - inside * trips.piece, 1)
            size = trips.same(smaller(trips.piece, rest))
        return {**sizes, self.rank: size}, there, plain(inside > 0)

    def _over(self, ahead: Ints | int) -> tuple[Ints, Ints]:
        """Look so many iterations ahead: that of the loop outside, and the number in its own.

        The loop has fewer in one that is smaller.
        """
        trips = self.trips
        assert trips is not None  # noqa: S101 - of a loop
        inside, over, count = plain(self.number + ahead), _ZERO, trips.count
        if not self.varies:
            over = inside // count
            return plain(over), plain(inside - over * count)
        while anywhere(past := inside >= count):
            inside, over = inside - past * count, over + past
            if self.outside is not None:
                size = self.outside.after(over)[0][self.rank]
                other = size is not self.outside.sizes[self.rank]
                count = -(-size // trips.piece) if other else trips.count
        return over, inside

    @cached_property
    def varies(self) -> bool:
        """Whether a loop or part outside cuts the rank as well, into pieces of several sizes."""
        one = self.outside
        while one is not None:
            if one.rank == self.rank and (one.trips is None or one.trips.ragged):
                return True
            one = one.outside
        return False

    def passed(self, home: Round, ahead: Ints) -> Ints:
        """Return how many iterations of a loop outside begin until one so far ahead."""
        if self is home or self.outside is None or not anywhere(ahead):
            return ahead
        if self.trips is None:
            return self.outside.passed(home, ahead)
        if not anywhere(self.number + ahead >= self.trips.least):
            return _ZERO
        return self.outside.passed(home, self._over(ahead)[0])

    def summed(self, ahead: Ints | int, ranks: Collection[str]) -> Bools:
        """Look so many iterations ahead: where a loop or part over some ranks had one before."""
        if self.trips is None:
            began = TRUE if self.rank in ranks and anywhere(self.number) else FALSE
            return began if self.outside is None else began | self.outside.summed(ahead, ranks)
        over, inside = self._over(ahead)
        found: Bools = plain(inside > 0) if self.rank in ranks else FALSE
        return found if self.outside is None else found | self.outside.summed(over, ranks)

    def at(self, number: Ints, size: Ints | None = None) -> Round:
        """Return another iteration of the loop, of a piece of another size."""
        sizes = self.sizes if size is None else {**self.sizes, self.rank: size}
        return Round(sizes, self.outside, self.rank, self.trips, number)

    @property
    def ends(self) -> Bools:
        """Where the loop outside goes on with an iteration of other sizes, or has none."""
        if self.outside is None:
            return TRUE
        sizes, there, _ = self.outside.after(1)
        found = without(there)
        for rank, size in sizes.items():
            here = self.outside.sizes[rank]
            if size is not here:
                found = found | (size != here)
        return found

    def merged(self, where: Bools, other: Round) -> Round:
        """Take another iteration of the same loop where something does not hold."""
        if where is TRUE:
            return self
        sizes: Sizes = {
            rank: pick(where, self.sizes[rank], other.sizes[rank]) for rank in self.sizes
        }
        return replace(self, sizes=sizes, number=pick(where, self.number, other.number), known={})


Context = tuple[Round, dict[str, Bools], Bools]
"""An iteration, which sums had begun, and which windows slid."""


def merged(where: Bools, new: Context, old: Context) -> Context:
    """Take the new context where something holds."""
    if where is TRUE:
        return new
    begun: dict[str, Bools] = {
        name: pick(where, new[1].get(name, FALSE), old[1].get(name, FALSE))
        for name in {**new[1], **old[1]}
    }
    return new[0].merged(where, old[0]), begun, pick(where, new[2], old[2])
