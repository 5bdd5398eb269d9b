"""The counts of a group over all cores: those of one core with a piece, times the cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simaccel.analytic.evaluation import FamilyTotals, evaluate, memory_work
from simaccel.analytic.family import family_of, ints
from simaccel.analytic.totals import Level
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import on_core, without_core
from simaccel.mapping.cores import core_spreads, shares
from simaccel.mapping.space import IterationSpace, space_of
from simaccel.mapping.tree import Group, Keep
from simaccel.workload import Workload


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
    """Return what cores do of a group, that of core 0 first, which has a full piece.

    ``around`` and ``bits``: as of ``family_of``.
    """
    totals_of = []
    spreads = core_spreads(group)
    for share in shares(group, space_of(workload, group).sizes):
        space = space_of(workload, share.group)
        reads: dict[str, int] = {}
        if accelerator.cores.noc.multicast:
            reads = {n: share.reads(spreads, ranks) for n, ranks in _moving(space).items()}
        totals = evaluate(family_of(space, share.group, tuple(around), bits), accelerator)
        totals_of.append(CoreTotals(share.cores, totals, reads))
    return tuple(totals_of)


def _moving(space: IterationSpace) -> dict[str, set[str]]:
    """Return the ranks that move each tensor of a group, in any of its uses."""
    ranks: dict[str, set[str]] = {}
    for seen in space.operators:
        for _, view in seen.uses:
            ranks.setdefault(view.name, set()).update(space.moves(view))
    return ranks


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
        moved: Counter[Level] = Counter()
        for share in self.every:
            for (level, name), n_bytes in share.totals.counts.moved.items():
                times = share.reads.get(name) if level == "dram_read" else None
                moved[level, name] += (times or len(share.cores)) * int(n_bytes)
        return {level: n for level, n in moved.items() if n}

    @property
    def resources(self) -> dict[str, int]:
        """Cycles of each resource's work: memories have that of all cores, others are a core's."""
        work: Counter[str] = Counter()
        for share in self.every:
            for name, cycles in share.totals.resources.items():
                for core in share.cores:
                    work[on_core(core, name)] += int(cycles)
        totals = self.every[0].totals
        moved = {level: ints(n_bytes) for level, n_bytes in self.moved.items()}
        workload = totals.family.space.workload
        shared = memory_work(totals.accelerator, workload, moved)
        own = {name: n for name, n in work.items() if without_core(name) not in shared}
        order = dict.fromkeys(totals.resources, 0)
        return {**order, **own, **{name: int(n) for name, n in shared.items()}}

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
