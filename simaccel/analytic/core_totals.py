"""The counts of a group over all cores: those of one core with a piece, times the cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from simaccel.analytic.evaluation import WITH_DRAM, FamilyTotals, evaluate, memory_work
from simaccel.analytic.family import Bools, Family, Ints, family_of, ints
from simaccel.analytic.totals import Level
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import on_core, without_core
from simaccel.hardware.memory import READS
from simaccel.mapping.cores import CoreCut, core_spreads, piece_of, shares
from simaccel.mapping.space import IterationSpace, space_of
from simaccel.mapping.tree import Group, Keep
from simaccel.workload import Workload

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CoreTotals:
    """The counts of each of some cores in a group."""

    cores: tuple[int, ...]
    totals: FamilyTotals
    reads: Mapping[str, int]
    """How often a tensor is loaded for all of them; what isn't here, by each of them."""


def core_totals(
    workload: Workload,
    accelerator: Accelerator,
    group: Group,
    around: Sequence[Keep],
    bits: Mapping[str, int],
) -> tuple[CoreTotals, ...]:
    """Return what cores do of a group, that of its first one first, which has a full piece.

    ``around`` and ``bits``: as of ``family_of``.
    """

    def family(sizes: Mapping[str, int]) -> Family:
        piece = piece_of(group, sizes)
        return family_of(space_of(workload, piece), piece, tuple(around), bits)

    cut = CoreCut(core_spreads(group), space_of(workload, group).sizes)
    first = 0 if group.place is None else group.place.start
    return tuple(
        replace(totals, cores=tuple(first + core for core in totals.cores))
        for totals in _totals(cut, family, accelerator)
    )


def family_totals(family: Family, accelerator: Accelerator) -> GroupTotals:
    """Count all candidates of a family, on all cores that have pieces of it."""
    if family.cut is None:
        return GroupTotals((CoreTotals((0,), evaluate(family, accelerator), {}),))

    def piece(sizes: Mapping[str, int]) -> Family:
        return replace(family, space=replace(family.space, sizes=sizes))

    return GroupTotals(tuple(_totals(family.cut, piece, accelerator)))


def _totals(
    cut: CoreCut, family: Callable[[Mapping[str, int]], Family], accelerator: Accelerator
) -> Iterator[CoreTotals]:
    """Yield the counts of each size of piece; ``family``: what a core does of one."""
    for share in shares(cut):
        piece = family(share.sizes)
        reads: dict[str, int] = {}
        if accelerator.cores.noc.multicast:
            moving = _moving(piece.space).items()
            reads = {name: share.reads(cut.spreads, ranks) for name, ranks in moving}
        yield CoreTotals(share.cores, evaluate(piece, accelerator), reads)


def _moving(space: IterationSpace) -> dict[str, set[str]]:
    """Return the ranks that move each tensor of a group, in any of its uses."""
    ranks: dict[str, set[str]] = {}
    for seen in space.operators:
        for _, view in seen.uses:
            ranks.setdefault(view.name, set()).update(space.moves(view))
    return ranks


@dataclass(frozen=True)
class GroupTotals:
    """Sums over the cores of a group, once; arrays where it is a family's."""

    every: Sequence[CoreTotals]

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that the group is for."""
        return self.every[0].totals.accelerator

    @property
    def macs(self) -> Ints:
        """MACs."""
        return self._sum(lambda totals: totals.counts.macs)

    @property
    def native_macs(self) -> Ints:
        """MACs of operands as wide as the array's multipliers that the MACs take."""
        return self._sum(lambda totals: totals.counts.native_macs)

    @property
    def elements(self) -> Ints:
        """Elements that pass SFUs."""
        return self._sum(lambda totals: totals.counts.elements)

    def _sum(self, amount: Callable[[FamilyTotals], Ints]) -> Ints:
        return ints(sum(len(one.cores) * ints(amount(one.totals)) for one in self.every))

    @cached_property
    def moved(self) -> dict[Level, Ints]:
        """Bytes by level and tensor."""
        moved: dict[Level, Ints] = {}
        for share in self.every:
            for (level, name), n_bytes in share.totals.counts.moved.items():
                times = share.reads.get(name) if level in READS else None
                more = (times or len(share.cores)) * ints(n_bytes)
                moved[level, name] = moved.get((level, name), ints(0)) + more
        return moved

    @property
    def dram_bytes(self) -> Ints:
        """Bytes from and to memories outside."""
        return sum((n for (level, _), n in self.moved.items() if level in WITH_DRAM), ints(0))

    @cached_property
    def _shared(self) -> dict[str, Ints]:
        """Cycles of the work of memories, which all cores share."""
        workload = self.every[0].totals.family.space.workload
        return memory_work(self.accelerator, workload, self.moved)

    @property
    def resources(self) -> dict[str, int]:
        """Cycles of each resource's work, of one mapping: memories have that of all cores."""
        work: Counter[str] = Counter()
        for share in self.every:
            for name, cycles in share.totals.resources.items():
                for core in share.cores:
                    work[on_core(core, name)] += int(cycles)
        own = {name: n for name, n in work.items() if without_core(name) not in self._shared}
        order = dict.fromkeys(self.every[0].totals.resources, 0)
        return {**order, **own, **{name: int(n) for name, n in self._shared.items()}}

    @cached_property
    def bound(self) -> Ints:
        """Cycles that no run is below: core 0's way, or the busiest resource of all."""
        first = self.every[0].totals
        if len(self.every) == len(self.every[0].cores) == 1:
            return first.bound()
        found = first.bound()
        for share in self.every:
            for name, work in share.totals.resources.items():
                busiest = self._shared.get(name, work) + first.start_cycles
                found = np.maximum(found, busiest)
        return ints(found)

    def work(self) -> Ints:
        """Return the cycles that an array or SFU works at least, whatever is on chip already."""
        return self.every[0].totals.work()

    def fits(self) -> Bools:
        """Return whether what each core has fits its accumulator, and its tiles the staging."""
        found = self.every[0].totals.fits()
        for one in self.every[1:]:
            found = found & one.totals.fits()
        return found

    def energy(self, cycles: Ints) -> Floats:
        """Return the energy in pJ, with the leakage of so many cycles."""
        return np.asarray(sum(self._by_level(cycles).values()), dtype=np.float64)

    def _by_level(self, cycles: Ints) -> dict[str, Any]:
        macs, elements = self.native_macs, self.elements
        return self.accelerator.energy_by_level(macs, elements, self.moved, cycles)

    @property
    def bound_terms(self) -> dict[str, int]:
        """The bound of one mapping by term: core 0's way, or the busiest resource of all."""
        alone, work = self.every[0].totals.path_terms(), self.resources
        busiest = max(work, key=lambda name: work[name])
        found = alone if sum(alone.values()) >= work[busiest] else {busiest: work[busiest]}
        start = self.accelerator.groups.start_cycles
        return {"start": start, **found} if start else found

    @property
    def energy_pj(self) -> dict[str, float]:
        """Energy of one mapping by level in pJ, with the leakage of the bound's cycles."""
        by_level = self._by_level(ints(sum(self.bound_terms.values())))
        return {level: float(n) for level, n in by_level.items()}

    def buffer_bytes(self) -> Ints:
        """Return the most bytes that the tiles of a core need in its buffer."""
        found = self.every[0].totals.buffer_bytes()
        for one in self.every[1:]:
            found = np.maximum(found, one.totals.buffer_bytes())
        return found
