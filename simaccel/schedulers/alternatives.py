"""The mappings that a scheduler chooses among, as a front: of each part, then of the workload.

A grid of a dataflow is judged by the closed form, then what is near its front, and the front runs
on the machine, which has the last word. Where the grid is small enough all of its candidates are
judged by the machine itself, but for those whose resource bound is beaten: that front is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from simaccel.analytic.estimate import estimate
from simaccel.analytic.family import Ints
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Group, Tree
from simaccel.schedulers.alike import renamed
from simaccel.schedulers.choosing import Candidates
from simaccel.schedulers.confirming import operators_of
from simaccel.schedulers.einsums import Search
from simaccel.schedulers.front import (
    Alternative,
    Asked,
    Body,
    Floats,
    best_of,
    evenly,
    front_of,
    joined,
    undominated,
)
from simaccel.schedulers.neighbours import limits_of, neighbours
from simaccel.schedulers.problems import Judge, mapping_of
from simaccel.schedulers.search import EXACT, Goal
from simaccel.workload import Vector, Workload

_STARTS: Final = 8
"""Places of a front whose neighbours are looked at."""
_RUNS: Final = 48
"""Mappings of one part that run on the machine, where not all may; they lie evenly on the front."""
_AT_ONCE: Final = 8
"""Candidates that run on the machine before it is looked who may still be on the front."""
Place = tuple[Candidates, int]
"""A candidate: its grid, and its number there."""


@dataclass(frozen=True, kw_only=True)
class Front:
    """The best alternatives of a workload or a part of it.

    ``seen``: mappings that were judged; ``proved``: no mapping of the space beats one of these.
    """

    found: tuple[Alternative, ...]
    seen: int
    proved: bool


class Explorer:
    """Finds the alternatives of parts of one workload; alike operators are looked at once."""

    def __init__(self, workload: Workload, goal: Goal, asked: Asked, judge: Judge) -> None:
        self.workload, self.asked, self.judge = workload, asked, judge
        self.goal = replace(goal, objective="edp", judge=None)
        self.search = Search(self.goal)

    @property
    def accelerator(self) -> Accelerator:
        """What is mapped on."""
        return self.goal.accelerator

    # -- parts ------------------------------------------------------------------------------------

    def operator(self, name: str, merged: Mapping[str, tuple[str, ...]] | None = None) -> Front:
        """Return the front of one operator on its own; ``merged`` as of `Search.einsum`."""
        if isinstance(self.workload.operator(name), Vector):
            searched = self.search.vector(self.workload, name, merged=merged)
        else:
            searched = self.search.einsum(self.workload, name, merged=merged)
        group = searched.group
        if "front" not in searched.known:
            names = dict(searched.names)
            front = self._front(
                searched.candidates,
                lambda tree: (replace(group, tree=renamed(tree, names)),),
            )
            searched.known["front"] = front, {own: first for first, own in names.items()}
        front, back = searched.known["front"]

        def mine(one: Alternative) -> Alternative:
            (first,) = one.body
            assert isinstance(first, Group)  # noqa: S101 - narrows the type
            tree = renamed(renamed(first.tree, back), searched.names)
            return replace(one, body=(replace(group, tree=tree),))

        return self._times(replace(front, found=tuple(map(mine, front.found))), name)

    def grids(self, families: Sequence[Any], empty: Group) -> Front:
        """Return the front of a group; ``families`` of its trees."""
        found = self._front(self.goal.grid(families), lambda tree: (replace(empty, tree=tree),))
        return self._times(found, empty.operators[0])

    def bodies(self, some: Iterable[Body]) -> Front:
        """Return the front of a few mappings of the same operators."""
        found = [one for body in some if (one := self.measured(body)) is not None]
        kept = tuple(best_of(self.asked, found))
        front = Front(found=kept, seen=len(found), proved=False)
        return self._times(front, operators_of(kept[0].body)[0]) if kept else front

    def measured(self, body: Body) -> Alternative | None:
        """Return one mapping of some operators with its figures, cycles as the machine has them.

        None if the machine doesn't take it, or it doesn't fit.
        """
        alone = self.workload.alone(operators_of(body))
        mapping = mapping_of(alone, "", body)
        whole = estimate(alone, mapping, self.accelerator)
        try:
            cycles = self.judge(alone, mapping)
        except SimaccelError:
            return None
        moved = sum(n for (level, _), n in whole.moved.items() if level.startswith("dram"))
        energy = sum(whole.energy_pj.values()) + self._leak * (cycles - whole.cycles)
        return Alternative(body, cycles, energy, moved, whole.buffer_bytes)

    def joined(self, fronts: Sequence[Front]) -> Front:
        """Return the front of operators that run one after the other."""
        found: list[Alternative] = list(fronts[0].found)
        for one in fronts[1:]:
            found = joined(self.asked, found, one.found)
        return Front(
            found=tuple(found),
            seen=sum(one.seen for one in fronts),
            proved=all(one.proved for one in fronts),
        )

    def either(self, fronts: Sequence[Front]) -> Front:
        """Return the front of several ways to do the same."""
        return Front(
            found=tuple(best_of(self.asked, [one for front in fronts for one in front.found])),
            seen=sum(one.seen for one in fronts),
            proved=all(one.proved for one in fronts),
        )

    # -- grids ------------------------------------------------------------------------------------

    @property
    def _leak(self) -> float:
        return self.accelerator.prices.leakage_pj_per_cycle

    def _times(self, front: Front, name: str) -> Front:
        times = self.workload.times(name)
        found = tuple(
            replace(
                one,
                cycles=one.cycles * times,
                energy_pj=one.energy_pj * times,
                dram_bytes=one.dram_bytes * times,
            )
            for one in front.found
        )
        return replace(front, found=found)

    def _front(self, grid: Candidates, body_of: Callable[[Tree], Body]) -> Front:
        """Return the front of a grid, by the machine."""
        fits = self._fitting(grid)
        if fits.size <= EXACT:
            found = self._judged([(grid, int(one)) for one in fits], body_of, bounded=True)
            return Front(found=found, seen=int(fits.size), proved=True)
        few: list[Place] = [(grid, int(one)) for one in self._estimated(grid)]
        seen = int(fits.size)
        for near in self._near(few):
            few += [(near, int(one)) for one in self._estimated(near)]
            seen += int(self._fitting(near).size)
        rows = np.array([self._row(place) for place in few])
        kept = evenly(undominated(rows[:, self.asked.parts]), _RUNS)
        found = self._judged([few[int(at)] for at in kept], body_of, bounded=False)
        return Front(found=found, seen=seen, proved=False)

    def _fitting(self, grid: Candidates) -> Ints:
        found: Ints = grid.first[grid.space[grid.first] <= self.goal.room]
        return found

    def _rows(self, grid: Candidates, which: Ints, cycles: Ints) -> Floats:
        """Return the parts of some candidates if they take so many cycles."""
        energy = grid.energy[which] + self._leak * (cycles - grid.least[which])
        rows = (cycles, energy, grid.dram[which], grid.space[which])
        return np.stack([np.asarray(one, dtype=np.float64) for one in rows], axis=1)

    def _row(self, place: Place) -> Floats:
        grid, number = place
        which = np.array([number])
        cycles = grid.cycles[which] if self.asked.timed else grid.least[which]
        row: Floats = self._rows(grid, which, cycles)[0]
        return row

    def _estimated(self, grid: Candidates) -> Ints:
        """Return the candidates of a grid that are on its front by the closed form."""
        fits = self._fitting(grid)
        if not fits.size:
            return fits
        least = self._rows(grid, fits, grid.least[fits])[:, self.asked.parts]
        if not self.asked.timed:
            return fits[undominated(least)]

        def judge(at: Ints) -> Floats:
            cycles = np.maximum(grid.estimated(fits[at]), grid.least[fits[at]])
            return self._rows(grid, fits[at], cycles)[:, self.asked.parts]

        return fits[front_of(least, judge)[0]]

    def _near(self, few: Sequence[Place]) -> list[Candidates]:
        """Return what is near some places that lie evenly on a front."""
        starts: dict[int, list[Any]] = {}
        for grid, number in (few[int(at)] for at in evenly(np.arange(len(few)), _STARTS)):
            family = grid.families[int(grid.family[number])]
            starts.setdefault(id(family), [family]).append(grid.one(number))
        families = [
            neighbours(some, limits_of(family), self.accelerator)
            for family, *some in starts.values()
        ]
        return [Candidates([one], self.accelerator, "edp") for one in families if one is not None]

    def _judged(
        self, places: Sequence[Place], body_of: Callable[[Tree], Body], *, bounded: bool
    ) -> tuple[Alternative, ...]:
        """Return the front of some places by the machine.

        ``bounded``: those whose resource bound is beaten already need not run.
        """
        if not places:
            return ()
        known: dict[int, Alternative] = {}
        parts = self.asked.parts
        least = np.array([self._least(place) for place in places])
        if not bounded:
            least[:] = 0

        def judge(which: Ints) -> Floats:
            rows = np.full((len(which), len(parts)), np.inf)
            for row, at in enumerate(which):
                one = self._run(places[int(at)], body_of)
                if one is not None:
                    known[int(at)] = one
                    rows[row] = np.array(one.parts)[parts]
            return rows

        front, _ = front_of(least[:, parts], judge, chunk=_AT_ONCE)
        return tuple(known[int(at)] for at in front)

    def _least(self, place: Place) -> Floats:
        """Return the parts of a candidate if it takes the work of its busiest resource."""
        grid, number = place
        which = np.array([number])
        row: Floats = self._rows(grid, which, grid.bounds[which])[0]
        return row

    def _run(self, place: Place, body_of: Callable[[Tree], Body]) -> Alternative | None:
        grid, number = place
        chosen = grid.chosen(number)
        body = body_of(chosen.tree)
        alone = self.workload.alone(operators_of(body))
        try:
            cycles = self.judge(alone, mapping_of(alone, "", body))
        except SimaccelError:
            return None
        row = self._rows(grid, np.array([number]), np.array([cycles]))[0]
        return Alternative(body, cycles, float(row[1]), chosen.dram_bytes, chosen.buffer_bytes)
