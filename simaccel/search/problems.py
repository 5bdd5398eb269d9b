"""The problem of a scheduler: its options, and operators of a workload, alone or as attentions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.errors import Fault, InputError, SimaccelError, require_none
from simaccel.hardware import STATIONARITIES, Accelerator, ArraySpec, Stationarity
from simaccel.mapping.structure import fusion_faults
from simaccel.mapping.tree import Group, Mapping
from simaccel.search.accounts import OnAccount, OnLosses, ignore
from simaccel.search.effort import OBJECTIVES, Each, Effort, Objective, Watch, require_energies
from simaccel.workload import Einsum, Vector, Workload

WITHIN: Final = 0.01
"""Default tolerance of near-ties, relative to the best objective."""
_NO_TIME = 1e-9
"""Seconds for a search whose time is up: it takes the first mapping it finds."""


class NotMappableError(SimaccelError):
    """A dataflow can't map an operator of the workload; the message names it and the reason."""


class NothingFitsError(SimaccelError):
    """No mapping of a scheduler fits the buffer; the message says what the smallest needs."""


@dataclass(frozen=True)
class Options:
    """Options of a scheduler.

    ``pipeline``: softmax of a row block may overlap L of the next (two slots); `best` always may.
    ``objective``: the figure that a dataflow minimises. ``stationarity``: the operand that the
    array holds (None: free). ``constraints`` as on the command line. ``patience``: runs without an
    improvement after which a dataflow's search ends. ``tolerance``: of near-ties, relative to the
    best objective: the least costly mapping within it is taken (`near_ties`), and ``on_losses`` is
    called with the losses. ``each`` may run tasks in other processes. ``on_account`` is called with
    the account of each search.

    Of mapspaces: ``effort`` of a search, and ``watch``, which is called with its progress. The
    effort's budget is for the search of the whole workload, which ends at ``ends`` (seconds of the
    monotonic clock) once it has begun.

    Of transformers on several chips: the degrees ``tensor_parallel`` (chips that share a layer),
    ``data_parallel`` (groups that share a batch; None: the remaining chips) and ``expert_parallel``
    (groups that share experts), with ``copies`` groups of chips of these degrees that do the same
    (None: the degrees take all chips); with ``sequence_parallel``, norms and residuals are cut by
    tokens over the chips of a layer. ``shard_weights``, of any workload on several chips: weights
    that chips would replicate are stored once. ``spread``, on several cores: ranks to cut over
    them, such as ``n=cores:4``. ``allow_overflow``: also run what needs more memory than there is.
    """

    pipeline: bool = False
    objective: Objective = "cycles"
    stationarity: Stationarity | None = None
    effort: Effort = field(default_factory=Effort)
    constraints: tuple[str, ...] = ()
    patience: int | None = None
    tolerance: float = WITHIN
    each: Each = map
    on_account: OnAccount = ignore
    on_losses: OnLosses = ignore
    watch: Watch = ignore
    tensor_parallel: int | None = None
    data_parallel: int | None = None
    expert_parallel: int | None = None
    copies: int | None = None
    sequence_parallel: bool = False
    shard_weights: bool = False
    spread: tuple[str, ...] = ()
    ends: float | None = None
    allow_overflow: bool = False

    def __post_init__(self) -> None:
        """Refuse values that no search takes."""
        faults = []
        if self.objective not in OBJECTIVES:
            faults.append(Fault("options", "objective", self.objective, ", ".join(OBJECTIVES)))
        if self.stationarity not in (None, *STATIONARITIES):
            kinds = f"None, {', '.join(STATIONARITIES)}"
            faults.append(Fault("options", "stationarity", self.stationarity, kinds))
        if not (isinstance(self.tolerance, int | float) and 0 <= self.tolerance < 1):
            faults.append(Fault("options", "tolerance", self.tolerance, "0 to less than 1"))
        require_none(faults)

    @property
    def degrees(self) -> tuple[int | None, int | None, int | None]:
        """Degrees of tensor, data and expert parallelism; None for those not given."""
        return self.tensor_parallel, self.data_parallel, self.expert_parallel

    @property
    def has_degrees(self) -> bool:
        """Whether a degree of parallelism is given."""
        return {*self.degrees} != {None}

    def with_degrees(
        self, tensor: int | None = None, data: int | None = None, expert: int | None = None
    ) -> Options:
        """Return options with other degrees, or without any."""
        plain = replace(self, tensor_parallel=tensor, data_parallel=data, expert_parallel=expert)
        return replace(plain, copies=None)

    def without_callbacks(self) -> Options:
        """Return options that call nobody and start no process, as a task takes them along."""
        return replace(self, each=map, on_account=ignore, on_losses=ignore, watch=ignore)

    def end_time(self) -> float | None:
        """Return when a search that continues now has to end, in seconds of the monotonic clock."""
        budget = self.effort.budget_seconds
        if budget is None or self.ends is not None:
            return self.ends
        return time.monotonic() + budget

    def share(self, searches: int) -> Options:
        """Return the options of one of ``searches`` searches with its part of the time left."""
        until = self.end_time()
        if until is None:
            return self
        now = time.monotonic()
        seconds = max(until - now, _NO_TIME) / searches
        effort = replace(self.effort, budget_seconds=seconds)
        return replace(self, effort=effort, ends=now + seconds)


def settle_options(options: Options, accelerator: Accelerator) -> Options:
    """Return options with the accelerator's defaults for those not given.

    These are the stationarity of its array and, if its energies are unknown, cycles as the
    objective of mapspaces. A time budget begins now.

    Raises:
        InputError: an objective that needs energies which the accelerator doesn't have, or a
            stationarity that its array doesn't have.
    """
    effort, array = options.effort, accelerator.array
    require_energies(accelerator, options.objective)
    if effort.objective is None:
        effort = replace(effort, objective="cycles" if accelerator.unknown_energies else effort.aim)
    require_energies(accelerator, effort.aim)
    held = options.stationarity
    if isinstance(array, ArraySpec) and array.stationarity != "free":
        if held not in (None, array.stationarity):
            allowed = f"{array.stationarity}, its array.stationarity; --set array.stationarity=free"
            allowed += " changes the array"
            raise InputError([Fault("--stationarity", accelerator.name, held, allowed)])
        held = array.stationarity
    return replace(options, effort=effort, stationarity=held, ends=options.end_time())


Scheduler = Callable[[Workload, Accelerator, Options], Mapping]
Attention = tuple[str, str, str]
"""Names of L, softmax and A."""


def attention_of(workload: Workload, names: Sequence[str]) -> Attention | None:
    """Return operators as an attention if they form one that keeps its intermediates to itself."""
    if len(names) != 3:  # noqa: PLR2004 - L, softmax, A
        return None
    logit, softmax, attend = map(workload.operator, names)
    between = logit.output.tensor, softmax.output.tensor
    are_one = (
        isinstance(logit, Einsum)
        and len(logit.inputs) == 2  # noqa: PLR2004 - Q and K
        and isinstance(softmax, Vector)
        and softmax.kind == "softmax"
        and isinstance(attend, Einsum)
        and softmax.input.tensor == between[0]
        and attend.inputs[0].tensor == between[1]
        and softmax.axis not in attend.output.ranks
        and all(_is_inside(workload, name) for name in between)
        and not fusion_faults(workload, Group(operators=tuple(names), tree=()))
    )
    return (logit.name, softmax.name, attend.name) if are_one else None


def parts(workload: Workload) -> list[str | Attention]:
    """Return the operators in order, those of an attention together."""
    problems: list[str | Attention] = []
    names = [operator.name for operator in workload.operators]
    while names:
        three = attention_of(workload, names[:3])
        problems.append(three or names[0])
        names = names[len(three or names[:1]) :]
    return problems


def _is_inside(workload: Workload, tensor: str) -> bool:
    """Return whether one operator alone reads a tensor, which is no output."""
    reads = [given for one in workload.operators for given in one.inputs]
    alone = [given.tensor for given in reads].count(tensor) == 1
    return alone and workload.tensors[tensor].kind == "intermediate"


def heads_per_sample(workload: Workload, merged: Sequence[str], logit: str) -> int:
    """Return the heads of one sample: the product of all merged ranks but the first."""
    ranks = workload.operator(logit).ranks
    return math.prod(ranks.get(rank, 1) for rank in tuple(merged)[1:])
