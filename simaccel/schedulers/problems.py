"""What there is to schedule: a workload's operators, alone or as attentions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simaccel.hardware import Accelerator, Stationarity
from simaccel.mapping.tree import Mapping
from simaccel.mapspace.costs import Objective
from simaccel.mapspace.search import Each, Effort, Watch
from simaccel.schedulers.accounts import Note, unnoted
from simaccel.workload import Einsum, Vector, Workload


def unwatched(_done: float, _note: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Options:
    """What a user may ask of a scheduler.

    ``pipeline``: allow the softmax of one row block to overlap L of the next (two slots).
    ``objective``: what a dataflow makes small. ``stationarity``: what the array holds (None: free).
    ``constraints`` as on the command line; ``patience``: runs without an improvement after which a
    dataflow's search ends; ``tolerance``: of all mappings within it of the best (relative) the one
    with least energy, bytes and footprint is taken; ``each`` may run pieces of work in other
    processes; ``note`` is handed the account of each search.
    Of mapspaces: ``effort`` of a search, and ``watch`` that is told how it stands.
    """

    pipeline: bool = False
    objective: Objective = "cycles"
    stationarity: Stationarity | None = None
    effort: Effort = field(default_factory=Effort)
    constraints: tuple[str, ...] = ()
    patience: int | None = None
    tolerance: float = 0.0
    each: Each = map
    note: Note = unnoted
    watch: Watch = unwatched


Scheduler = Callable[[Workload, Accelerator, Options], Mapping]
Attention = tuple[str, str, str]
"""L, softmax and A."""


def attention_of(workload: Workload, names: Sequence[str]) -> Attention | None:
    """Return operators as an attention, if they are one."""
    operators = [workload.operator(name) for name in names]
    if len(operators) == 3 and _is_attention(operators):  # noqa: PLR2004 - L, softmax, A
        return operators[0].name, operators[1].name, operators[2].name
    return None


def parts(workload: Workload) -> list[str | Attention]:
    """Return the operators in order, those of an attention together."""
    found: list[str | Attention] = []
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


def _is_attention(three: Sequence[Einsum | Vector]) -> bool:
    if len(three) < 3:  # noqa: PLR2004 - L, softmax, A
        return False
    logit, softmax, attend = three
    return (
        isinstance(logit, Einsum)
        and len(logit.inputs) == 2  # noqa: PLR2004 - Q and K
        and isinstance(softmax, Vector)
        and softmax.kind == "softmax"
        and isinstance(attend, Einsum)
        and softmax.input.tensor == logit.output.tensor
        and attend.inputs[0].tensor == softmax.output.tensor
        and softmax.axis not in attend.output.ranks
    )


def heads_per_sample(workload: Workload, merged: Sequence[str], logit: str) -> int:
    """Return the heads of one sample: the sizes of all merged ranks but the first."""
    ranks = workload.operator(logit).ranks
    return math.prod(ranks.get(rank, 1) for rank in tuple(merged)[1:])
