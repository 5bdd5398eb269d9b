"""The limit of each cluster level: the cycles of its steps by their longest part."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from simaccel.papers.maestro.analysis.invocations import Invocation
from simaccel.papers.maestro.analysis.times import InvocationTimes

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
