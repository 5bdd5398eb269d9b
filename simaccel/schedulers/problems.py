"""What there is to schedule: a workload's operators as GEMMs, softmaxes and attentions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from simaccel.hardware import Accelerator
from simaccel.mapping.choices import Group, Mapping, WorkloadReference
from simaccel.mapspace.search import Each, Effort, Watch
from simaccel.workload import Einsum, Operator, Vector, Workload, as_matmul


def unwatched(_done: float, _note: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Options:
    """What a user may ask of a scheduler.

    ``pipeline``: overlap the softmax of one row block with L of the next (two slots). Of spatial
    arrays: ``effort`` and ``constraints`` (as on the command line) of a search, ``each`` that may
    run its blocks in other processes, and ``watch`` that is told how it stands.
    """

    pipeline: bool = False
    effort: Effort = field(default_factory=Effort)
    constraints: tuple[str, ...] = ()
    each: Each = map
    watch: Watch = unwatched


Scheduler = Callable[[Workload, Accelerator, Options], Mapping]

Part = str | tuple[str, str, str]
"""An operator, or L, softmax and A of an attention."""


def parts(workload: Workload) -> list[Part]:
    """Cut a workload into operators and attentions, in order."""
    found: list[Part] = []
    operators = list(workload.operators)
    at = 0
    while at < len(operators):
        three = operators[at : at + 3]
        if _is_attention(three):
            found.append((three[0].name, three[1].name, three[2].name))
            at += 3
        else:
            found.append(operators[at].name)
            at += 1
    return found


def _is_attention(three: list[Operator]) -> bool:
    if len(three) < 3:  # noqa: PLR2004 - L, softmax, A
        return False
    logit, softmax, attend = three
    return (
        isinstance(logit, Einsum)
        and isinstance(softmax, Vector)
        and isinstance(attend, Einsum)
        and softmax.input.tensor == logit.output.tensor
        and attend.inputs[0].tensor == softmax.output.tensor
        and as_matmul(logit).g == as_matmul(attend).g
    )


def heads_per_sample(workload: Workload, logit: str) -> int:
    """Heads of one sample: the sizes of all batch ranks of L but the first."""
    operator = workload.operator(logit)
    if not isinstance(operator, Einsum):
        return 1
    matmul = as_matmul(operator)
    return math.prod(operator.ranks[rank] for rank in matmul.g_ranks[1:])


def mapping_of(workload: Workload, dataflow: str, groups: list[Group]) -> Mapping:
    """Put a mapping together."""
    reference = WorkloadReference(name=workload.name, fingerprint=workload.fingerprint)
    return Mapping(workload=reference, dataflow=dataflow, groups=tuple(groups))
