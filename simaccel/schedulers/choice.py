"""The choice of a mapping by dynamic programming, for all dataflows.

A dataflow's steps (`generators`) say how runs of consecutive operators can be mapped. The cheapest
path of steps through the workload follows by dynamic programming (`schedule_steps`). Several paths
then compete by a run of the whole on the machine: the cheapest by the sum of its steps and those
with a single kind of attention, each also with tensors held between groups. A step is searched only
if a lower bound says that the workload could gain from it. Where holding gains by bounds and
nothing else is fused, groups are searched beside held tensors alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

from simaccel.dataflows import DATAFLOWS
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Mapping
from simaccel.schedulers.concurrent_groups import parallelise_groups
from simaccel.schedulers.generators import STAGED, attention_kinds, steps_of
from simaccel.schedulers.group_search import GroupSearch
from simaccel.schedulers.naive import fixed_search
from simaccel.schedulers.near_tie_choice import cheapest_near_tie, choose
from simaccel.schedulers.residency import (
    bound_beside_held,
    fusion_depends_on_residency,
    hold_between,
)
from simaccel.schedulers.schedule_steps import (
    SHARED_ROWS,
    ScheduleStep,
    body_of,
    cheapest,
    cheapest_searched,
    least_work,
    value_of,
)
from simaccel.schedulers.sequences import additive_value, measure_all, measure_groups, unique
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import SearchAccount, floor_of_group, merge_accounts
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.judge import Body, mapping_of
from simaccel.search.problems import Options, Scheduler, parts
from simaccel.workload import Workload

_UNFUSED: Final = ("alone", STAGED)
"""Kinds of steps that map operators one by one."""


def schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, name: str
) -> Mapping:
    """Schedule a workload by a dataflow.

    Raises:
        InputError: constraints that the dataflow has no room for.
        NotMappableError: the array can't do an operator.
        NothingFitsError: no tiling of an operator fits the buffer.
    """
    family = name.partition("-")[0]
    options = replace(options, pipeline=options.pipeline or name == "best")
    goal = Goal.from_options(accelerator, options, workload)
    search = fixed_search(goal, options) if family == "naive" else TreeSearch(goal)
    choice = _MappingChoice(workload, search, options, name)
    several = len(workload.operators) > 1  # else there is nothing to hold between operators
    may_hold = family == "best" or accelerator.compiler.resident
    holds = several and family != "naive" and may_hold
    held = choice.bodies_with_held_tensors() if holds else []
    bodies = held or choice.bodies()
    if goal.constraints:
        goal.constraints.require_met()
    choice.report_accounts()
    if holds and not held:
        held = [each for body in bodies for each in hold_between(workload, body, search)]
        bodies = unique([*held, *bodies])
    best = bodies[0] if family == "naive" else choose(workload, bodies, search)
    if goal.is_shared and family != "naive":
        apart = choice.map_unfused() if family == "best" else []
        best = parallelise_groups(workload, unique([best, *bodies[:1], *apart]), search)
    for results in (search.results, goal.origins):  # in cycles, which Python finds late, and slowly
        results.clear()
    return mapping_of(workload, name, best)


@dataclass
class _MappingChoice:
    """Mappings of a workload by paths of a dataflow's steps.

    ``below``: cycles of a mapping of the whole workload, which others have to be able to beat.
    """

    workload: Workload
    search: TreeSearch
    options: Options
    name: str
    below: float = float("inf")

    def __post_init__(self) -> None:
        """Make the steps."""
        self.steps = steps_of(self.workload, self.search.quiet(), self.options, self.name)
        self.searched: list[ScheduleStep] = []

    def bodies_with_held_tensors(self) -> list[Body]:
        """Return mappings with tensors held between groups, if these beat all without.

        They do if they take less than the bounds of the cheapest path of steps. Then nothing is
        searched as it would be without held tensors. There are none where bounds differ by little,
        where operators can be mapped together in other ways than with their epilogues, or where
        several cores share the work.
        """
        goal, path = self.search.goal, cheapest(self.steps, len(self.workload.operators))
        apart = value_of(path, sum) or float("inf")
        kinds = {step.kind for step in self.steps if step.value < float("inf")}
        is_free = goal.until is None and not goal.is_shared and goal.objective != "footprint"
        if not is_free or apart == float("inf") or kinds - {"alone", "epilogue"}:
            return []
        searches = (step.candidates for step in path)
        groups = tuple(search.group for search in searches if isinstance(search, GroupSearch))
        bound = bound_beside_held(self.workload, groups, self.search)
        if bound * (1 + EFFORT.held_gain) >= apart:
            return []
        bodies = hold_between(self.workload, groups, self.search)
        measured = measure_all(self.workload, bodies, goal).values()
        best = additive_value(min(figures.value for figures in measured), goal)
        return bodies if best < apart else []

    def bodies(self) -> list[Body]:
        """Return mappings of the whole workload, the best by the sum of its parts first.

        Raises:
            SimaccelError: there is none.
        """
        goal, bodies = self.search.goal, list[Body]()
        plain = [step for step in self.steps if step.kind != SHARED_ROWS]
        fuses = len(plain) < len(self.steps)
        if fuses and goal.objective == "cycles" and not goal.is_shared:
            with suppress(SimaccelError):  # some operator doesn't fit alone
                bodies = self._best_bodies(plain)
                self.below = self._value_to_beat(bodies[0])
        if not bodies or (fuses and self._can_gain(self.steps)):
            bodies = [*self._best_bodies(self.steps), *bodies]
        return bodies if goal.is_over else unique([*bodies, *self._bodies_of_kinds(bodies[0])])

    def map_unfused(self) -> list[Body]:
        """Return the mapping with all operators one by one, if there is one."""
        return self._try_steps([step for step in self.steps if step.kind.startswith(_UNFUSED)])

    def report_accounts(self) -> None:
        """Report the account of each search, merging those of the same operators."""
        spans: dict[tuple[int, int, str], list[SearchAccount]] = {}
        known: set[int] = set()
        for step in sorted(self.searched, key=lambda step: (step.start, step.stop)):
            if step.account and id(step.account) not in known:
                span = step.start, step.stop, step.account.name
                spans.setdefault(span, []).append(step.account)
                known.add(id(step.account))
        for (*_, name), new in spans.items():
            merged = merge_accounts(name, new) if len(new) > 1 else new[0]
            floor = max(account.floor for account in new)
            self.search.goal.on_account(replace(merged, floor=floor))

    def _best_bodies(self, steps: Sequence[ScheduleStep]) -> list[Body]:
        """Return the cheapest path of steps, and its least costly near-tie."""
        path = self._cheapest(steps)
        goal = self.search.goal
        is_alone = len(path) == len(self.steps)  # no other path
        if is_alone or goal.objective != "cycles" or not goal.tolerance or goal.is_over:
            return [body_of(path)]
        return [body_of(path), body_of(cheapest_near_tie(self.steps, path, self.search))]

    def _cheapest(self, steps: Sequence[ScheduleStep]) -> list[ScheduleStep]:
        """Return the cheapest path of steps, all of them searched.

        Raises:
            SimaccelError: there is none.
        """
        goal, count = self.search.goal, len(self.workload.operators)
        left = goal.slack * len(parts(self.workload))
        path = cheapest_searched(steps, count, goal, left, lambda step: self._can_gain([], step))
        refused = next((step.refused for step in path or steps if step.refused), None)
        if refused is not None:
            raise refused
        self.searched += [step for step in steps if step.account]
        return path

    def _can_gain(self, steps: Sequence[ScheduleStep], through: ScheduleStep | None = None) -> bool:
        """Return whether a path of steps, or one over a step, may beat the known mapping by enough.

        Array and SFU have their work, whatever stays on chip, and DRAM has what must cross it.
        """
        if self.below == float("inf"):
            return True
        work = least_work(steps or self.steps, len(self.workload.operators), through)
        return max(self._floor, work) < self.below

    @cached_property
    def _floor(self) -> float:
        """Lower bound of the objective of any mapping of the workload."""
        goal, names = self.search.goal, [one.name for one in self.workload.operators]
        return floor_of_group(self.workload, names, goal.accelerator, goal.objective)

    def _value_to_beat(self, body: Body) -> float:
        """Return the objective below which another mapping is worth a search."""
        goal, held = self.search.goal, hold_between(self.workload, body, self.search)
        return (1 - goal.gap) * min(
            measure_groups(self.workload, each, goal).value for each in unique([body, *held])
        )

    def _bodies_of_kinds(self, first: Body) -> list[Body]:
        """Return the mappings with attentions of one kind each, which may beat the best by parts.

        What can be held beside an attention, or run beside it, differs from kind to kind.
        """
        goal, bodies = self.search.goal, list[Body]()
        families: dict[str, list[str]] = {}
        for kind in attention_kinds(self.name):
            if any(step.kind == kind for step in self.steps):
                families.setdefault(kind.partition("-")[0], []).append(kind)
        product = goal.objective == "edp" and len(parts(self.workload)) > 1
        differ = product or goal.accelerator.compiler.resident
        for kinds in families.values():
            whole = [first]
            if self.name == "best":
                whole = self._bodies_with(kinds)
                bodies += whole
            several = len(kinds) > 1 and differ
            for body in whole if several else ():
                if product or fusion_depends_on_residency(self.workload, body, self.search):
                    bodies += [body for kind in kinds for body in self._bodies_with([kind])]
        return bodies

    def _bodies_with(self, kinds: Sequence[str]) -> list[Body]:
        """Return the cheapest path with attentions of some kinds alone, if it may be better.

        An attention that none of these kinds fits keeps its others.
        """
        inside = [step for step in self.steps if step.kind in kinds]
        steps = [
            step
            for step in self.steps
            if step.kind in kinds
            or not (
                step.kind == SHARED_ROWS
                or any(part.start < step.stop and step.start < part.stop for part in inside)
            )
        ]
        return self._try_steps(steps) if self._can_gain(steps) else []

    def _try_steps(self, steps: Sequence[ScheduleStep]) -> list[Body]:
        """Return the cheapest path of steps, those that were left out included, if there is one."""
        with suppress(SimaccelError):  # nothing of it fits
            afresh = [replace(step, body=None, scored=None, refused=None) for step in steps]
            return [body_of(self._cheapest(afresh))]
        return []


SCHEDULERS: dict[str, Scheduler] = {
    name: partial(schedule, name=name) for name, module in DATAFLOWS.items() if module == "choice"
}
