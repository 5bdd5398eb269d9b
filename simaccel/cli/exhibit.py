"""`simaccel compare --exhibit` (FLAT's figures 5, 9, 15, 17) and `--pareto`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Literal

from simaccel.cli.choices import FRONT_FIGURES, TARGET
from simaccel.cli.output import OutputFiles
from simaccel.cli.settings import fault
from simaccel.errors import InputError, gather, require_none, suggest

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.search.front import Figure
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
    """Return options and sweeps, of which ``--chips`` may be one, completed by a saved study.

    Raises:
        InputError: it has no such sweep.
    """
    from simaccel.cli.lists import sweep_chips

    study, sweeps = _study_of(name), sweep
    experiment, sweep = sweep_chips(experiment, sweeps)
    if len(sweep) > ("sweep" in study):
        allowed = "nothing with --exhibit, except granularity"
        allowed = "nothing with --pareto" if name == "pareto" else allowed
        allowed = "one with --exhibit granularity" if "sweep" in study else allowed
        chips = [text.removeprefix("chips=") for text in sweep[len(sweeps) :]]
        faults = [("--sweep", sweeps), ("--chips", chips)]
        require_none(fault(option, ", ".join(texts), allowed) for option, texts in faults if texts)
    if experiment.dataflow is None and not experiment.searches():
        experiment = replace(experiment, dataflow=study["dataflow"])
    return experiment, sweep or (
        (_buffers(experiment, study["sweep"]),) if "sweep" in study else ()
    )


def _buffers(experiment: ExperimentOptions, sweep: str) -> str:
    """Return a sweep of buffers without those that are too small for the array."""
    from simaccel.cli.sweep import MOST_POINTS
    from simaccel.hardware.sections import smallest_buffer
    from simaccel.study.parameters import read_axis

    settings = read_axis("--sweep", sweep, MOST_POINTS)
    try:
        least = smallest_buffer(experiment.accelerator().array)
    except InputError:  # said later, with all else that is wrong
        least = 0
    return f"buffer={','.join(str(one.value) for one in settings if one.place >= least)}"


def finder_of(
    exhibit: Exhibit | None, front: tuple[Figure, Figure] | None, target: float | None
) -> Callable[[Point], Record] | None:
    """Return what is searched for each point instead of a run; None: points run."""
    if front is not None:
        return partial(_find_front, front)
    if exhibit == "bandwidth":
        from simaccel.study.exhibits import find_bandwidth

        return partial(find_bandwidth, TARGET if target is None else target)
    return None


def _find_front(front: tuple[Figure, Figure], point: Point) -> Record:
    from simaccel.search.front import FrontFigures
    from simaccel.study.exhibits import pareto

    of = point.workload, point.accelerator, str(point.dataflow), point.options
    return {"result": pareto(*of, FrontFigures(*front))}


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
    from simaccel.report.titles import experiment_title
    from simaccel.study.exhibits import exhibit_rows

    rows = exhibit_rows(exhibit, points, runs)
    lines = problem_lines(runs)
    accelerator, lengths = points[0].accelerator, {point.seq_len for point in points}
    varied = {setting.axis.name for setting in points[0].settings}
    varied |= {"seq-len"} if len(lengths) > 1 else set()
    title = experiment_title(points[0].workload, accelerator, varied=varied)
    title += f": {_study_of(exhibit)['heading']}"
    if exhibit == "bandwidth":
        title += f" of {TARGET if target is None else target:.0%}"
        if any(row["bytes_per_second"] is None and row["utilisation"] for row in rows):
            lines.append("-: no bandwidth is enough; the utilisation is that with the largest")
    files = files if rows else OutputFiles({}, force=False)
    files.show_rows(
        title,
        lambda: (*([exhibit_table(rows)] if rows else []), *lines),
        lambda: exhibit_json(exhibit, rows),
        csv=lambda: rows,
        plot=lambda: figures.draw_exhibit(exhibit, rows, title, accelerator),
        as_json=as_json,
    )


def read_front(text: str | None) -> tuple[Figure, Figure] | None:
    """Read the two figures of a front, ``x,y``; InputError if they are unknown or equal."""
    if text is None:
        return None
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


def require_shown(
    points: Sequence[Point], front: tuple[Figure, Figure] | None, sweep: Sequence[str]
) -> None:
    """Refuse lists without columns in exhibits and fronts, and fronts of unknown energies."""
    from simaccel.cli.lists import refuse_lists
    from simaccel.search.effort import require_energies

    refuse_lists(points, "--exhibit" if front is None else "--pareto", sweep)
    gather(*(partial(require_energies, points[0].accelerator, one) for one in front or ()))


def show_fronts(
    front: tuple[Figure, Figure],
    points: Sequence[Point],
    rows: Sequence[StudyRow],
    files: OutputFiles,
    *,
    as_json: bool,
) -> None:
    """Show and write the front of each dataflow or mapspace."""
    from simaccel.report import exhibits, figures
    from simaccel.report.titles import experiment_title
    from simaccel.study.exhibits import FRONT_COLUMNS

    title = experiment_title(points[0].workload, points[0].accelerator)
    title += f": {front[1]} against {front[0]}"
    x, y = (FRONT_COLUMNS[figure] for figure in front)
    files.show_rows(
        title,
        lambda: (exhibits.pareto_table(rows, x, y), *exhibits.pareto_lines(rows)),
        lambda: exhibits.pareto_json(rows, *front),
        csv=lambda: exhibits.pareto_rows(rows),
        plot=lambda: figures.draw_pareto(rows, x, y, title),
        as_json=as_json,
    )
