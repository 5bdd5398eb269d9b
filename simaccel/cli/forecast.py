"""The estimated cost of searches and runs: shown by `--dry-run`, and what processes follow from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from simaccel.cli.output import show, show_json
from simaccel.errors import SimaccelError
from simaccel.report.units import count_text

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions, Inputs
    from simaccel.study.forecast import SearchForecast
    from simaccel.study.points import Point

    Forecasts = Sequence[tuple[str, SearchForecast | str]]
    """Searches by name, or the reason why one can't be."""

Files = Mapping[str, str | None]
"""Output files by option."""
_FEW: Final = 16
"""Points whose forecast stands for all."""
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

    ``lines``: further lines to print.
    """
    if as_json:
        show_json(forecast_json(searches, files, runs=runs))
    else:
        show(f"{title}: not run", *lines, *forecast_lines(searches, files, runs=runs))


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
        searches += [(f"{name}, {part}" if part else name, forecast) for part, forecast in each]
    return searches


def processes_of(points: Sequence[Point]) -> int:
    """Return the number of processes for points: one per processor, or 1 if all take little.

    That follows from some of them. Starting a process takes half a second.
    """
    few = points[:: -(-len(points) // _FEW) or 1]
    runs = [run for point in few if not point.problem for run in point.runs]
    seconds = 0.0
    for run in runs:
        every = [each for _, each in forecasts_of([run], [""]) if not isinstance(each, str)]
        seconds += sum(each.cpu_seconds for each in every)
        if seconds * len(points) / len(few) > _SECONDS_ALONE:
            return min(os.cpu_count() or 1, sum(len(point.loads) for point in points))
    return 1


def forecast_lines(searches: Forecasts, files: Files, *, runs: bool) -> list[str]:
    """Return lines with the total cost, the impossible searches, and the files to be written.

    ``runs``: the mappings found then run on the machine.
    """
    figures = forecast_json(searches, files, runs=runs)
    able = [each for _, each in searches if not isinstance(each, str)]
    stored, distinct = (sum(each.remembered for each in able), sum(each.distinct for each in able))
    operators = sum(each.operators for each in able)
    cost = f"{count_text(operators, 'operator')}, {distinct:,} distinct to search: about "
    cost += f"{_rough_seconds(figures['search_seconds'])} of CPU time"
    cost += ", and what plug-ins take" * any(each.seconds is None for each in able)
    cost += f", {_rough_seconds(figures['run_seconds'])} to run" * runs
    return [
        f"{cost}; {stored} of {count_text(len(able), 'mapping')} remembered",
        *(f"{name}: {each}" for name, each in searches if isinstance(each, str)),
        *(f"would write {path} ({option})" for option, path in files.items() if path),
    ]


def forecast_json(searches: Forecasts, files: Files, *, runs: bool) -> dict[str, Any]:
    """Return the forecasts as one JSON object (``--dry-run --json``)."""
    able = [each for _, each in searches if not isinstance(each, str)]
    return {
        "searches": [
            {"name": name, **({"problem": each} if isinstance(each, str) else vars(each))}
            for name, each in searches
        ],
        "search_seconds": sum(each.seconds or 0.0 for each in able),
        "run_seconds": sum(each.run_seconds for each in able) if runs else 0.0,
        "writes": [path for path in files.values() if path],
    }


def _rough_seconds(seconds: float) -> str:
    """Write seconds that are known roughly.

    >>> _rough_seconds(0.042), _rough_seconds(2.71), _rough_seconds(163.5)
    ('0.042 s', '2.7 s', '160 s')
    """
    return f"{float(f'{seconds:.2g}'):,g} s"
