"""Time of an invocation, for many hardware points at once: arrays over points.

Data comes and goes through a NoC that is a pipe at each cluster level; a step takes what is
longest of computing, data in and data out, as tiles are double-buffered. The first step of an
invocation has nothing to hide behind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
from simaccel.papers.maestro.analysis.invocations import Invocation
from simaccel.papers.maestro.analysis.states import Bools, Ints


@dataclass(frozen=True, kw_only=True)
class Points:
    """Hardware points of as many PEs, as arrays (for the NoC: points x levels from the outermost).

    Bandwidths in elements per cycle, latencies in cycles, lanes in MACs at once in a PE.
    """

    pes: int
    noc_bandwidth: Ints
    noc_latency: Ints
    offchip_bandwidth: Ints
    simd_lanes: Ints
    cycles_per_mac: Ints

    @cached_property
    def count(self) -> int:
        """Number of points."""
        return len(self.simd_lanes)


def points_of(hardware: Sequence[DirectiveHardware], depth: int) -> Points:
    """Return hardware points of as many PEs as arrays for dataflows of ``depth`` cluster levels."""

    def by_level(by_depth: tuple[int, ...]) -> list[int]:
        return [by_depth[min(at, len(by_depth) - 1)] for at in range(depth)]

    return Points(
        pes=hardware[0].pes,
        noc_bandwidth=np.array([by_level(point.noc_bandwidth) for point in hardware]),
        noc_latency=np.array([by_level(point.noc_latency) for point in hardware]),
        offchip_bandwidth=np.array([point.offchip_bandwidth for point in hardware]),
        simd_lanes=np.array([point.simd_lanes for point in hardware]),
        cycles_per_mac=np.array([point.cycles_per_mac for point in hardware]),
    )


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Cycles of one step of each valid case (rows) at each point (columns), by what takes them."""

    compute: Ints
    ingress: Ints
    egress: Ints


class InvocationTimes:
    """Times of invocations at many points; what was computed once is remembered."""

    def __init__(self, points: Points) -> None:
        """Take the points; nothing is computed yet."""
        self.points = points
        self._runtimes: dict[int, Ints] = {}
        self._active: dict[int, float] = {}
        self._steps: dict[int, StepTimes] = {}
        self._kept: list[Invocation] = []

    def runtime(self, one: Invocation) -> Ints:
        """Return the cycles of an invocation at each point."""
        if id(one) not in self._runtimes:
            self._kept.append(one)  # so that no other gets its identity
            self._runtimes[id(one)] = (
                one.valid_values(one.costs.occurrences)[:, None] * self.delays(one)
            ).sum(axis=0)
        return self._runtimes[id(one)]

    def delays(self, one: Invocation) -> Ints:
        """Return the cycles of a step of each valid case (rows) at each point (columns)."""
        step = self.steps(one)
        is_start = one.starts[:, None]
        start = step.compute + step.ingress + step.egress
        steady = np.maximum(step.compute, np.maximum(step.ingress, step.egress))
        return np.where(is_start, start, steady)

    def steps(self, one: Invocation) -> StepTimes:
        """Return what takes time in a step of each valid case."""
        if id(one) not in self._steps:
            self._kept.append(one)
            self._steps[id(one)] = StepTimes(
                compute=self._compute(one),
                ingress=self.transfer(one, one.valid_values(one.costs.arriving)),
                egress=self.transfer(one, one.valid_values(one.costs.leaving)),
            )
        return self._steps[id(one)]

    def active_pes(self, one: Invocation) -> float:
        """Return the PEs that work, on average over the steps (not their lengths)."""
        if id(one) not in self._active:
            self._kept.append(one)
            active = np.zeros(len(one.cases))
            for share in one.shares:
                inner = np.array([self.active_pes(inside) for inside in share.invocations] or [0.0])
                active = active + inner[share.at] * share.units
            active = np.where(active == 0, one.valid_values(one.costs.active), active)
            weights = one.valid_values(one.costs.occurrences)
            self._active[id(one)] = float((active * weights).sum() / max(one.total, 1))
        return self._active[id(one)]

    def _compute(self, one: Invocation) -> Ints:
        if not one.shares:
            critical = one.valid_values(one.costs.critical)[:, None]
            return -(-critical * self.points.cycles_per_mac // self.points.simd_lanes)
        found = np.zeros((len(one.cases), self.points.count), dtype=np.int64)
        for share in one.shares:
            if share.invocations:
                inner = np.array([self.runtime(inside) for inside in share.invocations])
                has: Bools = (share.units > 0)[:, None]
                found = np.maximum(found, np.where(has, inner[share.at], 0))
        return found

    def transfer(self, one: Invocation, elements: Ints) -> Ints:
        """Return the cycles of elements through the NoC of a level: a pipe of its bandwidth."""
        bandwidth = self.points.noc_bandwidth[:, one.depth]
        latency = self.points.noc_latency[:, one.depth]
        volume = elements[:, None]
        return np.where(volume > 0, latency - (-volume // bandwidth) - 1, 0)


CAUSES: Final = ("compute", "ingress", "egress", "first fill")
"""What a step waits for: the sub-clusters, data from above, data to above; the first fill and
the last drain of an invocation, which nothing hides."""


@dataclass(frozen=True, kw_only=True)
class LevelLimits:
    """A cluster level at one hardware point.

    ``invocations``: how often it starts on the longest path; ``cycles`` of all of them, by cause.
    ``peak_bandwidth`` and ``mean_bandwidth``: elements per cycle that would hide its transfers.
    """

    units: int
    invocations: int
    cycles: dict[str, int]
    peak_bandwidth: int
    mean_bandwidth: float

    @property
    def cause(self) -> str:
        """The cause of most of its cycles."""
        return max(CAUSES, key=lambda cause: self.cycles[cause])


def limits_of(top: Invocation, times: InvocationTimes, point: int = 0) -> list[LevelLimits]:
    """Return the levels from the outermost, each of the longest of several sub-clusters."""
    weights: dict[int, int] = defaultdict(int)
    waiting: list[dict[int, Invocation]] = [{id(top): top}]
    weights[id(top)] = 1
    limits = []
    while waiting[-1]:
        level = waiting[-1]
        limits.append(_level(list(level.values()), weights, times, point))
        waiting.append({})
        for invocation in level.values():
            for inner, count in _longest(invocation, times, point):
                weights[id(inner)] += count * weights[id(invocation)]
                waiting[-1][id(inner)] = inner
    return limits


def _level(
    invocations: list[Invocation], weights: dict[int, int], times: InvocationTimes, point: int
) -> LevelLimits:
    cycles = dict.fromkeys(CAUSES, 0)
    peak, total, steps = 0, 0.0, 0
    for invocation in invocations:
        weight, step = weights[id(invocation)], times.steps(invocation)
        parts = [part[:, point] for part in (step.compute, step.ingress, step.egress)]
        counts = invocation.valid_values(invocation.costs.occurrences) * weight
        is_start = invocation.starts
        longest = np.argmax(np.array(parts), axis=0)
        delays = times.delays(invocation)[:, point]
        hidden = np.where(is_start, parts[0], delays)
        for at, cause in enumerate(CAUSES[:3]):
            is_longest = is_start if at == 0 else np.zeros_like(is_start)
            cycles[cause] += int(
                (counts * hidden * (is_longest | (~is_start & (longest == at)))).sum()
            )
        cycles[CAUSES[3]] += int((counts * (delays - hidden)).sum())
        needed = np.maximum(
            invocation.valid_values(invocation.costs.arriving),
            invocation.valid_values(invocation.costs.leaving),
        )
        compute = np.maximum(parts[0], 1)
        peak = max(peak, int((needed // compute).max(initial=0)))
        total += float((counts * needed / compute).sum())
        steps += int(counts.sum())
    return LevelLimits(
        units=int(max(invocation.costs.active.max() for invocation in invocations)),
        invocations=sum(weights[id(invocation)] for invocation in invocations),
        cycles=cycles,
        peak_bandwidth=peak,
        mean_bandwidth=total / max(steps, 1),
    )


def _longest(
    invocation: Invocation, times: InvocationTimes, point: int
) -> list[tuple[Invocation, int]]:
    """Return the longest invocation inside each case, with its number of occurrences."""
    if not invocation.shares:
        return []
    counts = invocation.valid_values(invocation.costs.occurrences)
    cycles = np.full((len(invocation.shares), len(invocation.cases)), -1)
    for row, share in enumerate(invocation.shares):
        if share.invocations:
            runtimes = np.array([times.runtime(each)[point] for each in share.invocations])
            cycles[row] = np.where(share.units > 0, runtimes[share.at], -1)
    chosen = np.argmax(cycles, axis=0)
    inner_invocations: list[tuple[Invocation, int]] = []
    for row, share in enumerate(invocation.shares):
        for at, inner in enumerate(share.invocations):
            count = int((counts * ((chosen == row) & (share.at == at) & (share.units > 0))).sum())
            if count:
                inner_invocations.append((inner, count))
    return inner_invocations
