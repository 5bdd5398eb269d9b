"""`simaccel map` with dataflows and mapspaces: the mapping, and the report of its search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from simaccel.analytic.prediction import GroupPrediction, predict
from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.options import Jobs, SearchReport
from simaccel.cli.output import OutputFiles, show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.files.targets import STDOUT
from simaccel.hardware import Accelerator
from simaccel.mapping.documents import mapping_document
from simaccel.mapping.files import mapping_text
from simaccel.mapping.text import tree_lines
from simaccel.mapping.tree import Mapping
from simaccel.report.accounts import given_up_lines
from simaccel.report.mapspaces import accesses_table, fanouts_table, mapped_table, mapspace_json
from simaccel.report.titles import experiment_title
from simaccel.report.units import bytes_text
from simaccel.schedulers import settle_options
from simaccel.schedulers.spatial import choices, mapping_from, search_all
from simaccel.search.mapspace.nests import NestResult
from simaccel.study.experiment import given_up_json, known_energies
from simaccel.study.scheduling import RememberedMapping, remember, schedule_workload
from simaccel.verbs.estimating import estimate_of, require_mapping_fits
from simaccel.workload import Vector, Workload

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import Inputs, NestInputs


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """The options of `map` for its output."""

    files: OutputFiles
    report: SearchReport
    as_json: bool
    text: Callable[[Mapping], str]
    """Returns the text that is printed if no file is written."""

    @property
    def output(self) -> str | None:
        """The file of the mapping; None if it is printed."""
        output = self.files.paths.get("-o")
        return None if output == STDOUT else output

    @property
    def options(self) -> dict[str, str | None]:
        """The output files by option."""
        return {**self.files.options, "-o": self.output}

    @property
    def needs_search(self) -> bool:
        """Whether more than the mapping is needed, so that even a stored search runs again."""
        return bool(self.report.given_options() or self.as_json or self.output)

    def save(self, mapping: Mapping) -> None:
        """Write the mapping if a file is given."""
        if self.output is not None:
            self.files.write("-o", lambda: mapping_text(mapping))

    def print_losses(self, experiment: ExperimentOptions) -> None:
        """Print the losses of a near-tie beside the mapping."""
        tolerance = experiment.options.tolerance
        found = given_up_json(self.report.losses, experiment.objective)
        for line in given_up_lines(found, tolerance):
            click.echo(line, err=self.output is None)  # what is printed is a file for --mapping


def map_dataflow(
    experiment: ExperimentOptions, read: Inputs, jobs: Jobs, wanted: MapOptions
) -> None:
    """Map a workload by a dataflow; write and print the mapping."""
    workload, accelerator, mapping = _map_to_fit(experiment, read, jobs, wanted.report)
    wanted.save(mapping)
    title = experiment_title(workload, accelerator, mapping.dataflow)
    wanted.report.draw(experiment.objective, title, wanted.files)
    if wanted.as_json:
        show_json({**mapping_document(mapping), **wanted.report.json(experiment, accelerator)})
        return
    if wanted.report.explain:
        show(title, wanted.report.table(experiment, accelerator))
    if wanted.output is None:
        click.echo(wanted.text(mapping), nl=False)
    else:
        footprint = estimate_of(workload, accelerator, mapping).prediction.buffer_bytes
        click.echo(f"{wanted.output}: {mapping.dataflow}, footprint {bytes_text(footprint)}")
    wanted.print_losses(experiment)


def _map_to_fit(
    experiment: ExperimentOptions, read: Inputs, jobs: Jobs, report: SearchReport
) -> tuple[Workload, Accelerator, Mapping]:
    """Schedule, and refuse a mapping that doesn't fit the buffer."""
    workload, accelerator, mapping = read
    if not isinstance(mapping, Mapping):
        with jobs.working() as team:
            options = replace(
                experiment.options, each=team.run_each, on_losses=report.losses.append
            )
            note = report.accounts.append
            mapping = schedule_workload(workload, accelerator, mapping, options, record=note)
    return workload, accelerator, require_mapping_fits(workload, accelerator, mapping)


def map_nests(
    experiment: ExperimentOptions, read: NestInputs, jobs: Jobs, wanted: MapOptions
) -> None:
    """Search a mapspace; write and print the mapping."""
    workload, accelerator, strategy, constraints = read
    options = settle_options(experiment.options, accelerator)
    searched = choices(workload, accelerator, strategy, constraints, options.stationarity)
    report = wanted.report
    with jobs.working() as team, ProgressBar("searching") as bar:
        options = replace(options, each=team.run_each, watch=bar.show)
        options = replace(
            options, on_account=report.accounts.append, on_losses=report.losses.append
        )
        if not wanted.needs_search:
            mapping = schedule_workload(workload, accelerator, strategy, options)
            click.echo(wanted.text(mapping), nl=False)
            wanted.print_losses(experiment)
            return
        mapped = search_all(searched, options, workload)
        mapping = mapping_from(workload, accelerator, strategy, mapped)
    kept = RememberedMapping(mapping, report.accounts, report.losses)
    remember(workload, accelerator, strategy, options, kept)
    wanted.save(mapping)
    title = f"{workload.name} on {accelerator.name}: {strategy}"
    objective = options.effort.aim
    report.draw(objective, title, wanted.files)
    vectors = _vectors(workload, accelerator, mapping)
    if wanted.as_json:
        show_json(
            {
                "workload": workload.name,
                "accelerator": accelerator.name,
                "objective": objective,
                "seed": options.effort.seed,
                **mapspace_json(workload, mapped, vectors),
                "mapspace": strategy,
                **replace(report, explain=True).json(experiment, accelerator),
            }
        )
        return
    show(title, mapped_table(mapped, vectors))
    if report.explain:
        show(report.table(experiment, accelerator))
        for nest in mapped:
            _explain(nest)
    show(*([f"mapping: {wanted.output}"] if wanted.output else []))
    wanted.print_losses(experiment)


def _explain(mapped: NestResult) -> None:
    array = mapped.target.hierarchy.macs_per_cycle
    show(
        f"{mapped.target.einsum.name}: {mapped.macs:,} MACs, of them {mapped.ineffectual:,} "
        f"ineffectual, in {mapped.steps:,} steps of at most {array}; bound by "
        f"{', '.join(mapped.bounds) or 'nothing alone'}",
        "",
        *tree_lines(mapped.group.tree),
        "",
        fanouts_table(mapped),
        accesses_table(mapped),
    )


def _vectors(
    workload: Workload, accelerator: Accelerator, mapping: Mapping
) -> list[GroupPrediction]:
    names = {one.name for one in workload.operators if isinstance(one, Vector)}
    found = predict(workload, mapping, accelerator).groups
    return [
        replace(one, energy_pj=known_energies(one.energy_pj, accelerator))
        for one in found
        if one.name in names
    ]
