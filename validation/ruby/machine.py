"""Winners of figures 10 to 14 on the machine: their cycles and energy against the closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from simaccel.cli.progress import ProgressBar
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.search.judge import mapping_of
from simaccel.study.parallel import open_workers
from validation.ruby.networks import Comparison, Row
from validation.ruby.points import FOLDER, Point, Result, hardware, solve, workload

SLACK: Final = 1e-9
"""Energies are sums of floats in another order."""


@dataclass(frozen=True)
class Confirmed:
    """What the machine said of a winner, and what is wrong with it, if anything."""

    cycles: int
    energy_pj: float
    events: int
    wrong: str = ""


def confirm(point: Point, result: Result) -> Confirmed:
    """Run a winner; without limits of bandwidth its cycles and energy are the closed form's."""
    work, accelerator = workload(point), hardware(point.accelerator, point.array)
    mapping = mapping_of(work, point.strategy, [result.mapping])
    run = Machine(accelerator, lower(work, mapping)).run()
    by_level = accelerator.energy_by_level(run.macs, run.elements, run.moved)
    energy = float(sum(by_level.values()))
    wrong = ""
    if run.cycles != result.cycles or abs(energy / result.energy_pj - 1) > SLACK:
        wrong = (
            f"{point}: {run.cycles} cycles and {energy:.6g} pJ on the machine, "
            f"{result.cycles} and {result.energy_pj:.6g} in the closed form"
        )
    return Confirmed(run.cycles, energy, run.events, wrong)


def confirm_all(
    figures: Mapping[str, Sequence[Comparison]], jobs: int, folder: Path = FOLDER
) -> tuple[list[Row], list[str]]:
    """Run all winners; a row for each figure, and what is wrong."""
    points = {name: _points(many) for name, many in figures.items()}
    every = list(dict.fromkeys(point for many in points.values() for point in many))
    with ProgressBar("on the machine") as bar, open_workers(jobs) as team:
        runs = team.run(partial(_confirm, folder), every, bar.show)
    by_point = dict(zip(every, runs, strict=True))
    rows: list[Row] = []
    for name, many in points.items():
        confirmed = [by_point[point] for point in many]
        rows.append(
            {
                "figure": name,
                "winners": len(confirmed),
                "equal": sum(not outcome.wrong for outcome in confirmed),
                "cycles": sum(outcome.cycles for outcome in confirmed),
                "events": sum(outcome.events for outcome in confirmed),
            }
        )
    return rows, [run.wrong for run in runs if run.wrong]


def _points(comparisons: Sequence[Comparison]) -> list[Point]:
    """Give all points, each once."""
    return list(
        dict.fromkeys(point for one in comparisons for group in one.groups() for point in group)
    )


def _confirm(folder: Path, point: Point) -> Confirmed:
    return confirm(point, solve(point, folder))
