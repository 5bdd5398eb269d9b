"""`simaccel compare --pareto x,y`: the front of each scheduler's mappings."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from simaccel.cli.choices import FRONT_FIGURES
from simaccel.cli.faults import fault, require_none
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.errors import SimaccelError, WorkerDiedError, suggest

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.cli.options import Jobs
    from simaccel.cli.output import OutputFiles
    from simaccel.report.pareto import FrontRow
    from simaccel.search.front import Figure, FrontFigures
    from simaccel.study.points import Point


def _find_front(front: FrontFigures, point: Point) -> FrontRow:
    """Find one front; what the user can cause becomes a row with its reason."""
    from simaccel.report.pareto import FrontRow
    from simaccel.study.pareto import pareto

    try:
        found = pareto(point.workload, point.accelerator, point.name, point.options, front)
    except SimaccelError as error:
        return FrontRow(point.name, problem=str(error), exit_code=error.exit_code)
    return FrontRow(point.name, found)


def _lost_row(point: Point) -> FrontRow:
    from simaccel.report.pareto import FrontRow

    lost = point.row.without_process()
    return FrontRow(point.name, problem=lost.problem, exit_code=lost.exit_code)


def read_front(text: str) -> tuple[Figure, Figure]:
    """Read ``x,y``.

    Raises:
        InputError: not two figures, or one that there is not.

    """
    names = [name.strip() for name in text.split(",")]
    known = [figure for name in names for figure in FRONT_FIGURES if figure == name]
    faults = [
        fault("--pareto", name, suggest(name, FRONT_FIGURES))
        for name in names
        if name not in FRONT_FIGURES
    ]
    if not faults and (len(known) != len({*known}) or len(known) != len(("x", "y"))):
        faults = [fault("--pareto", text, f"two different figures of {', '.join(FRONT_FIGURES)}")]
    require_none(faults)
    return known[0], known[1]


def compare_fronts(
    asked: ExperimentOptions,
    text: str,
    files: OutputFiles,
    jobs: Jobs,
    *,
    as_json: bool,
) -> int:
    """Find the front of each dataflow or mapspace, show and write them; return the exit code."""
    length = asked.workload.seq_len or ""
    if "," in length:
        require_none([fault("--seq-len", length, "one length beside --pareto")])
    from simaccel.experiment.precision import gather_placed

    workload, accelerator, figures, names, _ = gather_placed(
        asked.workload.read,
        asked.accelerator,
        lambda: read_front(text),
        lambda: asked.names(several=True),
        files.require,
    )
    from simaccel.experiment.parallel import run_with
    from simaccel.hardware.energy.required import require_energies
    from simaccel.report.figures.pareto import draw_pareto
    from simaccel.report.pareto import pareto_csv, pareto_json, pareto_lines, pareto_table
    from simaccel.report.titles import experiment_title
    from simaccel.search.front import FrontFigures
    from simaccel.study.pareto import COLUMNS
    from simaccel.study.points import base_point

    front = FrontFigures(*figures)
    for figure in (front.x, front.y):
        require_energies(accelerator, figure)
    base = replace(base_point(workload, accelerator), options=asked.options)
    points = [replace(base, dataflow=name) for name in names]
    with jobs.working(os.cpu_count() or 1) as team, ProgressBar("finding fronts") as bar:
        rows = run_with(team, partial(_find_front, front), points, bar.show, lost=_lost_row)
    title = f"{experiment_title(workload, accelerator)}: {front.y} against {front.x}"
    written = files.write("--csv", partial(pareto_csv, rows))
    x, y = COLUMNS[front.x], COLUMNS[front.y]
    written += files.write("--plot", partial(draw_pareto, rows, x, y, title))
    if as_json:
        show_json(pareto_json(rows, front.x, front.y))
    elif not files.prints:
        show(title, pareto_table(rows, x, y), *pareto_lines(rows), *written)
    ran = any(row.points for row in rows)
    died = any(row.exit_code == WorkerDiedError.exit_code for row in rows)
    return WorkerDiedError.exit_code if died else 0 if ran else rows[0].exit_code
