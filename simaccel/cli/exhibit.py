"""`simaccel compare --exhibit`, of guests and plug-ins, and `--pareto`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from simaccel.cli.choices import FRONT_FIGURES, TARGET
from simaccel.cli.output import OutputFiles
from simaccel.cli.settings import fault, listed_values
from simaccel.errors import InputError, gather, require_none
from simaccel.study.points import EXHIBITS

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.search.front import Figure
    from simaccel.study.points import Point, Record, StudyRow

_FRONTS: Final = "naive,flex,flat,flash"
"""The dataflows whose fronts are compared where nothing else is given."""


def with_defaults(
    experiment: ExperimentOptions, exhibit: str | None, sweep: tuple[str, ...]
) -> tuple[ExperimentOptions, tuple[str, ...]]:
    """Return options and sweeps, of which ``--chips`` may be one, completed by a saved study.

    ``exhibit``: None for fronts.

    Raises:
        InputError: it has no such sweep.
    """
    from simaccel.cli.lists import sweep_chips

    dataflow, saved = _FRONTS, ""
    if exhibit is not None:
        dataflow, saved = EXHIBITS[exhibit].dataflow, EXHIBITS[exhibit].sweep
    sweeps = sweep
    experiment, sweep = sweep_chips(experiment, sweeps)
    if len(sweep) > bool(saved):
        beside = "--pareto" if exhibit is None else f"--exhibit {exhibit}"
        allowed = f"{'one' if saved else 'nothing'} with {beside}"
        chips = [text.removeprefix("chips=") for text in sweep[len(sweeps) :]]
        faults = [("--sweep", sweeps), ("--chips", chips)]
        require_none(fault(option, ", ".join(texts), allowed) for option, texts in faults if texts)
    allowed = f"another parameter with --exhibit {exhibit}; --dataflow takes a list, A,B"
    flows = (text for text in sweep if text.partition("=")[0].strip() == "dataflow")
    require_none(fault("--sweep", text, allowed) for text in flows)
    if experiment.dataflow is None and not experiment.searches():
        experiment = replace(experiment, dataflow=dataflow)
    return experiment, sweep or ((_buffers(experiment, saved),) if saved else ())


def _buffers(experiment: ExperimentOptions, sweep: str) -> str:
    """Return a sweep, of buffers without those that are too small for the array."""
    if not sweep.startswith("buffer="):
        return sweep
    from simaccel.cli.sweep import MOST_POINTS
    from simaccel.hardware.sections import smallest_buffer
    from simaccel.study.parameters import read_axis

    settings = read_axis("--sweep", sweep, MOST_POINTS)
    try:
        least = smallest_buffer(experiment.accelerator().array)
    except InputError:  # said later, with all else that is wrong
        least = 0
    kept = (str(setting.value) for setting in settings if setting.place >= least)
    return f"buffer={','.join(kept)}"


def require_fitting(
    exhibit: str | None, target: float | None, store: str | None, *, dry_run: bool
) -> None:
    """Refuse ``target`` where runs are shown, ``store`` and ``dry_run`` where a search is.

    What is stored are runs, whatever the exhibit searches.
    """
    finds = exhibit is not None and EXHIBITS[exhibit].find is not None
    allowed = f"nothing with --exhibit {exhibit}"
    options: dict[str, object] = {"--dry-run": "given" if dry_run else None, "--store": store}
    if not finds:
        allowed, options = "nothing without --exhibit bandwidth", {"--target": target}
    require_none(fault(name, text, allowed) for name, text in options.items() if text is not None)


def finder_of(
    exhibit: str | None, front: tuple[Figure, Figure] | None, target: float | None
) -> Callable[[Point], Record] | None:
    """Return what is searched for each point instead of a run; None: points run."""
    if front is not None:
        return partial(_find_front, front)
    if exhibit is None or EXHIBITS[exhibit].find is None:
        return None
    return partial(_find, exhibit, TARGET if target is None else target)


def _find(exhibit: str, target: float, point: Point) -> Record:
    find = EXHIBITS[exhibit].find
    assert find is not None  # noqa: S101 - as of `finder_of`
    with EXHIBITS.running(exhibit, "searching"):
        record = find(target, point)
        replace(point.row, **record)  # what it returns are attributes of the row
        return record


def _find_front(front: tuple[Figure, Figure], point: Point) -> Record:
    from simaccel.search.front import FrontFigures
    from simaccel.study.fronts import pareto

    of = point.workload, point.accelerator, str(point.dataflow), point.options
    return {"result": pareto(*of, FrontFigures(*front))}


def show_exhibit(
    name: str,
    points: Sequence[Point],
    runs: Sequence[StudyRow],
    files: OutputFiles,
    target: float | None,
    *,
    as_json: bool,
) -> None:
    """Show and write an exhibit made of the rows of a comparison; in JSON infinity is null."""
    from simaccel.report.comparison import problem_lines
    from simaccel.report.tables import csv_text
    from simaccel.report.titles import experiment_title

    exhibit, accelerator = EXHIBITS[name], points[0].accelerator
    varied = {setting.axis.name for setting in points[0].settings}
    varied |= {"seq-len"} if len({point.seq_len for point in points}) > 1 else set()
    title = experiment_title(points[0].workload, accelerator, varied=varied)
    with EXHIBITS.running(name, "showing"):
        title += f": {exhibit.heading.format(target=TARGET if target is None else target)}"
        rows = exhibit.rows(points, runs)
        finite = [{key: None if n == inf else n for key, n in row.items()} for row in rows]
        tables, lines = [exhibit.table(rows)] if rows else [], [*exhibit.notes(rows)]

    def draw() -> object:
        with EXHIBITS.running(name, "drawing"):
            return exhibit.draw(rows, title, accelerator)

    files = files if rows else OutputFiles({}, force=False)
    files.show_rows(
        title,
        lambda: (*tables, *problem_lines(runs), *lines),
        lambda: {"exhibit": name, "rows": finite},
        {"--csv": lambda: csv_text(rows), "--plot": draw},
        as_json=as_json,
    )


def read_front(text: str | None) -> tuple[Figure, Figure] | None:
    """Read the two figures of a front, ``x,y``; InputError if they are unknown or equal."""
    if text is None:
        return None
    named = [name.strip() for name in text.split(",")]
    names = listed_values("--pareto", list(dict.fromkeys(named)), FRONT_FIGURES)
    if not len(names) == len(named) == len(("x", "y")):
        allowed = f"two different figures of {', '.join(FRONT_FIGURES)}"
        raise InputError([fault("--pareto", text, allowed)])
    x, y = (figure for name in names for figure in FRONT_FIGURES if figure == name)
    return x, y


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
    from simaccel.report import figures, fronts
    from simaccel.report.tables import csv_text
    from simaccel.report.titles import experiment_title
    from simaccel.study.fronts import FRONT_COLUMNS

    title = experiment_title(points[0].workload, points[0].accelerator)
    title += f": {front[1]} against {front[0]}"
    x, y = (FRONT_COLUMNS[figure] for figure in front)
    files.show_rows(
        title,
        lambda: (fronts.pareto_table(rows, x, y), *map(fronts.pareto_line, rows)),
        lambda: fronts.pareto_json(rows, *front),
        {
            "--csv": lambda: csv_text(fronts.pareto_rows(rows)),
            "--plot": lambda: figures.draw_pareto(rows, x, y, title),
        },
        as_json=as_json,
    )
