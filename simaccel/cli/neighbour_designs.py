"""`run --designs`: what designs next to the accelerator would make of the workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from simaccel.cli.progress import ProgressBar
from simaccel.units import UNFILLED

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.cli.experiment_options import Inputs
    from simaccel.cli.jobs import Jobs
    from simaccel.schedulers import Options
    from simaccel.study.points import StudyRow
    from simaccel.verbs.running import Result

DESIGNS_HELP: Final = (
    "Also run designs that differ in one thing: twice the buffer, channels or banks, other shapes "
    "of the array, other stationarities."
)

_HINT: Final = "many PEs do nothing: --designs runs arrays of other shapes, and other designs"


def run_neighbours(inputs: Inputs, options: Options, jobs: Jobs, *, quiet: bool) -> list[StudyRow]:
    """Run the designs next to an accelerator; ``inputs`` as they are given, without a search."""
    from simaccel.study.neighbour_designs import neighbour_designs, run_designs

    _, accelerator, dataflow = inputs
    designs = neighbour_designs(accelerator, dataflow, options)
    with jobs.working() as team, ProgressBar("other designs", quiet=quiet) as bar:
        return run_designs(designs, inputs, replace(options, each=team.run_each), bar.show)


def neighbour_parts(result: Result, runs: Sequence[StudyRow]) -> list[Table | str]:
    """Return the table of these designs; where none ran, a hint if unused PEs limit the run."""
    if runs:
        from simaccel.report.neighbour_designs import designs_table

        return [designs_table(result, runs)]
    return [_HINT] if result.limit.name == UNFILLED else []


def neighbours_json(result: Result, runs: Sequence[StudyRow]) -> dict[str, Any]:
    """Return these designs as JSON; nothing where none ran."""
    from simaccel.report.neighbour_designs import designs_json

    return designs_json(result, runs) if runs else {}
