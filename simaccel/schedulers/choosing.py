"""Choosing among families: the candidates that fit and are best by an objective.

Each candidate has a bound that its objective can't go below. Estimates are made from the lowest
bound on until no bound is left below the best estimate, so the choice is that of estimating all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simaccel.analytic.estimate import Totals, evaluate
from simaccel.analytic.family import Bools, Family, Ints, Loops, branches_of, ints, take, tree_of
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Fork, Keep, Part, Tree
from simaccel.mapspace.costs import Objective
from simaccel.schedulers.repeats import repeats

UNLIMITED = 2**62
CLOSE: Final = 0.001
"""Where many candidates are about as good, one is taken that is so close to the best bound left."""
MANY: Final = 32
"""Candidates of a grid that are estimated before one that is close is taken; closer ones sooner."""
TRIES: Final = 16
"""Candidates of a smaller room that are estimated before it is left, if none is near the best."""
_SOON: Final = 8
_MOST: Final = 1024
"""Candidates that are estimated in one go: few at first, to find a good one soon."""
Values = npt.NDArray[np.float64]


class NothingFitsError(SimaccelError):
    """No mapping of a scheduler fits the buffer; the message says what the smallest needs."""


def capacity(accelerator: Accelerator) -> int:
    """Return the buffer's capacity in bytes; a very large number if unlimited."""
    size = accelerator.buffer.capacity_bytes
    return UNLIMITED if size is None else size


@dataclass(frozen=True)
class Chosen:
    """A candidate: its tree, estimated cycles, bytes to and from DRAM, buffer bytes.

    ``value``: the objective by the closed form; ``bound``: what it is not below on the machine, in
    a space of which every candidate may be run; ``measured``: on the machine, where it ran already.
    """

    tree: Tree
    value: float
    cycles: int
    dram_bytes: int
    buffer_bytes: int
    bound: float | None = None
    measured: float | None = None

    @property
    def kind(self) -> Tree:
        """Return the tree with one slot a tile: what it is apart from its slots."""
        return with_one_slot(self.tree)

    @property
    def rank(self) -> tuple[float, int, int]:
        """What decides: the objective, then bytes moved, then bytes kept."""
        return self.value, self.dram_bytes, self.buffer_bytes


def with_one_slot(tree: Tree) -> Tree:
    """Return a tree whose tiles have one slot each."""
    return tuple(
        replace(node, slots=1)
        if isinstance(node, Keep)
        else replace(node, branches=tuple(map(with_one_slot, node.branches)))
        if isinstance(node, Fork | Part)
        else node
        for node in tree
    )


@dataclass
class Candidates:
    """All candidates of some families of one group, in one row; estimates are made when needed.

    ``allows``: which candidates of a family are as asked. A search ends after ``patience``
    candidates without an improvement; without it, if one is close to the best bound left; and at
    the monotonic time ``until``, in seconds.
    """

    families: Sequence[Family]
    accelerator: Accelerator
    objective: Objective = "cycles"
    allows: Callable[[Family], Bools] | None = None
    patience: int | None = None
    many: int = MANY
    """Candidates that are estimated before one that is close is taken."""
    totals: list[Totals] = field(default_factory=list)
    near: dict[object, Candidates | None] = field(default_factory=dict)
    """What is near them, by the way there."""
    alone: dict[int, tuple[Family, Tree]] = field(default_factory=dict)
    """Candidates as families of one and as trees, by their numbers."""
    until: float | None = None
    times: dict[object, int] | None = None
    """Estimated cycles by tree, of this and of others that have some of the same candidates."""

    def __post_init__(self) -> None:
        """Count all candidates."""
        columns: list[list[npt.NDArray[Any]]] = []
        again, asked = [], []
        for number, family in enumerate(self.families):
            totals = evaluate(family, self.accelerator)
            shape = family.shape
            self.totals.append(totals)
            counts = totals.counts
            dram = counts.total("dram_read") + counts.total("dram_write")
            energy: Any = np.float64(0)
            if self.objective in ("energy", "edp"):
                energy = sum(totals.energy_pj(totals.least()).values(), start=energy)
            space = np.where(totals.fits(), totals.buffer_bytes(), UNLIMITED + 1)
            figures = (totals.least(), dram, space, energy)
            rows = [np.broadcast_to(one, shape).ravel() for one in figures]
            size = rows[0].size
            columns.append([*rows, np.full(size, number), np.arange(size)])
            again.append(repeats(family, shape))
            allowed = self.allows(family) if self.allows else np.ones((), dtype=np.bool_)
            asked.append(np.broadcast_to(allowed, shape).ravel())
        self.least, self.dram, self.space, self.energy, self.family, self.place = (
            np.concatenate(column) for column in zip(*columns, strict=True)
        )
        self.cycles = np.full(self.least.size, -1, dtype=np.int64)
        self.known = np.copy(self.cycles)
        """Cycles that were estimated, here or in a search that this one repeats."""
        self.again, self.asked = np.concatenate(again), np.concatenate(asked)
        self.first = np.flatnonzero(~self.again & self.asked)
        self.curve: list[tuple[int, float]] = []
        self.left = 0.0
        self.ended = "all judged"

    def __len__(self) -> int:
        """Count the candidates."""
        return len(self.least)

    @property
    def name(self) -> str:
        """The operators, as a group is called."""
        return "+".join(one.name for one in self.families[0].space.operators)

    @property
    def is_timed(self) -> bool:
        """Whether the objective has cycles in it, which have to be estimated."""
        return self.objective in ("cycles", "edp")

    def is_complete(self) -> bool:
        """Return whether the families have all sizes of tiles between their smallest and largest.

        A rank that is not cut, or in units of a head's rows, is a constraint of the scheduler.
        """
        loops = (
            node
            for family in self.families
            for node in branches_of(family.branch)
            if isinstance(node, Loops)
        )
        return all(_has_no_gap(tile) for node in loops for tile in node.tiles)

    @property
    def timed(self) -> int:
        """Candidates whose cycles have been estimated."""
        return int(np.count_nonzero(self.cycles >= 0))

    def best(self, room: int, slack: float = 0.0, below: float = float("inf")) -> int | None:
        """Return the number of the best that fits; ``slack`` and ``below`` as of `finalists`."""
        tries = TRIES if below < float("inf") and not self.patience else None
        found = self.finalists(room, 1, below, slack, tries)
        return found[0] if found else None

    def finalists(
        self,
        room: int,
        most: int,
        below: float = float("inf"),
        slack: float = 0.0,
        tries: int | None = None,
    ) -> list[int]:
        """Return the best that fit, at most so many, and none whose objective is not ``below``.

        ``slack``: how much the first may be above the best bound left; ``tries``: estimates after
        which there are none, where none so far is ``below``.
        """
        fits = self.first[self.space[self.first] <= room]
        bounds = self._value(fits, self.least)
        if self.is_timed:
            fits = self._estimated(fits, bounds, below, slack, tries)
            bounds = self._value(fits, self.cycles)
        else:
            self.left = float(bounds.min(initial=np.inf))
        order = np.lexsort((self.space[fits], self.dram[fits], bounds))
        return [int(fits[at]) for at in order[:most] if bounds[at] < below]

    def _value(self, which: Ints, cycles: Ints) -> Values:
        """Return the objective of candidates that take so many cycles."""
        found: npt.NDArray[Any] = {
            "cycles": cycles,
            "energy": self.energy,
            "edp": cycles,
            "dram-bytes": self.dram,
            "footprint": self.space,
        }[self.objective][which]
        if self.objective == "edp":
            found = self.energy[which] * found
        return found.astype(np.float64)

    def _estimated(
        self, fits: Ints, bounds: Values, below: float, slack: float, tries: int | None
    ) -> Ints:
        """Estimate candidates from the lowest bound on, until none can be (much) better."""
        inside = bounds < below
        fits, bounds = fits[inside], bounds[inside]
        if not fits.size:
            return fits
        # of about the same bound those that wait least for DRAM, and large tiles, which fill less
        about = np.floor((bounds / max(bounds.min(), 1) - 1) / CLOSE)
        order = np.lexsort((-self.space[fits], self.dram[fits], about))
        step = 1 if slack else self.many if self.patience else _SOON
        fits, bounds = fits[order], bounds[order]
        left = np.minimum.accumulate(bounds[::-1])[::-1]  # the lowest bound from here on
        judged = fits[self.cycles[fits] >= 0]
        found = float(self._value(judged, self.cycles).min(initial=below))
        at, improved = 0, 0
        self.ended = "all judged"
        while at < fits.size:
            close = 0.0 if self.patience else CLOSE * min(at / self.many, 1)
            if left[at] > min(found * (1 - close), found - slack):
                self.ended = "close" if left[at] <= found else "bounds"
                break
            given_up = tries is not None and at >= tries and found >= below
            is_late = at > 0 and self.until is not None and time.monotonic() >= self.until
            tired = self.patience is not None and at - improved >= self.patience
            if given_up or is_late or tired:
                self.ended = "all judged" if given_up else "budget" if is_late else "patience"
                break
            chunk = fits[at : at + step][bounds[at : at + step] <= found]
            self._estimate(chunk[self.cycles[chunk] < 0])
            best = float(self._value(chunk, self.cycles).min()) if chunk.size else found
            if best < found:
                found, improved = best, at + chunk.size
                self._improved(best)
            at += step
            step = min(at, _MOST)
        self.left = min(found, float(left[at]) if at < fits.size else found)
        return fits[self.cycles[fits] >= 0]

    def estimated(self, which: Ints) -> Ints:
        """Return the estimated cycles of some candidates."""
        self._estimate(which[self.cycles[which] < 0])
        return self.cycles[which]

    def _improved(self, value: float) -> None:
        if not self.curve or value < self.curve[-1][1]:
            self.curve.append((self.timed, value))

    def _estimate(self, which: Ints) -> None:
        """Estimate candidates, those of a family together where they can be."""
        for number in range(len(self.families)):
            mine = which[self.family[which] == number]
            unknown = mine[self.known[mine] < 0]
            if unknown.size:
                self._time(number, unknown)
            self.cycles[mine] = self.known[mine]

    def _time(self, number: int, which: Ints) -> None:
        """Time candidates of a family, but those that others have timed."""
        if self.times is not None:
            trees = [self._key(candidate) for candidate in which]
            self.known[which] = [self.times.get(tree, -1) for tree in trees]
            which = which[self.known[which] < 0]
        if which.size:
            family, counts = self.families[number], self.totals[number].counts
            asked = take(family, index_of(self.place[which], family.shape))
            times = Totals(asked, self.accelerator, counts).timed()
            self.known[which] = np.maximum(times, self.least[which])
        if self.times is not None:
            self.times |= {self._key(candidate): int(self.known[candidate]) for candidate in which}

    def _key(self, number: int) -> object:
        """Return what a candidate's time depends on, of those of one group."""
        family, tree = self._alone(int(number))
        return tree, frozenset(family.aliases.items()), family.around

    def repeated(self) -> Candidates:
        """Return the same candidates, none of them judged; what is known is not estimated again."""
        found = copy(self)
        found.cycles = np.full(self.least.size, -1, dtype=np.int64)
        found.curve, found.left, found.ended = [], 0.0, "all judged"
        return found

    @cached_property
    def bounds(self) -> Ints:
        """Cycles that no run is below, by candidate."""
        pairs = zip(self.totals, self.families, strict=True)
        return np.concatenate(
            [np.broadcast_to(one.bound(), family.shape).ravel() for one, family in pairs]
        )

    def every(self, room: int) -> list[Chosen]:
        """Return all candidates that fit, the best by the closed form first, with their bounds."""
        fits = self.first[self.space[self.first] <= room]
        self._estimate(fits[self.cycles[fits] < 0])
        bounds = self._value(fits, self.bounds)
        found = [
            replace(self.chosen(int(number)), bound=float(bound))
            for number, bound in zip(fits, bounds, strict=True)
        ]
        return sorted(found, key=lambda one: one.rank)

    def one(self, number: int) -> Family:
        """Return a candidate as a family of one; numbers that vary are arrays of one entry."""
        return self._alone(number)[0]

    def _alone(self, number: int) -> tuple[Family, Tree]:
        if number not in self.alone:
            family = self.families[int(self.family[number])]
            one = take(family, index_of(self.place[number : number + 1], family.shape))
            self.alone[number] = one, tree_of(take(one, (ints(0),)))
        return self.alone[number]

    def chosen(self, number: int) -> Chosen:
        """Return a candidate by its number."""
        return Chosen(
            tree=self._alone(number)[1],
            value=float(self._value(ints([number]), self.cycles)[0]),
            cycles=int(self.cycles[number]),
            dram_bytes=int(self.dram[number]),
            buffer_bytes=int(self.space[number]),
        )

    def bound(self, room: int) -> float:
        """Return what the objective of no candidate that fits is below; infinite if none fits."""
        fits = self.first[self.space[self.first] <= room]
        return float(self._value(fits, self.least).min()) if fits.size else float("inf")

    def promise(self, room: int) -> tuple[float, float]:
        """Return the bound, and the least DRAM bytes of those that have it; infinite if none fit.

        No objective of a candidate that fits into ``room`` bytes is below the bound.
        """
        fits = self.first[self.space[self.first] <= room]
        if not fits.size:
            return float("inf"), float("inf")
        values = self._value(fits, self.least)
        best = float(values.min())
        return best, float(self.dram[fits[values == best]].min())

    @property
    def smallest(self) -> int:
        """Buffer bytes of the smallest candidate.

        Raises:
            NothingFitsError: no candidate fits the array's accumulator and the staging of memories.

        """
        if not self.first.size:
            raise NothingFitsError(f"{self.name}: no candidate is as --constrain asks for")
        found = int(self.space[self.first].min())
        if found > UNLIMITED:
            raise NothingFitsError(
                f"{self.accelerator.name}: {_SMALL[bool(self.accelerator.staging)]} of no tile; "
                "allowed: larger ones, or none"
            )
        return found


_SMALL = {
    False: "array.accumulator.capacity_bytes takes the sums",
    True: "array.accumulator.capacity_bytes and memories.*.staging_bytes take sums and operands",
}


def _has_no_gap(tiles: Ints) -> bool:
    """Return whether sizes are all multiples of a unit from the smallest to the largest."""
    sizes = np.unique(tiles)
    return bool((np.diff(sizes) == np.gcd.reduce(sizes)).all())


def index_of(places: Ints, shape: tuple[int, ...]) -> tuple[Ints, ...]:
    """Return where candidates stand in a family of a shape; a family of one has none."""
    return tuple(map(ints, np.unravel_index(places, shape))) if shape else ()
