"""The facts of a verdict on stalls: bounds, waits, gains of freed resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from simaccel.diagnosis.stalls import TOTAL, OperatorDiagnosis
from simaccel.diagnosis.what_if import FreedRun, WhatIfResult
from simaccel.hardware import Accelerator
from simaccel.hardware.resources import limits_of

BOUND = 0.9
"""An engine that is busy for this part of the cycles bounds them."""
WORTH_SAYING = 0.05
"""A smaller part of the cycles is not worth a sentence."""


@dataclass(frozen=True)
class VerdictFigures:
    """The figures behind a verdict on a part of a run.

    ``accelerator``: None: bandwidths are not judged. ``gains``: speedup of the part for each set of
    freed resources. ``operators``: the operators of a whole run. ``loading_cycles``: those in which
    the array only shifts operands in or sums out. ``ideal_cycles``: of the MACs, if all PEs were
    busy; 0: unknown.
    """

    part: OperatorDiagnosis
    accelerator: Accelerator | None = None
    gains: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    operators: tuple[OperatorDiagnosis, ...] = ()
    loading_cycles: int = 0
    ideal_cycles: float = 0.0

    @property
    def engine(self) -> str:
        """The compute engine, which the sentences are about."""
        return self.part.compute

    @property
    def lost(self) -> Counter[str]:
        """Cycles that the compute engine waits, by cause; of a run, summed over its operators."""
        found: Counter[str] = Counter()
        for part in self.operators or (self.part,):
            found.update(dict(part.stalls(part.compute)))
        return found

    @property
    def cycles(self) -> int:
        """Cycles of the part; of a run those of its operators, which may run at once."""
        return sum(part.cycles for part in self.operators) or self.part.cycles

    def share(self, cause: str) -> float:
        """Return the cycles lost to a cause as a fraction of all cycles."""
        return self.lost[cause] / self.cycles if self.cycles else 0.0


def worst_causes(scene: VerdictFigures) -> list[str]:
    """Return the one or two causes for which the compute engine waits longest."""
    largest = sorted(scene.lost.items(), key=lambda one: (-one[1], one[0]))[:2]
    return [cause for cause, n in largest if n >= WORTH_SAYING * scene.cycles]


def is_bound(part: OperatorDiagnosis) -> bool:
    """Return whether the compute engine of a part is busy nearly all of the time."""
    return part.share(part.compute, "busy") >= BOUND


@dataclass(frozen=True)
class BandwidthUse:
    """Use of a bandwidth by a part, in bytes per second."""

    used: float
    limit: float

    @property
    def share(self) -> float:
        """The fraction of the bandwidth that is used."""
        return self.used / self.limit


def use_of(scene: VerdictFigures, resource: str) -> BandwidthUse | None:
    """Return the use of the bandwidth of a resource, over all its channels where it is busy.

    None where bytes or bandwidth are unknown or unlimited, and of the DRAM if a class of tensors
    has a memory of its own, which bytes by level don't distinguish.
    """
    accelerator, part = scene.accelerator, scene.part
    is_dram = resource == "dram"
    channels = {resource, "dram_read", "dram_write"} if is_dram else {resource}
    if accelerator is None or not part.cycles or not channels & part.moved.keys():
        return None
    busy = (name for name, causes in part.engines.items() if causes.get("busy"))
    limit = limits_of(accelerator, busy)[resource]
    if limit is None or (is_dram and accelerator.memories.by_class()):
        return None
    n_bytes = sum(sum(part.moved.get(channel, {}).values()) for channel in channels)
    used = n_bytes / accelerator.seconds(part.cycles)
    return BandwidthUse(used, float(limit) * accelerator.clock_hz)


def cycles_of(run: FreedRun, operator: str) -> int | None:
    """Return the cycles of an operator, or of the whole run."""
    return run.cycles if operator == TOTAL else run.operators.get(operator)


def speedup(what_if: WhatIfResult | None, freed: FreedRun, operator: str) -> float | None:
    """Return the speedup of a part with resources freed; None without cycles of either run."""
    before = cycles_of(what_if.base, operator) if what_if else None
    after = cycles_of(freed, operator)
    return before / after if before and after else None
