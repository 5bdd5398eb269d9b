"""`simaccel map` with dataflows: the mapping, and how its search went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.jobs import Jobs
from simaccel.cli.output import show, show_json
from simaccel.cli.output_files import OutputFiles
from simaccel.cli.search_report import SearchReport
from simaccel.experiment.scheduling import schedule_workload
from simaccel.files.targets import STDOUT
from simaccel.hardware import Accelerator
from simaccel.mapping.documents import mapping_document
from simaccel.mapping.files import mapping_text
from simaccel.mapping.tree import Mapping
from simaccel.report.objective_losses import given_up_amounts
from simaccel.report.titles import experiment_title
from simaccel.report.units import bytes_text
from simaccel.verbs.estimating import estimate_of, fitting
from simaccel.workload import Workload

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import Inputs


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """The options of `map`: what to do with its result."""

    files: OutputFiles
    report: SearchReport
    as_json: bool
    text: Callable[[Mapping], str]
    """What is printed where nothing is written."""

    @property
    def output(self) -> str | None:
        """The file of the mapping; None where it is printed."""
        output = self.files.paths.get("-o")
        return None if output == STDOUT else output

    @property
    def options(self) -> dict[str, str | None]:
        """The files that are written, by option."""
        return {**self.files.options, "-o": self.output}

    @property
    def asks_more(self) -> bool:
        """Whether options need more than the mapping, so that a mapspace is searched anew."""
        return bool(self.report.given_options() or self.as_json or self.output)

    def save(self, mapping: Mapping) -> None:
        """Write the mapping where that is wanted."""
        if self.output is not None:
            self.files.write("-o", lambda: mapping_text(mapping))

    def say_given_up(self, asked: ExperimentOptions) -> None:
        """Print the cost of the choice among near-ties, beside a mapping that is printed."""
        tolerance = asked.options.tolerance
        for line in given_up_amounts(self.report.gave, asked.objective, tolerance):
            click.echo(line, err=self.output is None)  # what is printed is a file for --mapping


def map_dataflow(asked: ExperimentOptions, read: Inputs, jobs: Jobs, wanted: MapOptions) -> None:
    """Map a workload by a dataflow; save and print the mapping."""
    workload, accelerator, mapping = _map_to_fit(asked, read, jobs, wanted.report)
    wanted.save(mapping)
    title = experiment_title(workload, accelerator, mapping.dataflow)
    objective = asked.objective
    wanted.report.draw(objective, title, wanted.files)
    if wanted.as_json:
        searches = wanted.report.json(objective, accelerator) if wanted.report.explain else {}
        show_json({**mapping_document(mapping), **searches})
        return
    if wanted.report.explain:
        show(title, wanted.report.table(objective, accelerator))
    if wanted.output is None:
        click.echo(wanted.text(mapping), nl=False)
    else:
        footprint = estimate_of(workload, accelerator, mapping).prediction.buffer_bytes
        click.echo(f"{wanted.output}: {mapping.dataflow}, footprint {bytes_text(footprint)}")
    wanted.say_given_up(asked)


def _map_to_fit(
    asked: ExperimentOptions, read: Inputs, jobs: Jobs, report: SearchReport
) -> tuple[Workload, Accelerator, Mapping]:
    """Schedule, and refuse a mapping that doesn't fit the buffer."""
    workload, accelerator, mapping = read
    if not isinstance(mapping, Mapping):
        with jobs.working() as team:
            options = replace(asked.options, each=team.run_each, gave=report.gave.append)
            note = report.accounts.append
            mapping = schedule_workload(workload, accelerator, mapping, options, record=note)
    return workload, accelerator, fitting(workload, accelerator, mapping)
