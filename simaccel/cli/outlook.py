"""`--dry-run` of run, map and compare: the cost of the searches, estimated beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simaccel.cli.output import show, show_json
from simaccel.errors import SimaccelError

if TYPE_CHECKING:
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
    from simaccel.report.outlook import outlook_json, outlook_lines, outlook_table

    if as_json:
        show_json(outlook_json(searches, files, runs=runs))
    else:
        every = [*lines, *outlook_lines(searches, files, runs=runs)]
        show(f"{title}: not run", outlook_table(searches), *every)


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
