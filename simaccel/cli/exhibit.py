"""`simaccel compare --exhibit` (FLAT's figures 5, 9, 15, 17) and `--pareto`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, TypeVar

from simaccel.cli.choices import FRONT_FIGURES, TARGET
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.cli.settings import fault
from simaccel.errors import (
    InputError,
    SimaccelError,
    WorkerDiedError,
    gather,
    require_none,
    suggest,
)

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.cli.options import Jobs
    from simaccel.cli.output import OutputFiles
    from simaccel.pareto import Front
    from simaccel.report.tables import Row
    from simaccel.search.front import Figure, FrontFigures
    from simaccel.study.exhibits import Exhibit
    from simaccel.study.pareto import FrontPoint
    from simaccel.study.points import Point, StudyRow

Found = TypeVar("Found")


@cache
def _study_of(exhibit: Exhibit) -> dict[str, str]:
    """Return the saved study of an exhibit: its heading, and options where none are given."""
    from simaccel.files.documents import parse_document

    file = resources.files("simaccel.study").joinpath("exhibits.yaml")
    study: dict[str, str] = parse_document(file.read_text(encoding="utf-8"))[exhibit]
    return study


def with_defaults(
    experiment: ExperimentOptions, exhibit: Exhibit, sweep: tuple[str, ...]
) -> tuple[ExperimentOptions, tuple[str, ...]]:
    """Return options and sweep, completed by the exhibit's study; refuse a sweep that it lacks."""
    study = _study_of(exhibit)
    if sweep and "sweep" not in study:
        allowed = "nothing with --exhibit, except granularity"
        require_none([fault("--sweep", ", ".join(sweep), allowed)])
    if experiment.dataflow is None and not experiment.searches():
        experiment = replace(experiment, dataflow=study["dataflow"])
    return experiment, sweep or (
        (_buffers(experiment, study["sweep"]),) if "sweep" in study else ()
    )


def _buffers(experiment: ExperimentOptions, sweep: str) -> str:
    """Return a sweep of buffers without those that are too small for the array."""
    from simaccel.cli.sweep import MOST_POINTS, read_axis
    from simaccel.hardware.sections import smallest_buffer

    settings = read_axis("--sweep", sweep, MOST_POINTS)
    try:
        least = smallest_buffer(experiment.accelerator().array)
    except InputError:  # said later, with all else that is wrong
        least = 0
    return f"buffer={','.join(str(one.value) for one in settings if one.place >= least)}"


def show_exhibit(
    exhibit: Exhibit,
    points: Sequence[Point],
    rows: Sequence[StudyRow],
    files: OutputFiles,
    *,
    as_json: bool,
) -> None:
    """Show and write an exhibit made of the rows of a comparison."""
    from simaccel.report.comparison import problem_lines
    from simaccel.study.exhibits import exhibit_rows

    shown = exhibit_rows(exhibit, points, rows)
    _show(exhibit, shown, points, files, problem_lines(rows), as_json=as_json)


def _show(
    exhibit: Exhibit,
    rows: Sequence[Row],
    points: Sequence[Point],
    files: OutputFiles,
    lines: Sequence[str],
    *,
    as_json: bool,
    more: str = "",
) -> None:
    from simaccel.report import figures
    from simaccel.report.exhibits import exhibit_json, exhibit_table
    from simaccel.report.tables import csv_text
    from simaccel.report.titles import experiment_title

    accelerator, lengths = points[0].accelerator, {point.seq_len for point in points}
    varied = {"seq-len"} if len(lengths) > 1 else set[str]()
    title = experiment_title(points[0].workload, accelerator, varied=varied)
    title += f": {_study_of(exhibit)['heading']}{more}"
    written = []
    if rows:
        written += files.write("--csv", partial(csv_text, rows))
        written += files.write(
            "--plot", lambda: figures.draw_exhibit(exhibit, rows, title, accelerator)
        )
    if as_json:
        show_json(exhibit_json(exhibit, rows))
    elif not rows or not files.prints:
        show(title, *([exhibit_table(rows)] if rows else []), *lines, *written)


def _try(find: Callable[[Point], Found], point: Point) -> tuple[Found | None, str, int]:
    """Find something of a point, or return why there is nothing, and the exit code."""
    try:
        return find(point), "", 0
    except SimaccelError as error:
        return None, str(error), error.exit_code


def _find_all(
    find: Callable[[Point], Found], points: Sequence[Point], jobs: Jobs, label: str
) -> list[tuple[Found | None, str, int]]:
    from simaccel.study.parallel import run_with
    from simaccel.study.points import LOST

    lost = None, LOST, WorkerDiedError.exit_code
    with jobs.working(os.cpu_count() or 1) as team, ProgressBar(label) as bar:
        return run_with(team, partial(_try, find), points, bar.show, lost=lambda _: lost)


def show_bandwidths(
    experiment: ExperimentOptions,
    target: float | None,
    files: OutputFiles,
    jobs: Jobs,
    *,
    as_json: bool,
) -> int:
    """Find the bandwidth that each dataflow needs at each length; return the exit code."""
    seq_len = experiment.workload.seq_len
    lengths = [None] if seq_len is None else seq_len.split(",")
    _, accelerator, names, *workloads = gather(
        files.require,
        experiment.accelerator,
        lambda: experiment.names(several=True),
        *(replace(experiment.workload, seq_len=length).read for length in lengths),
    )
    from simaccel.study.exhibits import bandwidth_figures, bandwidth_rows
    from simaccel.study.points import base_point

    wanted = TARGET if target is None else target
    points = [
        replace(base_point(workload, accelerator), dataflow=name, options=experiment.options)
        for workload in workloads
        for name in names
    ]
    outcomes = _find_all(partial(bandwidth_figures, wanted), points, jobs, "finding bandwidths")
    needed = [
        replace(point.row, figures=figures, problem=problem, exit_code=code)
        for point, (figures, problem, code) in zip(points, outcomes, strict=True)
    ]
    rows = bandwidth_rows(needed)
    lines = [f"{need.dataflow}: {need.problem}" for need in needed if need.problem]
    if any(row["bytes_per_second"] is None and row["utilisation"] for row in rows):
        lines.append("-: no bandwidth is enough; the utilisation is that with the largest")
    _show("bandwidth", rows, points, files, lines, as_json=as_json, more=f" of {wanted:.0%}")
    return needed[0].exit_code if all(need.problem for need in needed) else 0


def _find_front(front: FrontFigures, point: Point) -> Front[FrontPoint]:
    from simaccel.study.pareto import pareto

    return pareto(point.workload, point.accelerator, point.name, point.options, front)


def read_front(text: str) -> tuple[Figure, Figure]:
    """Read the two figures of a front, ``x,y``; InputError if they are unknown or equal."""
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
    experiment: ExperimentOptions, text: str, files: OutputFiles, jobs: Jobs, *, as_json: bool
) -> int:
    """Compute, show and write the front of each dataflow or mapspace; return the exit code."""
    length = experiment.workload.seq_len or ""
    if "," in length:
        require_none([fault("--seq-len", length, "one length beside --pareto")])
    from simaccel.study.precision import gather_placed

    workload, accelerator, figures, names, _ = gather_placed(
        experiment.workload.read,
        experiment.accelerator,
        lambda: read_front(text),
        lambda: experiment.names(several=True),
        files.require,
    )
    from simaccel.pareto import Front
    from simaccel.report import figures as drawings
    from simaccel.report import pareto
    from simaccel.report.titles import experiment_title
    from simaccel.search.effort import require_energies
    from simaccel.search.front import FrontFigures
    from simaccel.study.pareto import COLUMNS
    from simaccel.study.points import base_point

    front = FrontFigures(*figures)
    for figure in (front.x, front.y):
        require_energies(accelerator, figure)
    base = replace(base_point(workload, accelerator), options=experiment.options)
    points = [replace(base, dataflow=name) for name in names]
    outcomes = _find_all(partial(_find_front, front), points, jobs, "finding fronts")
    rows = [
        pareto.FrontRow(name, mappings or Front(), problem, code)
        for name, (mappings, problem, code) in zip(names, outcomes, strict=True)
    ]
    title = f"{experiment_title(workload, accelerator)}: {front.y} against {front.x}"
    written = files.write("--csv", partial(pareto.pareto_csv, rows))
    x, y = COLUMNS[front.x], COLUMNS[front.y]
    written += files.write("--plot", lambda: drawings.draw_pareto(rows, x, y, title))
    if as_json:
        show_json(pareto.pareto_json(rows, front.x, front.y))
    elif not files.prints:
        show(title, pareto.pareto_table(rows, x, y), *pareto.pareto_lines(rows), *written)
    ran = any(row.points for row in rows)
    died = any(row.exit_code == WorkerDiedError.exit_code for row in rows)
    return WorkerDiedError.exit_code if died else 0 if ran else rows[0].exit_code
