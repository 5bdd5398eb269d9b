"""The counts of a group over all cores: those of one core with a piece, times the cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simaccel.analytic.evaluation import FamilyTotals, evaluate
from simaccel.analytic.family import family_of
from simaccel.analytic.totals import Level
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import on_core
from simaccel.mapping.cores import shares
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Group, Keep
from simaccel.workload import Workload


@dataclass(frozen=True)
class CoreTotals:
    """The counts of each of some cores in a group."""

    cores: tuple[int, ...]
    totals: FamilyTotals


def core_totals(
    workload: Workload,
    accelerator: Accelerator,
    group: Group,
    around: Sequence[Keep],
    bits: Mapping[str, int],
) -> tuple[CoreTotals, ...]:
    """Return what cores do of a group, that of core 0 first, which has a full piece.

    ``around`` and ``bits``: as of ``family_of``.
    """
    totals_of = []
    for share in shares(group, space_of(workload, group).sizes):
        space = space_of(workload, share.group)
        totals = evaluate(family_of(space, share.group, tuple(around), bits), accelerator)
        totals_of.append(CoreTotals(share.cores, totals))
    return tuple(totals_of)


@dataclass(frozen=True)
class GroupTotals:
    """Sums over the cores of a group, once."""

    every: Sequence[CoreTotals]

    @property
    def macs(self) -> int:
        """MACs."""
        return sum(len(one.cores) * int(one.totals.counts.macs) for one in self.every)

    @property
    def native_macs(self) -> int:
        """MACs of operands as wide as the array's multipliers that the MACs take."""
        return sum(len(one.cores) * int(one.totals.counts.native_macs) for one in self.every)

    @property
    def elements(self) -> int:
        """Elements that pass SFUs."""
        return sum(len(one.cores) * int(one.totals.counts.elements) for one in self.every)

    @property
    def moved(self) -> dict[Level, int]:
        """Bytes by level and tensor."""
        found: Counter[Level] = Counter()
        for one in self.every:
            for level, n_bytes in one.totals.counts.moved.items():
                found[level] += len(one.cores) * int(n_bytes)
        return {level: n for level, n in found.items() if n}

    @property
    def resources(self) -> dict[str, int]:
        """Cycles of each resource's work: memories have that of all cores, others are a core's."""
        found: Counter[str] = Counter()
        for one in self.every:
            shared = one.totals.accelerator.every_backing
            for name, cycles in one.totals.resources.items():
                for core in one.cores:
                    found[name if name in shared else on_core(core, name)] += int(cycles)
        return dict(found)

    @property
    def bound_terms(self) -> dict[str, int]:
        """The bound by term: core 0's way, or the busiest resource of all."""
        alone, work = self.every[0].totals.path_terms(), self.resources
        busiest = max(work, key=lambda name: work[name])
        found = alone if sum(alone.values()) >= work[busiest] else {busiest: work[busiest]}
        start = self.every[0].totals.accelerator.groups.start_cycles
        return {"start": start, **found} if start else found

    @property
    def energy_pj(self) -> dict[str, float]:
        """Energy by level in pJ, with the leakage of the bound's cycles."""
        accelerator, cycles = self.every[0].totals.accelerator, sum(self.bound_terms.values())
        found = accelerator.energy_by_level(self.native_macs, self.elements, self.moved, cycles)
        return {level: float(n) for level, n in found.items()}

    @property
    def buffer_bytes(self) -> int:
        """The most bytes that the tiles of a core need in its buffer."""
        return max(int(one.totals.buffer_bytes()) for one in self.every)
