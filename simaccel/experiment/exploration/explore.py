"""Exploration of a design space: each design is mapped, and runs on the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.errors import SimaccelError
from simaccel.experiment.exploration.figures import (
    Figures,
    figures_of,
    frontier,
    limit_of,
    objective_of,
    static_figures,
)
from simaccel.experiment.exploration.limits import FigureLimit
from simaccel.experiment.exploration.runs import Record, RunKey, run
from simaccel.experiment.exploration.space import DIRECTIVES, DesignAxis, DesignPoint
from simaccel.experiment.outlook import outlooks
from simaccel.experiment.parallel import TaskWorkers, Watch, run_with
from simaccel.experiment.store import ResultStore


@dataclass(frozen=True)
class ExplorationObjective:
    """Limits of designs, and the figures to minimise."""

    limits: tuple[FigureLimit, ...] = ()
    objective: str = "edp"


@dataclass(frozen=True)
class ExploredPoint:
    """One design, and the figures of its runs.

    ``within``: all limits hold, as far as figures are known. ``frontier``: no other design of its
    scenario is better; ``best``: of these it has the smallest objective. ``limit``: the resource or
    wait that limits it, by its name in `LIMITS`. ``problem``: why there are no figures.
    """

    design: DesignPoint
    figures: Figures | None = None
    within: bool = True
    frontier: bool = False
    best: bool = False
    limit: str = ""
    problem: str = ""
    lost: bool = False


@dataclass(frozen=True)
class ExploredDesigns:
    """All designs in their order, and the numbers of runs."""

    dimensions: tuple[DesignAxis, ...]
    plan: ExplorationObjective
    points: tuple[ExploredPoint, ...]
    ran: int
    reused: int
    damaged: tuple[str, ...] = field(default=())


_TIMED: Final = 3
"""Runs whose times are extrapolated to all."""


@dataclass(frozen=True)
class ExplorationCost:
    """Runs and seconds that an exploration takes.

    ``outside``: designs that are impossible or too large; ``runs``: one for each workload of a
    design that is not in the ``store``; ``timed``: runs whose time was measured or known.
    """

    designs: int
    outside: int
    runs: int
    stored: int
    timed: int
    cpu_seconds: float
    """Estimated CPU seconds of all runs, from those of the ``timed`` ones."""


def cost_of(
    designs: Iterable[DesignPoint], plan: ExplorationObjective, store: ResultStore
) -> ExplorationCost:
    """Count the runs, and estimate their time from a few; only short ones run, none is stored."""
    points = [_screen_design(design, plan) for design in designs]
    able = _open(points)
    asked = {each.key: each for at in sorted(able) for each in _run_keys(points[at].design)}
    todo = [each for each in asked.values() if store.get(each.key) is None]
    timed = todo[:: -(-len(todo) // _TIMED) or 1]
    seconds = sum(map(_expected_seconds, timed)) * len(todo) / max(len(timed), 1)
    stored = len(asked) - len(todo)
    return ExplorationCost(
        len(points), len(points) - len(able), len(todo), stored, len(timed), seconds
    )


def _expected_seconds(asked: RunKey) -> float:
    """Return the CPU seconds of a run: from published rates of long searches, or measured."""
    if not asked.description:
        with suppress(SimaccelError):  # which its record says
            ahead = [
                forecast
                for _, forecast in outlooks(
                    asked.workload,
                    asked.accelerator,
                    asked.dataflow,
                    asked.options,
                    stages=asked.stages,
                    micro_batches=asked.micro_batches,
                )
            ]
            known = [forecast.seconds for forecast in ahead if forecast.seconds is not None]
            if len(known) == len(ahead) and not all(forecast.is_soon for forecast in ahead):
                return sum(known) + sum(forecast.run_seconds for forecast in ahead)
    started = time.process_time()
    run(asked)
    return time.process_time() - started


@dataclass
class _Doing:
    """The execution of designs, and the storage of their results."""

    team: TaskWorkers
    store: ResultStore
    watch: Callable[[str], Watch]
    ran: int = 0

    def records(self, designs: Sequence[DesignPoint]) -> list[list[Record]]:
        """Return the records of all workloads of each design."""
        asked = [_run_keys(design) for design in designs]
        every = {each.key: each for runs in asked for each in runs}
        tasks = [each for key, each in every.items() if self.store.get(key) is None]
        dead: dict[str, Record] = {}

        def note(number: int, record: Record) -> None:
            if record.get("lost"):
                dead[tasks[number].key] = record
            else:
                self.store.put(tasks[number].key, record)

        if tasks:
            run_with(self.team, run, tasks, self.watch("exploring"), lost=_lost_record, note=note)
        self.ran += len(tasks) - len(dead)
        return [[self._find_record(each, dead) for each in runs] for runs in asked]

    def _find_record(self, asked: RunKey, dead: dict[str, Record]) -> Record:
        if asked.key in dead:
            return dead[asked.key]
        record: Record | None = self.store.get(asked.key)
        assert record is not None  # noqa: S101 - it was just put there
        return record


def _run_keys(design: DesignPoint) -> list[RunKey]:
    directed = design.dataflow == DIRECTIVES
    return [
        RunKey(
            load.workload,
            design.accelerator,
            design.dataflow,
            design.options,
            load.description if directed else "",
            design.stages,
            design.micro_batches,
        )
        for load in design.loads
    ]


def _lost_record(_run_keys: RunKey) -> Record:
    return {"problem": "its process died; is there enough memory?", "lost": True}


def explore(
    dimensions: tuple[DesignAxis, ...],
    designs: Iterable[DesignPoint],
    plan: ExplorationObjective,
    team: TaskWorkers,
    *,
    store: ResultStore | None = None,
    watch: Callable[[str], Watch] = lambda _label: lambda _done, _note: None,
) -> ExploredDesigns:
    """Run designs on the machine, except those that are impossible or too large.

    ``store`` keeps the results; ``watch`` returns the callback for the progress of a step.
    """
    store = store or ResultStore()
    doing = _Doing(team, store, watch)
    points = [_screen_design(design, plan) for design in designs]
    points = _with_figures(doing, points, plan)
    return ExploredDesigns(
        dimensions,
        plan,
        tuple(_mark_best(points, plan)),
        doing.ran,
        store.reused,
        tuple(store.damaged),
    )


def _screen_design(design: DesignPoint, plan: ExplorationObjective) -> ExploredPoint:
    """Return a design with its problem, if it is impossible or outside a limit without a run."""
    if design.problem:
        return ExploredPoint(design, problem=design.problem, within=False)
    known = static_figures(design.accelerator)
    within = all(one.holds(known) for one in plan.limits if one.figure in known)
    return ExploredPoint(design, within=within)


def _open(points: Sequence[ExploredPoint]) -> set[int]:
    return {at for at, one in enumerate(points) if one.within and not one.problem}


def _with_figures(
    doing: _Doing, points: Sequence[ExploredPoint], plan: ExplorationObjective
) -> list[ExploredPoint]:
    """Run designs and add their figures."""
    order = sorted(_open(points))
    records = doing.records([points[at].design for at in order])
    explored = list(points)
    for at, each in zip(order, records, strict=True):
        point = points[at]
        problems = [record["problem"] for record in each if "problem" in record]
        if problems:
            lost = any(record.get("lost") for record in each)
            explored[at] = replace(point, problem=problems[0], within=False, lost=lost)
            continue
        figures = figures_of(point.design, each)
        within = all(limit.holds(figures) for limit in plan.limits)
        explored[at] = replace(point, within=within, figures=figures, limit=limit_of(each))
    return explored


def _scenarios(points: Sequence[ExploredPoint], chosen: Iterable[int]) -> list[list[int]]:
    """Group designs by scenario."""
    found: dict[tuple[str, ...], list[int]] = {}
    for at in sorted(chosen):
        found.setdefault(points[at].design.scenario, []).append(at)
    return list(found.values())


def _figures(one: ExploredPoint) -> Figures:
    assert one.figures is not None  # noqa: S101 - it was run
    return one.figures


def _mark_best(points: Sequence[ExploredPoint], plan: ExplorationObjective) -> list[ExploredPoint]:
    """Mark the frontier and the best among the designs within the limits."""
    found = list(points)
    for group in _scenarios(points, _open(points)):
        on = frontier([_figures(points[at]) for at in group])
        best = min(group, key=lambda at: objective_of(_figures(points[at]), plan.objective))
        for at, one in zip(group, on, strict=True):
            found[at] = replace(points[at], frontier=one, best=at == best)
    return found
