"""Exploration of a design space: each design is mapped, and runs on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.errors import InputError, SimaccelError, WorkerDiedError
from simaccel.experiment.forecast import forecasts
from simaccel.experiment.parallel import Watch, run_with
from simaccel.experiment.store import ResultStore
from simaccel.experiment.workers import TaskWorkers
from simaccel.study.figures import (
    figures_of,
    frontier,
    limit_of,
    objective_of,
    static_figures,
)
from simaccel.study.limits import FigureLimit
from simaccel.study.points import LOST, Figures, Point, Record, StudyRow
from simaccel.study.runs import RunKey, run, run_keys
from simaccel.study.space import Settings


@dataclass(frozen=True)
class ExplorationObjective:
    """The limits of designs, and the figures to minimise."""

    limits: tuple[FigureLimit, ...] = ()
    objective: str = "edp"


@dataclass(frozen=True)
class ExploredDesigns:
    """All designs in order, and the numbers of runs."""

    dimensions: tuple[Settings, ...]
    plan: ExplorationObjective
    rows: tuple[StudyRow, ...]
    ran: int
    reused: int
    damaged: tuple[str, ...] = field(default=())


_TIMED: Final = 3
"""Runs of which the times are estimated; the mean stands for all."""


@dataclass(frozen=True)
class ExplorationCost:
    """The estimated cost of an exploration: runs and seconds.

    ``outside``: designs that are impossible or exceed the limits. ``runs``: one for each workload
    of a design that is not in the store (``stored``). ``timed``: runs whose estimated time is
    extrapolated to all.
    """

    designs: int
    outside: int
    runs: int
    stored: int
    timed: int
    cpu_seconds: float
    """Estimated CPU seconds of all runs."""


def cost_of(
    designs: Iterable[Point], plan: ExplorationObjective, store: ResultStore
) -> ExplorationCost:
    """Return the estimated cost of an exploration; nothing runs."""
    rows, able = _screen_designs(designs, plan)
    runs_by_key = {each.key: each for design in able.values() for each in run_keys(design)}
    todo = [each for each in runs_by_key.values() if store.get(each.key) is None]
    timed = todo[:: -(-len(todo) // _TIMED) or 1]
    seconds = sum(map(_expected_seconds, timed)) * len(todo) / max(len(timed), 1)
    stored = len(runs_by_key) - len(todo)
    return ExplorationCost(len(rows), len(rows) - len(able), len(todo), stored, len(timed), seconds)


def _expected_seconds(key: RunKey) -> float:
    """Return about the CPU seconds of a run and its search."""
    cut = {"stages": key.stages, "micro_batches": key.micro_batches}
    with suppress(SimaccelError):  # which its record says
        ahead = forecasts(key.workload, key.accelerator, key.dataflow, key.options, **cut)
        return sum((one.seconds or 0.0) + one.run_seconds for _, one in ahead)
    return 0.0


def _records(
    designs: Iterable[Point], team: TaskWorkers, store: ResultStore, watch: Callable[[str], Watch]
) -> tuple[list[list[Record]], int]:
    """Return the records of all workloads of each design, and the number of runs that were made."""
    keys_of_designs = [run_keys(design) for design in designs]
    every = {each.key: each for runs in keys_of_designs for each in runs}
    records: dict[str, Record] = {key: store.get(key) for key in every}
    tasks = [each for key, each in every.items() if records[key] is None]
    lost = {"problem": LOST, "lost": True}

    def keep_record(number: int, record: Record) -> None:
        key = tasks[number].key
        records[key] = record
        if record is not lost:
            store.put(key, record)
            records[key] = store.get(key)

    if tasks:
        run_with(team, run, tasks, watch("exploring"), lost=lambda _: lost, on_result=keep_record)
    made = sum(records[each.key] is not lost for each in tasks)
    return [[records[each.key] for each in runs] for runs in keys_of_designs], made


def explore(
    dimensions: tuple[Settings, ...],
    designs: Iterable[Point],
    plan: ExplorationObjective,
    team: TaskWorkers,
    *,
    store: ResultStore | None = None,
    watch: Callable[[str], Watch] = lambda _label: lambda _done, _note: None,
) -> ExploredDesigns:
    """Run designs on the machine, except those that are impossible or exceed the limits.

    ``store`` keeps the results. ``watch`` returns the progress callback of a step.
    """
    store = store or ResultStore()
    rows, able = _screen_designs(designs, plan)
    every, made = _records(able.values(), team, store, watch)
    for (at, design), records in zip(able.items(), every, strict=True):
        rows[at] = _add_figures(rows[at], design, records, plan)
    return ExploredDesigns(
        dimensions,
        plan,
        tuple(mark_best(rows, plan)),
        made,
        store.reused,
        tuple(store.damaged),
    )


def _screen_designs(
    designs: Iterable[Point], plan: ExplorationObjective
) -> tuple[list[StudyRow], dict[int, Point]]:
    """Return a row for each design, and by their places the designs that can be within limits."""
    rows, able = [], {}
    for at, design in enumerate(designs):
        known = static_figures(design.accelerator)
        open_to = not design.problem and all(
            limit.holds(known) for limit in plan.limits if limit.figure in known
        )
        rows.append(replace(design.row, within=open_to))
        if open_to:
            able[at] = design
    return rows, able


def _add_figures(
    row: StudyRow, design: Point, records: Sequence[Record], plan: ExplorationObjective
) -> StudyRow:
    """Return the row of a design with the figures of its runs."""
    problems = [record["problem"] for record in records if "problem" in record]
    if problems:
        lost = any(record.get("lost") for record in records)
        code = WorkerDiedError.exit_code if lost else InputError.exit_code
        overflows = any(record.get("overflows") for record in records)
        row = replace(row, problem=problems[0], within=False, overflows=overflows)
        return replace(row, exit_code=code)
    figures = figures_of(design, records)
    within = all(limit.holds(figures) for limit in plan.limits)
    return replace(row, within=within, figures=figures, limit=limit_of(records))


def mark_best(rows: Sequence[StudyRow], plan: ExplorationObjective) -> list[StudyRow]:
    """Mark, for each scenario, the frontier and the best of the rows within the limits."""
    scenarios: dict[tuple[str, ...], dict[int, Figures]] = {}
    for at, row in enumerate(rows):
        if row.within and row.figures is not None:
            scenarios.setdefault(row.scenario, {})[at] = row.figures
    marked = list(rows)
    for group in scenarios.values():
        best = min(group, key=lambda at: objective_of(group[at], plan.objective))
        for at, on in zip(group, frontier([*group.values()]), strict=True):
            marked[at] = replace(rows[at], frontier=on, best=at == best)
    return marked
