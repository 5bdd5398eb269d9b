"""`--dry-run` of run, map and compare: the cost of the searches, estimated beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simaccel.cli.output import show, show_json
from simaccel.errors import SimaccelError

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions, Inputs
    from simaccel.experiment.outlook import SearchForecast
    from simaccel.report.outlook import Outlooks
    from simaccel.study.points import Point

Files = Mapping[str, str | None]
"""Files that would be written, by option."""


def show_outlook(
    title: str,
    searches: Outlooks,
    files: Files,
    *,
    runs: bool,
    as_json: bool,
    lines: Sequence[str] = (),
) -> None:
    """Print the estimated cost of searches; ``runs``: whether their results would be run.

    ``lines``: what else is to say of them.
    """
    from simaccel.report.outlook import outlook_json, outlook_lines

    if as_json:
        show_json(outlook_json(searches, files, runs=runs))
    else:
        show(f"{title}: not run", *lines, *outlook_lines(searches, files, runs=runs))


def show_inputs_outlook(
    asked: ExperimentOptions,
    read: Inputs,
    files: Files,
    *,
    runs: bool,
    as_json: bool,
    anew: bool = False,
) -> None:
    """Print what the search, and the run if it ``runs``, of one experiment costs.

    ``anew``: it is searched even where the mapping is remembered.
    """
    from simaccel.experiment.outlook import outlook
    from simaccel.mapping.tree import Mapping as Tree
    from simaccel.report.titles import experiment_title
    from simaccel.verbs.estimating import fitting

    workload, accelerator, dataflow = read
    if isinstance(dataflow, Tree):
        fitting(workload, accelerator, dataflow)
    name = dataflow.dataflow if isinstance(dataflow, Tree) else dataflow
    title = experiment_title(workload, accelerator, name)
    searches = [(name, outlook(*read, asked.options, anew=anew))]
    show_outlook(title, searches, files, runs=runs, as_json=as_json)


def outlooks_of(points: Sequence[Point], names: Sequence[str]) -> Outlooks:
    """Return the outlooks of several searches, or the reason why one is impossible.

    A pipeline has one for each different stage.
    """
    from simaccel.experiment.outlook import outlooks

    searches: list[tuple[str, SearchForecast | str]] = []
    for name, point in zip(names, points, strict=True):
        try:
            each = outlooks(
                point.workload,
                point.accelerator,
                point.dataflow,
                point.options,
                stages=point.stages,
                micro_batches=point.micro_batches,
            )
        except SimaccelError as error:
            searches.append((name, str(error)))
            continue
        searches += [(f"{name}, {part}" if part else name, forecast) for part, forecast in each]
    return searches
