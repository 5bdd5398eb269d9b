"""The goal of a search: an objective on an accelerator, and what candidates and stopping obey."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simaccel.analytic.family import Family, ints
from simaccel.hardware import STATIONARITIES, Accelerator, Stationarity
from simaccel.mapping.tree import Group
from simaccel.search.accounts import OnAccount, OnLosses, floor_of_group, ignore
from simaccel.search.candidate_set import CandidateSet, capacity
from simaccel.search.effort import EFFORT, Objective
from simaccel.search.judge import Judge
from simaccel.search.near_ties import decides
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
    """Of the buffer, for what is kept around what is searched."""
    part: float = 0.0
    """Of the objective, what a part of a whole workload takes on average; 0 if it is the whole."""
    parts: int = 1
    """Parts of the workload, each counted once however often it runs."""
    tolerance: float = 0.0
    """Of the best objective, what is given up for what else matters (`near_ties`), relative."""
    origins: dict[object, Any] = field(default_factory=dict)
    """Candidates that groups of the goal were chosen from, and the bytes held beside them."""
    on_losses: OnLosses = ignore
    """Told what the whole workload gives up."""
    start: Mapping[str, int] | None = None
    """Innermost tiles by rank that are likely good: candidates that have them run first."""
    is_spread: bool = True
    """Whether cores have pieces of what is searched, if there are several."""

    @classmethod
    def from_options(cls, accelerator: Accelerator, options: Options, workload: Workload) -> Goal:
        """Return the goal of a user's options for a workload.

        Raises:
            InputError: constraints that no tree of a systolic array has.

        """
        count = len(parts(workload))
        return cls(
            Judge(accelerator, options.each),
            options.objective,
            options.stationarity,
            TreeConstraints.from_texts(
                options.constraints, options.spread, accelerator.cores.count
            ),
            options.patience,
            options.end_time(),
            options.on_account,
            part=0.0 if options.patience else _part(workload, accelerator, options.objective),
            parts=count,
            tolerance=options.tolerance,
            on_losses=options.on_losses,
        )

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that mappings are for."""
        return self.judge.accelerator

    def grid(self, group: Group, families: Sequence[Family]) -> CandidateSet:
        """Return the candidates of a group's families, with the stationarity of the constraints."""
        return self.candidates(group, self._restrict_families(families))

    def extend_grid(self, grid: CandidateSet, families: Sequence[Family]) -> CandidateSet:
        """Return a grid with the candidates of more families, by the same constraints."""
        return grid.extend(self._restrict_families(families))

    def _restrict_families(self, families: Sequence[Family]) -> list[Family]:
        if self.stationarity is not None:
            which = ints(STATIONARITIES.index(self.stationarity))
            families = [
                replace(family, held=dict.fromkeys(family.held, which)) for family in families
            ]
        return [self.constraints.cut(family) for family in families]

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
        """Bytes of the buffer, less what is kept in it all along."""
        return capacity(self.accelerator) - self.held_bytes

    @property
    def slack(self) -> float:
        """Of the objective, what a search may leave: little of what a whole workload takes."""
        return EFFORT.gap * self.part

    @property
    def is_timed(self) -> bool:
        """Whether cycles have a part in the objective."""
        return self.objective in ("cycles", "edp")

    @property
    def gap(self) -> float:
        """The optimality gap; half of what is given up anyway, so that the choice is within it."""
        return max(
            EFFORT.gap, self.tolerance / 2 if decides(self.objective, self.tolerance) else 0.0
        )

    def stopping(self, grid: CandidateSet, room: int) -> StoppingRule:
        """Return when the walk through a grid ends: in small complete ones at no gap of its own."""
        if self.patience is not None:
            return StoppingRule(0.0, self.patience, gain=0.0, until=self.until, equals=self.equals)
        if grid.is_complete() and grid.fitting(room).size <= EFFORT.exact * grid.cuts:
            gap = self.gap - EFFORT.gap
            return StoppingRule(gap, float("inf"), self.slack, until=self.until)
        patience = EFFORT.patience // (1 if self.start is None else 2) // self.patience_divisor
        return StoppingRule(self.gap, patience, self.slack, self.part, self.gap / 2, self.until)

    @property
    def most_near(self) -> int:
        """Runs of neighbours after which no other family, and no smaller room, has any."""
        return EFFORT.most_near if self.gap == EFFORT.gap else EFFORT.most_near // EFFORT.less_near

    def near_stopping(self, *, loose: bool) -> StoppingRule:
        """Return when the walk through neighbours ends.

        Sooner where much is given up anyway, unless bounds are so ``loose`` that far more may be
        gained.
        """
        patience = EFFORT.near_patience // (1 if loose else self._less) // self.patience_divisor
        gain = self.gap / 2
        return StoppingRule(
            self.gap, patience, 0.0, self.part, gain=gain, until=self.until, equals=self.equals
        )

    @property
    def _less(self) -> int:
        """By what the effort near the best is divided: much is given up anyway."""
        return 1 if self.gap == EFFORT.gap else EFFORT.less_near

    @property
    def equals(self) -> int:
        """Candidates that are equal by counts alone of which the fastest is sought."""
        return EFFORT.patience if self.patience is None else min(self.patience, EFFORT.patience)

    @property
    def is_shared(self) -> bool:
        """Whether several cores are searched for together."""
        return self.is_spread and self.accelerator.cores.count > 1

    @property
    def patience_divisor(self) -> int:
        """By what patience is divided: as cores wait for one another, bounds end few walks."""
        return 2 if self.is_shared else 1


def _part(workload: Workload, accelerator: Accelerator, objective: Objective) -> float:
    """Return what a part of a workload takes on average, at least; 0 of a single one, the whole."""
    each = [one if isinstance(one, str) else one[0] for one in parts(workload)]
    if objective != "cycles" or len(each) == 1:
        return 0.0
    operators = [operator.name for operator in workload.operators]
    floor = floor_of_group(workload, operators, accelerator, objective)
    return floor / sum(workload.times(name) for name in each)
