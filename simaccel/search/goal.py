"""The goal of a search: its objective on an accelerator, its constraints, and when it stops."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simaccel.analytic.family import Family, ints
from simaccel.hardware import STATIONARITIES, Accelerator, Stationarity
from simaccel.mapping.tree import Group
from simaccel.search.accounts import OnAccount, OnLosses, floor_of_group, ignore
from simaccel.search.candidate_set import CandidateSet, capacity
from simaccel.search.effort import EFFORT, Each, Objective, has_near_ties
from simaccel.search.judge import Judge
from simaccel.search.problems import Options, parts
from simaccel.search.tree_constraints import NOTHING, TreeConstraints
from simaccel.search.walk import StoppingRule
from simaccel.workload import Workload


@dataclass(frozen=True)
class Goal:
    """The objective of a search, its accelerator, its constraints, and when it may stop.

    ``judge`` runs mappings on the accelerator. ``stationarity``: the operand that the array holds
    (None: free). ``constraints``: the user's on the trees. ``patience``: runs without a gain after
    which a search ends, instead of at the optimality gap. ``until``: the monotonic time in seconds
    at which it ends in any case. ``on_account`` is called with the account of each search.
    """

    judge: Judge
    objective: Objective = "cycles"
    stationarity: Stationarity | None = None
    constraints: TreeConstraints = NOTHING
    patience: int | None = None
    until: float | None = None
    on_account: OnAccount = ignore
    held_bytes: int = 0
    """Bytes of the buffer that hold tensors around what is searched."""
    part: float = 0.0
    """Objective that a part of the workload has on average, at least; 0 for a workload of one part.
    """
    parts: int = 1
    """Parts of the workload, each counted once however often it runs."""
    tolerance: float = 0.0
    """Share of the best objective that a near-tie may be worse (`near_ties`)."""
    origins: dict[object, Any] = field(default_factory=dict)
    """The searches that chose each group, and the bytes held beside them."""
    on_losses: OnLosses = ignore
    """Called with the losses of the whole workload by its choice of a near-tie."""
    each: Each = map
    """Runs searches of groups, perhaps in other processes."""
    is_spread: bool = True
    """Whether the search may cut groups over several cores, if there are any."""
    is_proof: bool = False
    """Whether all tile sizes of an einsum are searched, for a proof that none is faster."""

    @classmethod
    def from_options(cls, accelerator: Accelerator, options: Options, workload: Workload) -> Goal:
        """Return the goal that a user's options set for a workload.

        Raises:
            InputError: constraints that no tree of a systolic array has.
        """
        count = len(parts(workload))
        return cls(
            Judge.from_workload(accelerator, workload),
            options.objective,
            options.stationarity,
            TreeConstraints.from_texts(options.constraints, options.spread, accelerator.cores.count)
            if options.constraints or options.spread
            else TreeConstraints(),
            options.patience,
            options.end_time(),
            options.on_account,
            part=0.0 if options.patience else _part(workload, accelerator, options.objective),
            parts=count,
            tolerance=options.tolerance,
            on_losses=options.on_losses,
            each=options.each,
            is_proof=len(workload.operators) == 1
            and options.objective == "cycles"
            and not (options.tolerance or options.patience or options.constraints),
        )

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that mappings are for."""
        return self.judge.accelerator

    def grid(self, group: Group, families: Sequence[Family]) -> CandidateSet:
        """Return the candidates of a group's families that satisfy stationarity and constraints."""
        if self.stationarity is not None:
            which = ints(STATIONARITIES.index(self.stationarity))
            families = [
                replace(family, held=dict.fromkeys(family.held, which)) for family in families
            ]
        return self.candidates(group, [self.constraints.cut(family) for family in families])

    def candidates(self, group: Group, families: Sequence[Family]) -> CandidateSet:
        """Return the candidates of families that meet the user's constraints."""
        allows = self.constraints.allows if self.constraints else None
        return CandidateSet(group, families, self.judge, self.objective, allows, self.tolerance)

    @property
    def is_over(self) -> bool:
        """Whether the time of the search is used up."""
        return self.until is not None and time.monotonic() >= self.until

    @property
    def room(self) -> int:
        """Bytes of the buffer that are free for the search."""
        return capacity(self.accelerator) - self.held_bytes

    @property
    def slack(self) -> float:
        """Gap that a search may leave, in units of the objective, whatever the part takes."""
        return self.gap * self.part * EFFORT.part_gap

    @property
    def is_timed(self) -> bool:
        """Whether the objective depends on cycles."""
        return self.objective in ("cycles", "edp")

    @property
    def gap(self) -> float:
        """The optimality gap; half the tolerance of near-ties if that is larger."""
        return max(
            EFFORT.gap, self.tolerance / 2 if has_near_ties(self.objective, self.tolerance) else 0.0
        )

    def stopping(self, grid: CandidateSet, room: int) -> StoppingRule:
        """Return when the search of a grid ends; small complete grids have no gap of their own."""
        if self.patience is not None:
            return StoppingRule(0.0, self.patience, gain=0.0, until=self.until, equals=self.equals)
        if grid.is_complete() and grid.fitting(room).size <= EFFORT.exact * grid.cuts:
            gap = self.gap - EFFORT.gap
            return StoppingRule(gap, float("inf"), self.slack, until=self.until)
        patience = EFFORT.patience // self.patience_divisor
        return StoppingRule(self.gap, patience, self.slack, self.part, self.gap / 2, self.until)

    def near_stopping(self, *, loose: bool) -> StoppingRule:
        """Return when the search of neighbours ends.

        It ends earlier if the tolerance is large anyway, unless bounds are so ``loose`` that far
        more may be gained.
        """
        less = 1 if loose or self.gap == EFFORT.gap else EFFORT.less_near
        patience = EFFORT.near_patience // less // self.patience_divisor
        gain = self.gap / 2
        return StoppingRule(
            self.gap, patience, 0.0, self.part, gain=gain, until=self.until, equals=self.equals
        )

    @property
    def equals(self) -> int:
        """Most candidates with equal counts that run to find the fastest of them."""
        return EFFORT.patience if self.patience is None else min(self.patience, EFFORT.patience)

    @property
    def is_shared(self) -> bool:
        """Whether several cores are searched for together."""
        return self.is_spread and self.accelerator.cores.count > 1

    @property
    def patience_divisor(self) -> int:
        """Divisor of patience: bounds are loose for several cores, so searches stop earlier."""
        return 2 if self.is_shared else 1


def _part(workload: Workload, accelerator: Accelerator, objective: Objective) -> float:
    """Return a lower bound of a part's average share of the workload; 0 if there is one part."""
    each = [one if isinstance(one, str) else one[0] for one in parts(workload)]
    if objective != "cycles" or len(each) == 1:
        return 0.0
    operators = [operator.name for operator in workload.operators]
    floor = floor_of_group(workload, operators, accelerator, objective)
    return floor / sum(workload.times(name) for name in each)
