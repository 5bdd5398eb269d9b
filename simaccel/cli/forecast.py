"""The estimated cost of searches and runs: shown by `--dry-run`, and what processes follow from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from simaccel.cli.output import show, show_json
from simaccel.errors import SimaccelError
from simaccel.report.units import count_text, seconds_text

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions, Inputs
    from simaccel.study.forecast import SearchForecast
    from simaccel.study.points import Point

    Forecasts = Sequence[tuple[str, SearchForecast | str]]
    """Searches by name, or the reason why one can't be."""

Files = Mapping[str, str | None]
"""Output files by option."""
_SECONDS_ALONE: Final = 3.0
"""Forecast CPU seconds up to which points run in one process."""


def show_forecast(
    title: str,
    searches: Forecasts,
    files: Files,
    *,
    runs: bool,
    as_json: bool,
    lines: Sequence[str] = (),
) -> None:
    """Print the estimated cost of searches, and of the runs after them if ``runs``.

    Searches that are impossible are named, and the files that would be written. ``lines``: further
    lines to print.
    """
    able = [each for _, each in searches if not isinstance(each, str)]
    search_seconds = sum(each.seconds or 0.0 for each in able)
    run_seconds = sum(each.run_seconds for each in able) if runs else 0.0
    if as_json:
        every = [
            {"name": name, **({"problem": each} if isinstance(each, str) else vars(each))}
            for name, each in searches
        ]
        costs = {"search_seconds": search_seconds, "run_seconds": run_seconds}
        show_json({"searches": every, **costs, "writes": [path for path in files.values() if path]})
        return
    stored, distinct, operators = (
        sum(getattr(each, name) for each in able)
        for name in ("remembered", "distinct", "operators")
    )
    show(
        f"{title}: not run",
        *lines,
        f"{count_text(operators, 'operator')}, {distinct:,} distinct to search: about "
        f"{seconds_text(search_seconds)} of CPU time"
        f"{', and what plug-ins take' * any(each.seconds is None for each in able)}"
        f"{f', {seconds_text(run_seconds)} to run' * runs}; "
        f"{stored} of {count_text(len(able), 'mapping')} remembered",
        *(f"{name}: {each}" for name, each in searches if isinstance(each, str)),
        *(f"would write {path} ({option})" for option, path in files.items() if path),
    )


def show_inputs_forecast(
    experiment: ExperimentOptions,
    read: Inputs,
    files: Files,
    *,
    runs: bool,
    as_json: bool,
    anew: bool = False,
) -> None:
    """Print the estimated cost of one experiment: its search, and its run if ``runs``.

    ``anew``: the search is not answered from the store.
    """
    from simaccel.mapping.tree import Mapping as Tree
    from simaccel.report.titles import experiment_title
    from simaccel.study.forecast import forecast
    from simaccel.verbs.estimating import require_mapping_fits

    workload, accelerator, dataflow = read
    if isinstance(dataflow, Tree):
        require_mapping_fits(workload, accelerator, dataflow)
    name = dataflow.dataflow if isinstance(dataflow, Tree) else dataflow
    title = experiment_title(workload, accelerator, name)
    searches = [(name, forecast(*read, experiment.options, anew=anew))]
    show_forecast(title, searches, files, runs=runs, as_json=as_json)


def forecasts_of(points: Sequence[Point], names: Sequence[str]) -> Forecasts:
    """Return the cost forecasts of several searches, or the reason why one is impossible.

    A pipeline has one for each distinct stage.
    """
    from simaccel.study.forecast import forecasts

    searches: list[tuple[str, SearchForecast | str]] = []
    for name, point in zip(names, points, strict=True):
        try:
            each = forecasts(point)
        except SimaccelError as error:
            searches.append((name, str(error)))
            continue
        searches += [(", ".join(filter(None, (name, part))), cost) for part, cost in each]
    return searches


def processes_of(points: Sequence[Point]) -> int:
    """Return the number of processes for points: one per processor, or 1 if all take little.

    Starting a process takes half a second.
    """
    from simaccel.study.forecast import forecast_seconds

    runs = [run for point in points if not point.problem for run in point.runs]
    takes_little = forecast_seconds(runs, _SECONDS_ALONE) <= _SECONDS_ALONE
    return 1 if takes_little else min(os.cpu_count() or 1, len(runs))
