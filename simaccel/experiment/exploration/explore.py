"""Exploring a space: screened by the closed form, confirmed on the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from simaccel.experiment.exploration.figures import (
    Figures,
    figures_of,
    frontier,
    objective_of,
    static_figures,
)
from simaccel.experiment.exploration.limits import Limit
from simaccel.experiment.exploration.runs import Asked, How, Record, Task, run
from simaccel.experiment.exploration.space import DIRECTIVES, Design, Dimension
from simaccel.experiment.parallel import Team, Watch, noted
from simaccel.experiment.store import Store

Confirm = Literal["best", "pareto", "all"]
CONFIRM: Final[tuple[Confirm, ...]] = ("best", "pareto", "all")


@dataclass(frozen=True)
class Plan:
    """What is wanted: limits, what is made small, and which designs the machine confirms."""

    limits: tuple[Limit, ...] = ()
    objective: str = "edp"
    confirm: Confirm = "pareto"


@dataclass(frozen=True)
class Explored:
    """One design and what is known of it: by the closed form, and on the machine.

    ``within``: all limits hold, as far as figures are known. ``frontier``: no confirmed design of
    its scenario is better; ``best``: of these it has the smallest objective. ``problem``: why there
    are no figures.
    """

    design: Design
    estimate: Figures | None = None
    machine: Figures | None = None
    within: bool = True
    frontier: bool = False
    best: bool = False
    problem: str = ""
    lost: bool = False

    @property
    def figures(self) -> Figures | None:
        """The machine's figures, or else the closed form's."""
        return self.machine if self.machine is not None else self.estimate


@dataclass(frozen=True)
class Exploration:
    """All designs in their order, and what it took."""

    dimensions: tuple[Dimension, ...]
    plan: Plan
    points: tuple[Explored, ...]
    ran: int
    reused: int
    damaged: tuple[str, ...] = field(default=())

    @property
    def uniform(self) -> str:
        """Whose figures all designs have: to compare them with one another."""
        return "machine" if self.plan.confirm == "all" else "estimate"


_TIMED: Final = 3
"""Runs from which the time of all follows."""


@dataclass(frozen=True)
class Cost:
    """What the first step of an exploration takes: screening, or all on the machine.

    ``outside``: designs that can't be, or are too large; ``runs``: a workload of a design each,
    without what the ``store`` has.
    """

    designs: int
    outside: int
    runs: int
    stored: int
    timed: int
    cpu_seconds: float
    """Of all runs, as far as the timed ones are like the others."""


def cost_of(designs: Iterable[Design], plan: Plan, store: Store) -> Cost:
    """Count the runs of a first step, and time a few of them; nothing is kept."""
    points = [_begun(design, plan) for design in designs]
    able = _open(points)
    how: How = "machine" if plan.confirm == "all" else "estimate"
    asked = {each.key: each for at in sorted(able) for each in _asked(points[at].design, how)}
    todo = [each for each in asked.values() if store.get(each.key) is None]
    timed = todo[:: -(-len(todo) // _TIMED) or 1]
    started = time.process_time()
    for each in timed:
        run(Task(each, None))
    seconds = (time.process_time() - started) * len(todo) / max(len(timed), 1)
    stored = len(asked) - len(todo)
    return Cost(len(points), len(points) - len(able), len(todo), stored, len(timed), seconds)


@dataclass
class _Doing:
    """Runs designs, and keeps what comes out."""

    team: Team
    store: Store
    watch: Callable[[str], Watch]
    ran: int = 0

    def records(self, points: Sequence[Explored], how: How, label: str) -> list[list[Record]]:
        """Give the records of all workloads of each design."""
        asked = [_asked(one.design, how) for one in points]
        todo: dict[str, Task] = {}
        for one, runs in zip(points, asked, strict=True):
            for each, mapping in zip(runs, self._mappings(one.design, how), strict=True):
                if each.key not in todo and self.store.get(each.key) is None:
                    todo[each.key] = Task(each, mapping)
        tasks = list(todo.values())
        dead: dict[str, Record] = {}

        def note(number: int, record: Record) -> None:
            if record.get("lost"):
                dead[tasks[number].asked.key] = record
            else:
                self.store.put(tasks[number].asked.key, record)

        if tasks:
            noted(self.team, run, tasks, self.watch(label), lost=_lost, note=note)
        self.ran += len(tasks) - len(dead)
        return [[self._found(each, dead) for each in runs] for runs in asked]

    def _found(self, asked: Asked, dead: dict[str, Record]) -> Record:
        if asked.key in dead:
            return dead[asked.key]
        record: Record | None = self.store.get(asked.key)
        assert record is not None  # noqa: S101 - it was just put there
        return record

    def _mappings(self, design: Design, how: How) -> list[str | None]:
        """Give the mappings that the closed form has found already."""
        if how == "estimate":
            return [None] * len(design.loads)
        known = [self.store.known(each.key) for each in _asked(design, "estimate")]
        return [None if one is None else one.get("mapping") for one in known]


def _asked(design: Design, how: How) -> list[Asked]:
    directed = design.dataflow == DIRECTIVES
    return [
        Asked(
            load.workload,
            design.accelerator,
            design.dataflow,
            design.options,
            how,
            load.description if directed else "",
        )
        for load in design.loads
    ]


def _lost(_task: Task) -> Record:
    return {"problem": "its process died; is there enough memory?", "lost": True}


def explore(
    dimensions: tuple[Dimension, ...],
    designs: Iterable[Design],
    plan: Plan,
    team: Team,
    *,
    store: Store | None = None,
    watch: Callable[[str], Watch] = lambda _label: lambda _done, _note: None,
) -> Exploration:
    """Screen designs by the closed form, and confirm some of them on the machine.

    ``store`` keeps what comes out; ``watch`` gives whom to tell how a step stands.
    """
    store = store or Store()
    doing = _Doing(team, store, watch)
    points = [_begun(design, plan) for design in designs]
    if plan.confirm != "all":
        points = _with_figures(doing, points, plan, "estimate", _open(points))
    points = _with_figures(doing, points, plan, "machine", _to_confirm(points, plan))
    return Exploration(
        dimensions,
        plan,
        tuple(_judged(points, plan)),
        doing.ran,
        store.reused,
        tuple(store.damaged),
    )


def _begun(design: Design, plan: Plan) -> Explored:
    """Leave out what can't be, and what is too large before anything is run."""
    if design.problem:
        return Explored(design, problem=design.problem, within=False)
    known = static_figures(design.accelerator)
    within = all(one.holds(known) for one in plan.limits if one.figure in known)
    return Explored(design, within=within)


def _open(points: Sequence[Explored]) -> set[int]:
    return {at for at, one in enumerate(points) if one.within and not one.problem}


def _with_figures(
    doing: _Doing, points: Sequence[Explored], plan: Plan, how: How, chosen: set[int]
) -> list[Explored]:
    """Run some of the designs."""
    label = "screening" if how == "estimate" else "confirming"
    order = sorted(chosen)
    records = doing.records([points[at] for at in order], how, label)
    found = list(points)
    for at, each in zip(order, records, strict=True):
        one = points[at]
        problems = [record["problem"] for record in each if "problem" in record]
        if problems:
            lost = any(record.get("lost") for record in each)
            found[at] = replace(one, problem=problems[0], within=False, lost=lost)
            continue
        figures = figures_of(one.design, each)
        within = all(limit.holds(figures) for limit in plan.limits)
        new = replace(one, within=within)
        found[at] = (
            replace(new, estimate=figures) if how == "estimate" else replace(new, machine=figures)
        )
    return found


def _to_confirm(points: Sequence[Explored], plan: Plan) -> set[int]:
    """Choose the designs that are run on the machine."""
    able = _open(points)
    if plan.confirm == "all":
        return able
    chosen = set()
    for group in _scenarios(points, able):
        if plan.confirm == "pareto":
            on = frontier([_figures(points[at]) for at in group])
            chosen |= {at for at, one in zip(group, on, strict=True) if one}
        chosen.add(min(group, key=lambda at: objective_of(_figures(points[at]), plan.objective)))
    return chosen


def _scenarios(points: Sequence[Explored], chosen: Iterable[int]) -> list[list[int]]:
    """Part designs by what is asked of them."""
    found: dict[tuple[str, ...], list[int]] = {}
    for at in sorted(chosen):
        found.setdefault(points[at].design.scenario, []).append(at)
    return list(found.values())


def _figures(one: Explored) -> Figures:
    assert one.figures is not None  # noqa: S101 - it was run
    return one.figures


def _judged(points: Sequence[Explored], plan: Plan) -> list[Explored]:
    """Mark the frontier and the best among the confirmed designs within the limits."""
    found = list(points)
    able = [at for at in _open(points) if points[at].machine is not None]
    for group in _scenarios(points, able):
        on = frontier([_figures(points[at]) for at in group])
        best = min(group, key=lambda at: objective_of(_figures(points[at]), plan.objective))
        for at, one in zip(group, on, strict=True):
            found[at] = replace(points[at], frontier=one, best=at == best)
    return found
