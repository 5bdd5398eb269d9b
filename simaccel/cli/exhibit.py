"""`simaccel compare --exhibit` (FLAT's figures 5, 9, 15, 17) and `--pareto`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Literal

from simaccel.cli.choices import FRONT_FIGURES, TARGET
from simaccel.cli.output import show, show_json
from simaccel.cli.settings import fault
from simaccel.errors import InputError, gather, require_none, suggest

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.cli.output import OutputFiles
    from simaccel.search.front import FrontFigures
    from simaccel.study.exhibits import Exhibit
    from simaccel.study.points import Point, Record, StudyRow

    SavedStudy = Exhibit | Literal["pareto"]


@cache
def _study_of(name: SavedStudy) -> dict[str, str]:
    """Return a saved study: its heading, and options where none are given."""
    from simaccel.files.documents import parse_document

    file = resources.files("simaccel.study").joinpath("exhibits.yaml")
    study: dict[str, str] = parse_document(file.read_text(encoding="utf-8"))[name]
    return study


def with_defaults(
    experiment: ExperimentOptions, name: SavedStudy, sweep: tuple[str, ...]
) -> tuple[ExperimentOptions, tuple[str, ...]]:
    """Return options and sweep, completed by a saved study; refuse a sweep that it lacks."""
    study = _study_of(name)
    if sweep and "sweep" not in study:
        beside = "--pareto" if name == "pareto" else "--exhibit, except granularity"
        allowed = f"nothing with {beside}"
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


def finder_of(
    exhibit: Exhibit | None, front: FrontFigures | None, target: float | None
) -> Callable[[Point], Record] | None:
    """Return what is searched for each point instead of a run; None: points run."""
    if front is not None:
        return partial(_find_front, front)
    if exhibit == "bandwidth":
        from simaccel.study.exhibits import find_bandwidth

        return partial(find_bandwidth, TARGET if target is None else target)
    return None


def _find_front(front: FrontFigures, point: Point) -> Record:
    from simaccel.study.pareto import pareto

    flow = str(point.dataflow)
    return {"result": pareto(point.workload, point.accelerator, flow, point.options, front)}


def show_exhibit(
    exhibit: Exhibit,
    points: Sequence[Point],
    runs: Sequence[StudyRow],
    files: OutputFiles,
    target: float | None,
    *,
    as_json: bool,
) -> None:
    """Show and write an exhibit made of the rows of a comparison."""
    from simaccel.report import figures
    from simaccel.report.comparison import problem_lines
    from simaccel.report.exhibits import exhibit_json, exhibit_table
    from simaccel.report.tables import csv_text
    from simaccel.report.titles import experiment_title
    from simaccel.study.exhibits import exhibit_rows

    rows = exhibit_rows(exhibit, points, runs)
    lines = problem_lines(runs)
    accelerator, lengths = points[0].accelerator, {point.seq_len for point in points}
    varied = {"seq-len"} if len(lengths) > 1 else set[str]()
    title = experiment_title(points[0].workload, accelerator, varied=varied)
    title += f": {_study_of(exhibit)['heading']}"
    if exhibit == "bandwidth":
        title += f" of {TARGET if target is None else target:.0%}"
        if any(row["bytes_per_second"] is None and row["utilisation"] for row in rows):
            lines.append("-: no bandwidth is enough; the utilisation is that with the largest")
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


def read_front(text: str | None) -> FrontFigures | None:
    """Read the two figures of a front, ``x,y``; InputError if they are unknown or equal."""
    if text is None:
        return None
    from simaccel.search.front import FrontFigures

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
    return FrontFigures(*known)


def require_prices(front: FrontFigures, point: Point) -> None:
    """Refuse fronts of energies that the accelerator doesn't give."""
    from simaccel.search.effort import require_energies

    gather(*(partial(require_energies, point.accelerator, one) for one in (front.x, front.y)))


def show_fronts(
    front: FrontFigures,
    points: Sequence[Point],
    rows: Sequence[StudyRow],
    files: OutputFiles,
    *,
    as_json: bool,
) -> None:
    """Show and write the front of each dataflow or mapspace."""
    from simaccel.report import figures, pareto
    from simaccel.report.titles import experiment_title
    from simaccel.study.pareto import COLUMNS

    title = experiment_title(points[0].workload, points[0].accelerator)
    title += f": {front.y} against {front.x}"
    written = files.write("--csv", partial(pareto.pareto_csv, rows))
    x, y = COLUMNS[front.x], COLUMNS[front.y]
    written += files.write("--plot", lambda: figures.draw_pareto(rows, x, y, title))
    if as_json:
        show_json(pareto.pareto_json(rows, front.x, front.y))
    elif not files.prints:
        show(title, pareto.pareto_table(rows, x, y), *pareto.pareto_lines(rows), *written)
