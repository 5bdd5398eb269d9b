"""Groups of tokens by experts on several chips (expert parallelism), where the user sets none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from simaccel.hardware import Accelerator
from simaccel.schedulers import Options
from simaccel.schedulers.parallel import expert_count
from simaccel.schedulers.splits import fastest_split
from simaccel.workload import Workload
from simaccel.workload.files import parse_workload
from simaccel.workload.language.experts import EXPECTED, GROUPED


def spread_experts(
    workload: Workload, accelerator: Accelerator, options: Options | None = None
) -> Workload:
    """Return a workload with tokens in groups by experts, if chips with part of these are faster.

    It is unchanged if degrees of parallelism, or the tokens of experts, are given.
    """
    asked = options or Options()
    if {*asked.degrees} != {None} or asked.sequence_parallel:
        return workload
    return _spread_fastest(workload, accelerator, repr(workload.parameters))


@lru_cache(8)
def _spread_fastest(workload: Workload, accelerator: Accelerator, _parameters: str) -> Workload:
    """Return the same, cached; the key includes parameters, by which workloads don't differ."""
    others = [*grouped_experts(workload, accelerator.pod.count)]
    return fastest_split(workload, accelerator, *others).workload if others else workload


def grouped_experts(workload: Workload, chips: int) -> Iterator[Workload]:
    """Yield a workload with its tokens in groups for each number of chips that can share experts.

    Nothing for a part of a model, or a workload in a compiler's form.
    """
    parameters = workload.parameters
    experts = expert_count(workload) if parameters.get("experts") == EXPECTED else 0
    if not experts or parse_workload(parameters).fingerprint != workload.fingerprint:
        return
    for parts in range(2, chips + 1):
        if chips % parts == 0 and any(experts % n == 0 for n in range(2, parts + 1)):
            yield parse_workload({**parameters, "experts": f"{GROUPED}:{parts}"})
