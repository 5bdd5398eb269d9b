"""Counts, work, lower bound, energy and likely cycles of the candidates of a family.

Likely cycles are a guess by which a search orders candidates. They include waits that no bound has:
a transfer begins at a memory's first channel, so small tiles use no other channel, and a tile
occupies its slot from its request to the end of its use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from simaccel.analytic.block_fills import BlockFills
from simaccel.analytic.counting.work_counts import count, count_tiles
from simaccel.analytic.family import ZERO, Bools, Family, Ints, choose, ints, maximum
from simaccel.analytic.family_counts import ACCUMULATOR, FamilyCounts, Level
from simaccel.analytic.fork_bound import fork_bound
from simaccel.analytic.lower_bound import Terms, after_loads, lower_bound
from simaccel.analytic.units import UnitCosts, channel_cycles
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.hardware.memory import DRAM_WAYS, READS, leaves_core
from simaccel.mapping.tree import BUFFER, Fork
from simaccel.units import ARRAY, COMPUTE_UNITS, SFU
from simaccel.workload import Workload


class CountError(SimaccelError):
    """The counts of a workload don't fit 64-bit integers; the message has the reason."""


Floats = npt.NDArray[np.float64]
MOST_MACS = 2**60
"""The most MACs for which counts surely fit 64-bit integers."""


def require_countable(workload: Workload) -> None:
    """Refuse a workload whose counts may not fit 64-bit integers.

    Raises:
        CountError: the message names the MACs and the limit.
    """
    if workload.macs > MOST_MACS:
        raise CountError(f"{workload.name}: {workload.macs} MACs; allowed: at most 2^60")


def memory_work(
    accelerator: Accelerator, workload: Workload, moved: Mapping[Level, Ints]
) -> dict[str, Ints]:
    """Return the work in cycles of DRAM and the memories beside it, from bytes moved."""
    work: dict[str, Ints] = {}
    backings = accelerator.every_backing
    both = {memory: {"read": ZERO, "write": ZERO} for memory in backings}
    for (level, name), n_bytes in moved.items():
        if leaves_core(level):
            ways = both[accelerator.memory(workload.tensors[name].lives)]
            way = level.rpartition("_")[-1]
            ways[way] = ways[way] + n_bytes
    for memory, backing in backings.items():
        work[memory] = channel_cycles(backing, both[memory]["read"], both[memory]["write"])
    return work


@dataclass(frozen=True)
class FamilyTotals:
    """The counts of a family, with work, bound, memory and energy that follow from them."""

    units: UnitCosts
    counts: FamilyCounts

    @cached_property
    def resources(self) -> dict[str, Ints]:
        """The work of each resource in cycles."""
        counts, hardware = self.counts, self.units.accelerator
        cycles = {unit: counts.busy.get(unit, ZERO) for unit in COMPUTE_UNITS}
        cycles |= memory_work(hardware, self.units.family.space.workload, counts.moved)
        by_level = counts.by_level()
        for name, rate in (
            ("buffer_read", hardware.read_rate),
            ("buffer_write", hardware.write_rate),
            ("noc_distribution", hardware.distribution_rate),
            ("noc_collection", hardware.collection_rate),
        ):
            cycles[name] = ints(rate.cycles(by_level.get(name, ZERO)))
        return cycles

    def resource_bound(self) -> Ints:
        """Return the work of the busiest resource, which no run is shorter than."""
        found = ZERO
        for work in self.resources.values():
            found = maximum(found, work)
        return found

    def work(self) -> Ints:
        """Return the least cycles of array and SFU, whatever is on chip already.

        Vector operators that the array waits for between two of its operators don't overlap it.
        """
        busy = self.counts.busy
        found = ints(maximum(*(busy.get(unit, ZERO) for unit in COMPUTE_UNITS)))
        return ints(maximum(found, busy[ARRAY] + self.path[SFU])) if ARRAY in busy else found

    @cached_property
    def _fills(self) -> BlockFills:
        return BlockFills(self.units)

    @cached_property
    def path(self) -> Terms:
        """The cycles of the array's path through the tree, by term (`lower_bound`)."""
        return lower_bound(self._fills, self.counts)

    @cached_property
    def after_loads(self) -> Terms:
        """The cycles of all loads and of the work after the last one, by term (`after_loads`)."""
        return after_loads(self._fills, self.counts)

    @cached_property
    def fork(self) -> Terms:
        """The cycles of array and SFU in a fork, by term (`fork_bound`)."""
        last = self.units.family.branch[-1]
        return fork_bound(last, self._fills, self.counts) if isinstance(last, Fork) else {}

    def fill(self, late: Collection[str]) -> Ints:
        """Return the cycles until the first command has the tensors ``late``."""
        return self._fills.fill_cycles(late)

    def bound(self) -> Ints:
        """Return the lower bound: the start, plus the busiest resource or the longest path."""
        longest = self.resource_bound()
        for way in (self.path, self.after_loads, self.fork):
            longest = maximum(longest, sum(way.values(), start=ZERO))
        return ints(longest) + self.start_cycles

    @property
    def start_cycles(self) -> int:
        """Cycles before a group's first load."""
        return self.units.accelerator.compiler.kernel_start_cycles

    def path_terms(self) -> dict[str, int]:
        """Return the path of a single candidate by term, without terms of 0 cycles."""
        return {name: int(cycles) for name, cycles in self.path.items() if int(cycles)}

    def buffer_bytes(self) -> Ints:
        """Return the bytes that tiles need in the buffer, without those of keeps around groups."""
        return self.counts.room(BUFFER)

    def fits(self) -> Bools:
        """Return whether sums fit the accumulator, and tiles their memory's staging bytes."""
        array, found = self.units.accelerator.array, np.ones((), dtype=np.bool_)
        sums = array.accumulator if isinstance(array, ArraySpec) else None
        if sums is not None and sums.capacity_bytes is not None:
            found = self.counts.room(ACCUMULATOR) <= sums.capacity_bytes
        for kind, n_bytes in self.units.accelerator.staging.items():
            if n_bytes is not None:
                found = found & (self.counts.staged_bytes(kind) <= n_bytes)
        return found

    def energy_pj(self, cycles: float | Ints | None = None) -> dict[str, npt.NDArray[np.float64]]:
        """Return the energy by level in pJ; ``cycles``: of leakage, by candidate."""
        counts, within = self.counts, cycles if cycles is None else np.asarray(cycles)
        found: dict[str, Any] = self.units.accelerator.energy_by_level(
            counts.native_macs, counts.elements, counts.moved, within
        )
        return {name: np.asarray(value, dtype=np.float64) for name, value in found.items()}


def evaluate(family: Family, accelerator: Accelerator, *, room: bool = True) -> FamilyTotals:
    """Return the counts of a family on an accelerator; ``room``: also of what tiles take."""
    units = UnitCosts(family, accelerator)
    return FamilyTotals(units, count(units, room=room))


def fits_memories(family: Family, accelerator: Accelerator, room: int) -> bool:
    """Return whether the tiles of one mapping fit ``room`` bytes of buffer.

    Its sums must also fit the accumulator, and tiles of memories beside the DRAM their staging
    bytes (`FamilyTotals.fits`).
    """
    units = UnitCosts(family, accelerator)
    has_sums = accelerator.systolic.accumulator is not None
    totals = FamilyTotals(units, count(units) if has_sums else count_tiles(family))
    return int(totals.buffer_bytes()) <= room and bool(totals.fits())


def first_channel_cycles(totals: FamilyTotals, moved: Mapping[Level, Ints]) -> Ints:
    """Return the approximate cycles of the first channel of the busiest memory for all bytes."""
    by_memory: dict[str, Ints] = {}
    for (level, name), n_bytes in moved.items():
        if level in DRAM_WAYS:
            memory, _, service = _service(totals, level, name)
            share = np.asarray(n_bytes, dtype=np.float64) * service
            by_memory[memory] = by_memory.get(memory, ZERO) + ints(share)
    found = ZERO
    for cycles in by_memory.values():
        found = maximum(found, cycles)
    return found


def slot_cycles(totals: FamilyTotals) -> Ints:
    """Return the approximate cycles of the slowest tensor's tiles, one after the other per slot."""
    counts, outcome = totals.counts, ZERO
    for (level, name), n_bytes in counts.moved.items():
        if level not in DRAM_WAYS:
            continue
        _, backing, service = _service(totals, level, name)
        tile, slots = _tile(totals, name)
        work = ZERO
        for op in totals.units.family.space.operators:
            if any(view.name == name for _, view in op.uses):
                work = work + counts.chains.get(op.name, ZERO)
        latency = backing.dram.latency_cycles if level in READS else 0
        tiles = -(-n_bytes // maximum(tile, 1))
        each = tiles * latency + np.asarray(n_bytes, dtype=np.float64) * service + work
        outcome = maximum(outcome, ints((tile > 0) * each / maximum(slots, 1)))
    return ints(outcome)


def _service(totals: FamilyTotals, level: str, name: str) -> tuple[str, Accelerator, Floats]:
    """Return a tensor's memory, its accelerator view, and the first channel's cycles per byte."""
    accelerator = totals.units.accelerator
    kind = totals.units.family.space.workload.tensors[name].lives
    backing, (tile, _) = accelerator.backing(kind), _tile(totals, name)
    rate = backing.channel_read_rate if level in READS else backing.channel_rate
    share = backing.dram.channel_bytes(tile, 0) / maximum(tile, 1)
    share = choose(tile > 0, share, 1 / backing.dram.channels)
    cycles: Floats = np.asarray(share * (rate.n_cycles / rate.n_bytes), dtype=np.float64)
    return accelerator.memory(kind), backing, cycles


def _tile(totals: FamilyTotals, name: str) -> tuple[Ints, Ints]:
    """Return the bytes of a tensor's largest tile and its slots; 0 without a tile."""
    return totals.counts.largest_tile(totals.units.family.aliases.get(name, name))
