"""The candidates of a group, with the counts, bounds and energies of all of them in columns.

A candidate's objective is never below its bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from simaccel.analytic.core_totals import family_totals
from simaccel.analytic.family import (
    Bools,
    Family,
    FamilyLoops,
    Ints,
    ints,
    maximum,
    take,
    tree_of,
)
from simaccel.hardware import Accelerator
from simaccel.mapping.space import holding_tensor
from simaccel.mapping.tree import Group, Keep, ResidentScope, Tree, nodes
from simaccel.search.columns import (
    Columns,
    RoomBound,
    find_far,
    flatten,
    narrow,
    number_holdings,
    repeats,
)
from simaccel.search.effort import EFFORT, Objective
from simaccel.search.judge import Body, Judge, RunOutcome, ScoredTree, main_cost
from simaccel.search.neighbours import Limit, limits_of, neighbours
from simaccel.search.problems import NothingFitsError
from simaccel.workload import Workload

UNLIMITED = 2**62
Values = npt.NDArray[np.float64]


def capacity(accelerator: Accelerator) -> int:
    """Return the buffer's capacity in bytes; a very large number if it is unlimited."""
    size = accelerator.buffer.capacity_bytes
    return UNLIMITED if size is None else size


def leakage(accelerator: Accelerator) -> float:
    """Return the energy in pJ that all cores leak in a cycle."""
    return accelerator.prices.leakage_pj_per_cycle * accelerator.cores.count


@dataclass(eq=False)
class CandidateSet:
    """The distinct candidates of some families of one group that fit the buffer, by number.

    They run when needed. Of many, those whose bounds are far above others' are left out, until a
    search has nothing better (`include_far`).

    ``group``: without a tree. ``allows``: returns which candidates of a family satisfy the user's
    constraints. ``tolerance``: of near-ties, relative to the best objective (`near_ties`).
    """

    group: Group
    families: Sequence[Family]
    judge: Judge
    objective: Objective = "cycles"
    allows: Callable[[Family], Bools] | None = None
    tolerance: float = 0.0
    limits: Sequence[Sequence[Limit]] = ()
    """Limits of the numbers of each family; by default those of its own candidates."""
    is_priced: bool = False
    """Whether energies are computed whatever the objective."""
    least: Sequence[Ints] = ()
    """Further lower bounds of the cycles of each family, if there are any."""

    def __post_init__(self) -> None:
        """Count all candidates."""
        self.limits = self.limits or [limits_of(family) for family in self.families]
        self.columns = self._count()
        self._alone: dict[int, tuple[Family, Tree]] = {}
        self._ran: dict[int, RunOutcome] = {}

    def _count(self, *, every: bool = False) -> Columns:
        """Return the figures of the candidates, or of ``every`` one, the far ones included."""
        columns: list[list[npt.NDArray[Any]]] = []
        self._far: list[RoomBound] = []
        self._fitting = 0
        self.size = self.same = self.excluded = self.too_large = 0
        smallest: list[int] = []
        works: list[int] = []
        priced = (
            self.is_priced
            or self.objective in ("energy", "edp")
            or (self.tolerance > 0 and not self.accelerator.unknown_energies)
        )
        for number, family in enumerate(self.families):
            totals, shape = family_totals(family, self.accelerator), family.shape
            bound = totals.bound
            bound = maximum(bound, self.least[number]) if self.least else bound
            energy = totals.energy(bound) if priced else np.zeros(())
            space = np.where(totals.fits(), totals.buffer_bytes(), UNLIMITED + 1)
            is_repeat = repeats(family, shape)
            may = self.allows(family) if self.allows else np.ones((), dtype=np.bool_)
            allowed = np.broadcast_to(may, shape).ravel()
            places = np.flatnonzero(~is_repeat & allowed)
            (takes,) = flatten((space,), shape, places)
            smallest += [int(takes.min())] if takes.size else []
            fits = takes <= capacity(self.accelerator)
            self.too_large += int(np.count_nonzero(~fits))
            places = places[fits]
            self._fitting += places.size
            holding = number_holdings(family, number)
            if not every and self._leaves_out(places.size):
                bounds, spaces, held = flatten((bound, space, holding), shape, places)
                is_far, far = find_far(bounds, spaces, held, EFFORT.far)
                places = places[~is_far]
                self._far.append(far)
            rows = (bound, totals.likely, totals.dram_bytes, space, energy, holding)
            columns.append([*flatten(rows, shape, places), places + self.size])
            self.size += is_repeat.size
            self.same += int(np.count_nonzero(is_repeat & allowed))
            self.excluded += int(np.count_nonzero(~allowed))
            works.append(int(np.min(totals.every[0].totals.work())))
        self._ends = np.cumsum([math.prod(family.shape) for family in self.families])
        self.least_work, self._smallest = min(works), min(smallest, default=None)
        return Columns(*(narrow(np.concatenate(column)) for column in zip(*columns, strict=True)))

    def _leaves_out(self, count: int) -> bool:
        """Return whether far candidates of a family of ``count`` are left out."""
        is_plain = self.objective == "cycles" and not self.is_priced
        return is_plain and count > EFFORT.many and not (self.is_shared or self.is_complete())

    def far_bound(self, room: int) -> float:
        """Return a lower bound of the candidates that fit ``room`` bytes and are left out."""
        return min((far.bound(room) for far in self._far), default=float("inf"))

    def include_far(self) -> None:
        """Include the candidates that were left out, behind the others."""
        known, every = self.columns, self._count(every=True)
        new = np.isin(every.place, known.place, assume_unique=True, invert=True)
        pairs = zip(known, every, strict=True)
        self.columns = Columns(*(np.concatenate([own, more[new]]) for own, more in pairs))

    def __len__(self) -> int:
        """Count the different candidates that are allowed and fit the whole buffer."""
        return self._fitting

    def family_of(self, which: Ints | int) -> Ints:
        """Return the index of the family of each candidate."""
        return ints(np.searchsorted(self._ends, self.columns.place[which], side="right"))

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that the candidates are for."""
        return self.judge.accelerator

    @cached_property
    def workload(self) -> Workload:
        """The workload of the group's operators alone."""
        return self.families[0].space.workload.select_operators(self.group.operators)

    @cached_property
    def is_throttled(self) -> bool:
        """Whether all memories that the tensors live in have a limited bandwidth."""
        kinds = (tensor.lives for tensor in self.workload.tensors.values())
        return self.accelerator.bytes_per_cycle(kinds) is not None

    @property
    def is_timed(self) -> bool:
        """Whether the objective depends on cycles."""
        return self.objective in ("cycles", "edp")

    def is_complete(self) -> bool:
        """Return whether the families have all tile sizes between their smallest and largest.

        A rank that is never cut, or only in multiples of a head's rows, is a constraint of the
        scheduler.
        """
        loops = (
            node
            for family in self.families
            for node in nodes(family.branch)
            if isinstance(node, FamilyLoops)
        )
        sizes = (sorted(set(np.ravel(tile).tolist())) for node in loops for tile in node.tiles)
        return all((np.diff(tile) == np.gcd.reduce(tile)).all() for tile in sizes)  # without a gap

    def fitting(self, room: int, value: float | None = None) -> Ints:
        """Return the numbers of the distinct candidates that fit ``room`` bytes.

        With a ``value`` those alone whose objective may be as low.
        """
        if value is None:
            return np.flatnonzero(self.columns.space <= room)
        if self._far and value >= self.far_bound(room):
            self.include_far()
        fits = self.fitting(room)
        return fits[self.values(fits, self.columns.bounds[fits]) <= value]

    def values(self, which: Ints, cycles: Ints | Values) -> Values:
        """Return the objectives of candidates that take ``cycles``."""
        if self.objective == "cycles":
            return cycles.astype(np.float64)
        if self.objective in ("energy", "edp"):
            more = np.where(np.isfinite(cycles), cycles, 0) - self.columns.bounds[which]
            energy: Values = self.columns.energy[which] + leakage(self.accelerator) * more.clip(0)
            return energy * cycles if self.objective == "edp" else energy
        column: Ints = self.columns.dram if self.objective == "dram-bytes" else self.columns.space
        return column[which].astype(np.float64)

    def run(self, which: Ints, below: float = float("inf")) -> Values:
        """Return the cycles of candidates on the machine; infinite if they are not ``below``."""
        numbers, ran = which.tolist(), self._ran
        new = [n for n in numbers if n not in ran or not ran[n].is_enough(below)]
        bodies = [self.body(self.tree(number)) for number in new]
        ran.update(zip(new, self.judge.judge(self.workload, bodies, below), strict=True))
        return np.array([ran[number].cycles_below(below) for number in numbers], dtype=np.float64)

    def body(self, tree: Tree) -> Body:
        """Return the group with a tree, and the tensors kept around it, as a mapping."""
        group = replace(self.group, tree=tree)
        around = tuple(self._outer_keeps()) if self.families[0].around else ()
        return (ResidentScope(keeps=around, groups=(group,)) if around else group,)

    def _outer_keeps(self) -> Iterator[Keep]:
        """Yield what is kept around, by the group's own tensor where that is made in it."""
        family, tensors = self.families[0], self.workload.tensors
        for keep in family.around:
            own = (
                name
                for name in (keep.tensor, *tensors)
                if name in tensors
                and holding_tensor(family.space.workload, name, family.around) == keep.tensor
            )
            yield from (replace(keep, tensor=name) for name in islice(own, 1))

    @property
    def cuts(self) -> int:
        """Number of distinct cuts over cores, a single core included."""
        return len({family.cut and family.cut.spreads for family in self.families})

    @property
    def is_shared(self) -> bool:
        """Whether some candidates are cut over several cores."""
        return any(family.cut for family in self.families)

    def neighbours_of(self, numbers: Sequence[int]) -> CandidateSet | None:
        """Return the neighbours of candidates of one family; None without any that may vary."""
        if not numbers:
            return None
        limits = self.limits[int(self.family_of(numbers[0]))]
        near = neighbours(list(map(self.family_of_one, numbers)), limits, self.accelerator)
        return None if near is None else replace(self, families=[near], limits=[limits])

    def with_objective(self, objective: Objective) -> CandidateSet:
        """Return the same candidates, counts and runs for another objective, with energies."""
        found = copy(self)
        found.objective, found.is_priced = objective, True
        return found

    def scored_runs(self, room: int) -> Iterator[ScoredTree]:
        """Yield the candidates that ran to their end and fit ``room`` bytes."""
        for number, outcome in self._ran.items():
            is_complete = outcome.cycles_below(float("inf")) < float("inf")
            if is_complete and self.columns.space[number] <= room:
                yield self.score(number, outcome.cycles)

    def family_of_one(self, number: int) -> Family:
        """Return a candidate as a family of one; varying numbers are arrays of one entry."""
        return self._take_tree(number)[0]

    def tree(self, number: int) -> Tree:
        """Return a candidate's tree."""
        return self._take_tree(number)[1]

    def number_of(self, tree: Tree) -> int | None:
        """Return the number of the candidate that a tree comes from; None if it comes from none."""
        return next((number for number, (_, own) in self._alone.items() if own is tree), None)

    def _take_tree(self, number: int) -> tuple[Family, Tree]:
        if number not in self._alone:
            which = int(self.family_of(number))
            family, start = self.families[which], int(self._ends[which - 1]) if which else 0
            place = self.columns.place[number : number + 1] - start
            at = np.unravel_index(place, family.shape or (1,))
            one = take(family, tuple(map(ints, at)) if family.shape else ())
            self._alone[number] = one, tree_of(take(one, (ints(0),)))
        return self._alone[number]

    def score(self, number: int, cycles: float) -> ScoredTree:
        """Return a candidate with its figures, given its cycles."""
        which, columns = ints([number]), self.columns
        more = cycles - int(columns.bounds[number])
        leaked = leakage(self.accelerator) * more if columns.energy[number] else 0.0
        return ScoredTree(
            tree=self.tree(number),
            value=float(self.values(which, np.array([cycles]))[0]),
            cycles=int(cycles),
            dram_bytes=int(columns.dram[number]),
            buffer_bytes=int(columns.space[number]),
            energy_pj=float(columns.energy[number] + leaked),
        )

    def bound(self, room: int) -> float:
        """Return a lower bound of the objective in ``room`` bytes; infinite if nothing fits."""
        return self.bound_and_bytes(room)[0]

    def bound_and_bytes(self, room: int) -> tuple[float, float]:
        """Return `bound`, and the fewest DRAM bytes of the candidates that have it."""
        fits = self.fitting(room)
        if not fits.size:
            return float("inf"), float("inf")
        values = self.values(fits, self.columns.bounds[fits])
        best = float(values.min())
        return best, float(self.columns.dram[fits[values == best]].min())

    def trees_of_holdings(self, room: int) -> list[Tree]:
        """Return of each combination of stationarities the likely fastest, and the fastest run."""
        fits, columns = self.fitting(room), self.columns
        order = fits[np.lexsort((-columns.space[fits], columns.dram[fits], columns.likely[fits]))]
        ran = {at: outcome.cycles for at, outcome in self._ran.items() if outcome.is_exact}
        by_run = sorted(ran.keys() & set(order.tolist()), key=lambda at: (ran[at], at))
        found: dict[int, None] = {}
        for numbers in (order, ints(by_run)):
            _, first = np.unique(columns.holding[numbers], return_index=True)
            found |= dict.fromkeys(numbers[np.sort(first)[: EFFORT.holdings]].tolist())
        return [self.tree(number) for number in found]

    def fewest_bytes(self, room: int, value: float) -> float:
        """Return the fewest DRAM bytes of candidates whose bound is at most ``value``."""
        fits = self.fitting(room, value)
        return float(self.columns.dram[fits].min()) if fits.size else float("inf")

    def least_cost(self, room: int, value: float) -> float:
        """Return the least main cost of candidates whose bound is at most ``value``."""
        costs = self.costs(self.fitting(room, value))
        return main_cost(tuple(costs.min(axis=1).tolist())) if costs.size else float("inf")

    def costs(self, which: Ints) -> Values:
        """Return the costs of candidates, a column each, with bounds in place of cycles."""
        columns = self.columns
        first = np.zeros(which.size) if self.objective == "cycles" else columns.bounds[which]
        rows = (first, columns.energy[which], columns.dram[which], columns.space[which])
        return np.stack([np.asarray(row, dtype=np.float64) for row in rows])

    @property
    def smallest(self) -> int:
        """Buffer bytes of the smallest candidate.

        Raises:
            NothingFitsError: no candidate fits the array's accumulator and the staging of memories.
        """
        if self._smallest is None:
            raise NothingFitsError(f"{self.group.name}: no candidate satisfies --constrain")
        if self._smallest > UNLIMITED:
            raise NothingFitsError(
                f"{self.accelerator.name}: {_SMALL[bool(self.accelerator.staging)]} of no tile; "
                "allowed: larger ones, or none"
            )
        return self._smallest


_SMALL = {
    False: "array.accumulator.capacity_bytes takes the sums",
    True: "array.accumulator.capacity_bytes and memories.*.staging_bytes take sums and operands",
}
