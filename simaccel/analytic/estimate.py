"""The estimate of a whole mapping: group by group, from the mapping alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from simaccel.analytic.chain import Chain, Link
from simaccel.analytic.counting.counts import count
from simaccel.analytic.family import (
    Bools,
    Family,
    Ints,
    alike,
    family_of,
    ints,
    take,
    without_empty,
)
from simaccel.analytic.known import known_times
from simaccel.analytic.least import least
from simaccel.analytic.schedule import bodies
from simaccel.analytic.timing.lines import ApartError
from simaccel.analytic.timing.timeline import timeline
from simaccel.analytic.totals import ACCUMULATOR, Counts, Level
from simaccel.analytic.units import Units
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.mapping.around import Life, lives
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import BUFFER, Group, Keep, Mapping
from simaccel.workload import Workload


class EstimateError(SimaccelError):
    """A workload that the closed form can't count; the message says why."""


@dataclass(frozen=True)
class OperatorEstimate:
    """Prediction for one group, all repetitions."""

    name: str
    cycles: int
    resource_bound_cycles: int
    macs: int
    elements: int
    moved: dict[Level, int]
    buffer_bytes: int
    resources: dict[str, int]
    energy_pj: dict[str, float]

    @property
    def bound_by(self) -> str:
        """Name of the busiest resource."""
        return max(self.resources, key=lambda name: self.resources[name])


@dataclass(frozen=True)
class Estimate:
    """Prediction for a mapping, whose groups run one after another.

    ``resource_bound_cycles``: no run is shorter. ``buffer_bytes``: most that is reserved at once.
    """

    operators: tuple[OperatorEstimate, ...]
    resource_bound_cycles: int
    buffer_bytes: int

    @property
    def cycles(self) -> int:
        """Estimated cycles."""
        return max(sum(o.cycles for o in self.operators), self.resource_bound_cycles)

    @property
    def macs(self) -> int:
        """MACs of all groups."""
        return sum(o.macs for o in self.operators)

    @property
    def moved(self) -> dict[Level, int]:
        """Bytes by level and tensor."""
        total: dict[Level, int] = {}
        for operator in self.operators:
            for level, n_bytes in operator.moved.items():
                total[level] = total.get(level, 0) + n_bytes
        return dict(sorted(total.items()))

    @property
    def energy_pj(self) -> dict[str, float]:
        """Energy by level in pJ."""
        total: dict[str, float] = {}
        for operator in self.operators:
            for level, energy in operator.energy_pj.items():
                total[level] = total.get(level, 0.0) + energy
        return total


_WITH_DRAM = ("dram_read", "dram_write")
MOST_MACS = 2**60
"""Beyond, counts in 64-bit integers could wrap."""


def require_countable(workload: Workload) -> None:
    """Refuse a workload whose counts may not fit 64-bit integers.

    Raises:
        EstimateError: names the MACs and the limit.

    """
    if workload.macs > MOST_MACS:
        raise EstimateError(f"{workload.name}: {workload.macs} MACs; allowed: at most 2^60")


@dataclass(frozen=True)
class Totals:
    """The counts of a family, what bounds its cycles, and how to time it."""

    family: Family
    accelerator: Accelerator
    counts: Counts

    @cached_property
    def resources(self) -> dict[str, Ints]:
        """The cycles of each resource's work."""
        counts, hardware = self.counts, self.accelerator
        found = {
            "array": counts.busy.get("array", ints(0)),
            "sfu": counts.busy.get("sfu", ints(0)),
        }
        for name, backing in hardware.every_backing.items():
            moved, parts = self._moved_with(name), backing.dram.channels
            loads = backing.channel_read_rate.cycles(moved["dram_read"] // parts)
            stores = backing.channel_rate.cycles(moved["dram_write"] // parts)
            found[name] = ints(loads + stores - 1).clip(0)
        for name, rate in (
            ("buffer_read", hardware.read_rate),
            ("buffer_write", hardware.write_rate),
        ):
            found[name] = ints(rate.cycles(counts.total(name)))
        noc = (
            hardware.distribution_rate.cycles(counts.total("noc_distribution")),
            hardware.collection_rate.cycles(counts.total("noc_collection")),
        )
        found["noc"] = ints(np.maximum(*noc))
        return found

    def _moved_with(self, memory: str) -> dict[str, Ints]:
        """Return the bytes that are read from a memory, and written to it."""
        tensors, found = self.family.space.workload.tensors, dict.fromkeys(_WITH_DRAM, ints(0))
        for (level, name), n_bytes in self.counts.moved.items():
            if level in found and self.accelerator.memory(tensors[name].kind) == memory:
                found[level] = found[level] + n_bytes
        return found

    def bound(self) -> Ints:
        """Return the total work of the busiest resource. No run is shorter."""
        found = ints(0)
        for work in self.resources.values():
            found = np.maximum(found, work)
        return found

    def work(self) -> Ints:
        """Return the cycles that array or SFU work at least, whatever is on chip already."""
        busy = self.counts.busy
        return ints(np.maximum(*(busy.get(unit, ints(0)) for unit in ("array", "sfu"))))

    def least(self) -> Ints:
        """Return what no estimate is below: the bound, and what the array waits for."""
        return ints(np.maximum(self.bound(), least(self.family, self.accelerator, self.counts)))

    def timed(self) -> Ints:
        """Return the cycles of engines, tiles and channels together."""
        family, shape = self.family, self.family.shape
        if not shape:
            return _timed(family, self.accelerator)
        found = np.empty(shape, dtype=np.int64)
        for places in alike(family):
            index = np.unravel_index(places if places.size > 1 else places[0], shape)
            found[index] = _timed(take(family, index), self.accelerator)
        return found

    def cycles(self) -> Ints:
        """Return the estimated cycles from the first load to the last store."""
        return ints(np.maximum(self.timed(), self.least()))

    def buffer_bytes(self) -> Ints:
        """Return the bytes that the tiles need in the buffer, those kept around not counted."""
        return self.counts.room(BUFFER)

    def fits(self) -> Bools:
        """Return whether sums fit the accumulator, and tiles of other memories their staging."""
        found = self._sums_fit()
        for kind, n_bytes in self.accelerator.staging.items():
            if n_bytes is not None:
                found = found & (self.counts.staged(kind) <= n_bytes)
        return found

    def _sums_fit(self) -> Bools:
        array = self.accelerator.array
        accumulator = array.accumulator if isinstance(array, ArraySpec) else None
        if accumulator is None or accumulator.capacity_bytes is None:
            return np.ones((), dtype=np.bool_)
        return self.counts.room(ACCUMULATOR) <= accumulator.capacity_bytes

    def energy_pj(self, cycles: float | Ints | None = None) -> dict[str, npt.NDArray[np.float64]]:
        """Return the energy by level in pJ; ``cycles`` (by candidate): in which it leaks."""
        counts, within = self.counts, cycles if cycles is None else np.asarray(cycles)
        found: dict[str, Any] = self.accelerator.energy_by_level(
            counts.native_macs, counts.elements, counts.moved, within
        )
        return {name: np.asarray(value, dtype=np.float64) for name, value in found.items()}


def _timed(family: Family, accelerator: Accelerator) -> Ints:
    return known_times(family, accelerator, lambda: _timed_anew(family, accelerator))


def _timed_anew(family: Family, accelerator: Accelerator) -> Ints:
    family = without_empty(family)
    units = Units(family, accelerator)
    try:
        times = timeline(bodies(family), family.space, units, accelerator)
    except ApartError:
        found = np.empty(family.shape, dtype=np.int64)
        for n in range(found.size):
            index = np.unravel_index(n, family.shape)
            found[index] = _timed_anew(take(family, index), accelerator)
        return found
    return ints(np.ceil(times.end()))


def evaluate(family: Family, accelerator: Accelerator) -> Totals:
    """Count a family on an accelerator."""
    return Totals(family, accelerator, count(family, accelerator))


def estimate(
    workload: Workload,
    mapping: Mapping,
    accelerator: Accelerator,
) -> Estimate:
    """Predict a mapping of a whole workload.

    Raises:
        EstimateError: the counts would not fit 64-bit integers.

    """
    require_countable(workload)
    every: list[tuple[str, Totals, Link]] = []
    for group, around, living in _placed(workload, mapping):
        space = space_of(workload, group)
        bits = {one.keep.tensor: one.bits for one in living}
        totals = evaluate(family_of(space, group, around, bits), accelerator)
        kept = sum(one.n_bytes for one in living)
        times = workload.times(group.operators[0])
        link = Link(totals.family, totals.counts, around, times, kept)
        every.append((group.name, totals, link))
    chain = Chain([link for _, _, link in every], accelerator)
    cycles = chain.cycles([int(totals.least()) for _, totals, _ in every])
    figures = (_figures(*one, mine) for one, mine in zip(every, cycles, strict=True))
    works = [{n: int(w) for n, w in totals.resources.items()} for _, totals, _ in every]
    return Estimate(tuple(figures), chain.bound(works), chain.buffer_bytes())


def _placed(
    workload: Workload, mapping: Mapping
) -> Iterator[tuple[Group, tuple[Keep, ...], list[Life]]]:
    """Yield each group with what is kept around it, and what of that lives then."""
    for one in mapping.body:
        if isinstance(one, Group):
            yield one, (), []
            continue
        living = lives(workload, one)
        for at, group in enumerate(one.groups):
            yield group, one.keeps, [life for life in living if life.first <= at <= life.last]


def _figures(name: str, totals: Totals, link: Link, cycles: int) -> OperatorEstimate:
    counts, repeat = totals.counts, link.times
    energy = totals.energy_pj(cycles / repeat)
    return OperatorEstimate(
        name=name,
        cycles=cycles,
        resource_bound_cycles=int(totals.bound()) * repeat,
        macs=int(counts.macs) * repeat,
        elements=int(counts.elements) * repeat,
        moved={level: int(n) * repeat for level, n in counts.moved.items() if int(n)},
        buffer_bytes=link.buffer_bytes,
        resources={one: int(n) * repeat for one, n in totals.resources.items()},
        energy_pj={level: float(n) * repeat for level, n in energy.items()},
    )
