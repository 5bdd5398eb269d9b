"""Exploration of a design space: each design is mapped, and runs on the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from simaccel.study.figure_table import FigureLimit
from simaccel.study.figures import frontier, objective_of, static_figures
from simaccel.study.forecast import forecast_seconds
from simaccel.study.parallel import TaskWorkers, Watch
from simaccel.study.points import Figures, Point, Record, StudyRow
from simaccel.study.runs import key_of, run_rows
from simaccel.study.space import Settings
from simaccel.study.store import ResultStore


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


def cost_of(designs: Iterable[Point], plan: ExplorationObjective, store: ResultStore) -> Record:
    """Return the estimated cost of an exploration; nothing runs.

    The numbers of ``designs``; of those ``outside``, which are impossible or exceed the limits; of
    ``runs`` for the workloads of designs, without those ``stored``; and their ``cpu_seconds``.
    """
    rows, able = _screen_designs(designs, plan)
    runs = {key_of(run): run for design in able.values() for run in design.runs}
    todo = [run for key, run in runs.items() if store.get(key) is None]
    return {
        "designs": len(rows),
        "outside": len(rows) - len(able),
        "runs": len(todo),
        "stored": len(runs) - len(todo),
        "cpu_seconds": forecast_seconds(todo),
    }


def explore(
    dimensions: tuple[Settings, ...],
    designs: Iterable[Point],
    plan: ExplorationObjective,
    team: TaskWorkers,
    *,
    store: ResultStore | None = None,
    watch: Watch = lambda _done, _note: None,
) -> ExploredDesigns:
    """Run designs on the machine, except those that are impossible or exceed the limits.

    ``store`` keeps the results; ``watch`` is called with the progress.
    """
    store = store or ResultStore()
    rows, able = _screen_designs(designs, plan)
    ran, made = run_rows([*able.values()], team, watch, store)
    for at, row in zip(able, ran, strict=True):
        known = row.figures
        within = known is not None and all(limit.holds(known) for limit in plan.limits)
        rows[at] = replace(row, within=within)
    marked = tuple(mark_best(rows, plan))
    return ExploredDesigns(dimensions, plan, marked, made, store.reused, tuple(store.damaged))


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
