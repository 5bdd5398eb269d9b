"""The counts of a group over all cores: those of each size of piece, times its cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from simaccel.analytic.evaluation import (
    FamilyTotals,
    Floats,
    evaluate,
    first_channel_cycles,
    memory_work,
    slot_cycles,
)
from simaccel.analytic.family import ZERO, Bools, Family, Ints, family_of, ints, maximum
from simaccel.analytic.family_counts import Level
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import HOPS_READ, HOPS_WRITE, on_chip, on_core
from simaccel.hardware.memory import DRAM_WAYS, READS, WRITES, leaves_core
from simaccel.mapping.cores import CoreCut, CoreSets, core_spreads, piece_of, shares
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Group, Keep
from simaccel.workload import Workload


@dataclass(frozen=True)
class CoreTotals:
    """The counts of a group on each of ``cores``, which have pieces of one size."""

    cores: tuple[int, ...]
    totals: FamilyTotals
    shared: Mapping[str, CoreSets]
    """By tensor, the sets of cores that one read serves; other tensors are read by each core."""

    def take_from(self, first: int) -> CoreTotals:
        """Return the counts with ``first`` added to the numbers of the cores."""
        cores = tuple(first + core for core in self.cores)
        shared = {
            name: tuple(tuple(first + core for core in readers) for readers in sets)
            for name, sets in self.shared.items()
        }
        return CoreTotals(cores, self.totals, shared)

    def readers(self, level: str, tensor: str) -> CoreSets:
        """Return the sets of cores that one transfer of a tensor at a level serves."""
        alone = tuple((core,) for core in self.cores)
        return self.shared.get(tensor, alone) if level in READS else alone


def core_totals(
    workload: Workload,
    accelerator: Accelerator,
    group: Group,
    around: Sequence[Keep],
    bits: Mapping[str, int],
) -> tuple[CoreTotals, ...]:
    """Return the counts of a group by size of piece, the first core's full piece first.

    ``around`` and ``bits``: as in ``family_of``.
    """

    def family(sizes: Mapping[str, int]) -> Family:
        piece = piece_of(group, sizes)
        return family_of(space_of(workload, piece), piece, tuple(around), bits)

    cut = CoreCut(core_spreads(group), space_of(workload, group).sizes)
    every = tuple(_totals(cut, family, accelerator))
    if group.place is None or group.place.start == 0:
        return every
    return tuple(totals.take_from(group.place.start) for totals in every)


def family_totals(family: Family, accelerator: Accelerator) -> GroupTotals:
    """Return the counts of all candidates of a family, over all cores with pieces of it."""
    if family.cut is None:
        return GroupTotals((CoreTotals((0,), evaluate(family, accelerator), {}),))

    def piece(sizes: Mapping[str, int]) -> Family:
        space = replace(family.space, sizes=sizes, full_piece=family.space.sizes)
        return replace(family, space=space)

    return GroupTotals(tuple(_totals(family.cut, piece, accelerator)))


def _totals(
    cut: CoreCut, family: Callable[[Mapping[str, int]], Family], accelerator: Accelerator
) -> Iterator[CoreTotals]:
    """Yield the counts of each size of piece; ``family``: from sizes to the family of a core."""
    for share in shares(cut):
        piece = family(share.sizes)
        reads: dict[str, CoreSets] = {}
        if cut.spreads and accelerator.cores.noc.multicast:
            moving: dict[str, set[str]] = {}  # ranks that move a tensor in any of its uses
            for view in (view for op in piece.space.operators for _, view in op.uses):
                moving.setdefault(view.name, set()).update(piece.space.moves(view))
            reads = {name: share.readers(cut.spreads, ranks) for name, ranks in moving.items()}
        yield CoreTotals(share.cores, evaluate(piece, accelerator), reads)


@dataclass(frozen=True)
class GroupTotals:
    """The sums over all cores of one run of a group; arrays over the candidates of a family."""

    every: Sequence[CoreTotals]

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that the group is for."""
        return self.every[0].totals.units.accelerator

    @property
    def macs(self) -> Ints:
        """MACs."""
        return self._sum(lambda totals: totals.counts.macs)

    @property
    def native_macs(self) -> Ints:
        """MACs in units of the multipliers' native width."""
        return self._sum(lambda totals: totals.counts.native_macs)

    @property
    def elements(self) -> Ints:
        """Elements x passes of the SFUs."""
        return self._sum(lambda totals: totals.counts.elements)

    def _sum(self, amount: Callable[[FamilyTotals], Ints]) -> Ints:
        return ints(sum(len(one.cores) * amount(one.totals) for one in self.every))

    @cached_property
    def moved(self) -> dict[Level, Ints]:
        """Bytes by level and tensor."""
        moved = dict(self.every[0].totals.counts.moved) if self._is_one else {}
        for share in () if self._is_one else self.every:
            for (level, name), n_bytes in share.totals.counts.moved.items():
                more = len(share.readers(level, name)) * ints(n_bytes)
                moved[level, name] = moved.get((level, name), ZERO) + more
        for (level, name), crossed in self._crossings.items():
            way = HOPS_READ if level in READS else HOPS_WRITE
            known = moved.get((way, name), ZERO)
            moved[way, name] = known + sum(crossed.values(), start=ZERO)
        return moved

    @property
    def received(self) -> dict[str, int]:
        """Bytes by tensor that loads write to the buffers of all cores, for a single mapping."""
        received: Counter[str] = Counter()
        for share in self.every:
            for (level, name), n_bytes in share.totals.counts.moved.items():
                received[name] += len(share.cores) * int(n_bytes) if level in READS else 0
        return received

    @cached_property
    def _crossings(self) -> dict[Level, dict[str, Ints]]:
        """Bytes by level and tensor, and by the link of the cores' NoC that they cross."""
        cores, crossings = self.accelerator.cores, dict[Level, dict[str, Ints]]()
        if cores.noc.topology is None:
            return crossings
        for share in self.every:
            for (level, name), n_bytes in share.totals.counts.moved.items():
                if not leaves_core(level):
                    continue
                links: Counter[str] = Counter()
                for readers in share.readers(level, name):
                    ways = (cores.links(core, write=level in WRITES) for core in readers)
                    links.update({link for way in ways for link in way})
                crossed = crossings.setdefault((level, name), {})
                for link, times in links.items():
                    crossed[link] = crossed.get(link, ZERO) + times * ints(n_bytes)
        return crossings

    @cached_property
    def links(self) -> dict[str, Ints]:
        """The work of each link of the cores' NoC in cycles, by name."""
        total: dict[str, Ints] = {}
        for crossed in self._crossings.values():
            for link, n_bytes in crossed.items():
                total[link] = total.get(link, ZERO) + n_bytes
        rate, order = self.accelerator.cores.noc.rate, self.accelerator.cores.every_link
        return {link: ints(rate.cycles(total[link])) for link in order if link in total}

    @property
    def dram_bytes(self) -> Ints:
        """Bytes from and to memories outside of the cores."""
        return sum((n for (level, _), n in self.moved.items() if level in DRAM_WAYS), ZERO)

    @property
    def _is_one(self) -> bool:
        """Whether a single core does all of it, whose counts are then the sums."""
        return len(self.every) == len(self.every[0].cores) == 1

    @cached_property
    def _shared(self) -> dict[str, Ints]:
        """The work in cycles of the memories, which all cores share."""
        first = self.every[0].totals
        if self._is_one:
            return {name: first.resources[name] for name in self.accelerator.every_backing}
        return memory_work(self.accelerator, first.units.family.space.workload, self.moved)

    @cached_property
    def resources(self) -> dict[str, int]:
        """The work of each resource in cycles, for a single mapping."""
        first, known = self.every[0].cores[0], self.every[0].totals.resources
        if self._is_one and not first and not self.links:
            return {name: int(cycles) for name, cycles in known.items()}
        shared = {**self._shared, **self.links}
        work = {on_chip(first, name): 0 for name in known}
        for share in self.every:
            own = ((name, n) for name, n in share.totals.resources.items() if name not in shared)
            for (name, cycles), core in product(own, share.cores):
                unit = on_core(core, name)
                work[unit] = work.get(unit, 0) + int(cycles)
        return {**work, **{on_chip(first, name): int(n) for name, n in shared.items()}}

    @cached_property
    def bound(self) -> Ints:
        """The lower bound of the cycles: core 0's longest path, or the busiest resource."""
        first = self.every[0].totals
        busiest, works = first.bound(), list(self.links.values())
        if len(self.every) > 1 or len(self.every[0].cores) > 1:
            resources = (share.totals.resources.items() for share in self.every)
            works += [self._shared.get(name, work) for each in resources for name, work in each]
        for work in works:
            busiest = maximum(busiest, work + first.start_cycles)
        return ints(busiest)

    @property
    def likely(self) -> Ints:
        """A guess of the cycles, for ordering candidates: at least the bound.

        Or all transfers plus the latency that is exposed, or the slots of a tensor in turn. No
        bound has the waits of loads for stores, which grow with the bytes moved.
        """
        first = self.every[0].totals
        exposed = [n for name, n in first.after_loads.items() if name not in ("dram", "drain")]
        moving = maximum(self._shared["dram"], first_channel_cycles(first, self.moved))
        waiting = maximum(self.bound, slot_cycles(first))
        return ints(maximum(waiting, sum(exposed, start=moving)))

    def fits(self) -> Bools:
        """Return whether each core's sums fit the accumulator, and its tiles their staging."""
        found = self.every[0].totals.fits()
        for one in self.every[1:]:
            found = found & one.totals.fits()
        return found

    def energy(self, cycles: Ints) -> Floats:
        """Return the energy in pJ, including the leakage of ``cycles``."""
        return np.asarray(sum(self._by_level(cycles).values()), dtype=np.float64)

    def _by_level(self, cycles: Ints) -> dict[str, Any]:
        macs, elements = self.native_macs, self.elements
        return self.accelerator.energy_by_level(macs, elements, self.moved, cycles)

    @cached_property
    def bound_terms(self) -> dict[str, int]:
        """The bound of a single mapping by term: core 0's longest path, or the busiest resource."""
        first, work = self.every[0].totals, self.resources
        ways = (first.path, first.after_loads, first.fork)
        alone = max(
            ({n: int(c) for n, c in way.items() if int(c)} for way in ways),
            key=lambda way: sum(way.values()),
        )
        busiest = max(work, key=lambda name: work[name])
        found = alone if sum(alone.values()) >= work[busiest] else {busiest: work[busiest]}
        start = self.accelerator.compiler.kernel_start_cycles
        return {"start": start, **found} if start else found

    @property
    def energy_pj(self) -> dict[str, float]:
        """Energy of a single mapping by level in pJ, with leakage over the bound's cycles."""
        by_level = self._by_level(ints(sum(self.bound_terms.values())))
        return {level: float(n) for level, n in by_level.items()}

    def buffer_bytes(self) -> Ints:
        """Return the bytes that tiles need in the buffer of the core with most."""
        found = self.every[0].totals.buffer_bytes()
        for one in self.every[1:]:
            found = maximum(found, one.totals.buffer_bytes())
        return found
