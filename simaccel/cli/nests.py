"""`simaccel map --mapspace`: the search of mapspaces, and its results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from simaccel.analytic.prediction import GroupPrediction, predict
from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.jobs import Jobs
from simaccel.cli.map_options import MapOptions
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.experiment.remembered import RememberedMapping, remember
from simaccel.experiment.run import known_energies
from simaccel.experiment.scheduling import schedule_workload
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Mapping
from simaccel.report.nests import (
    accesses_table,
    fanouts_table,
    mapped_table,
    mapspace_json,
    tree_text,
)
from simaccel.schedulers import settle_options
from simaccel.schedulers.spatial import choices, mapping_from, search_all
from simaccel.search.mapspace.nests import NestResult
from simaccel.workload import Vector, Workload

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import NestInputs


def map_nests(asked: ExperimentOptions, read: NestInputs, jobs: Jobs, wanted: MapOptions) -> None:
    """Search a mapspace, print the mapping, and save it."""
    workload, accelerator, strategy, constraints = read
    options = settle_options(asked.options, accelerator)
    searched = choices(workload, accelerator, strategy, constraints, options.stationarity)
    report = wanted.report
    with jobs.working() as team, ProgressBar("searching") as bar:
        options = replace(options, each=team.run_each, watch=bar.show)
        options = replace(options, note=report.accounts.append, gave=report.gave.append)
        if not wanted.asks_more:
            mapping = schedule_workload(workload, accelerator, strategy, options)
            click.echo(wanted.text(mapping), nl=False)
            wanted.say_given_up(asked)
            return
        mapped = search_all(searched, options, workload)
        mapping = mapping_from(workload, accelerator, strategy, mapped)
    kept = RememberedMapping(mapping, report.accounts, report.gave)
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
                **mapspace_json(workload, mapped, vectors, objective),
                "mapspace": strategy,
                **replace(report, explain=True).json(objective, accelerator),
            }
        )
        return
    show(title, mapped_table(mapped, vectors))
    if report.explain:
        show(report.table(objective, accelerator))
    for nest in mapped if report.explain else ():
        _explain(nest)
    show(*([f"mapping: {wanted.output}"] if wanted.output else []))
    wanted.say_given_up(asked)


def _explain(mapped: NestResult) -> None:
    array = mapped.target.hierarchy.macs_per_cycle
    show(
        f"{mapped.target.einsum.name}: {mapped.macs:,} MACs, of them {mapped.ineffectual:,} "
        f"ineffectual, in {mapped.steps:,} steps of at most {array}; bound by "
        f"{', '.join(mapped.bounds) or 'nothing alone'}",
        "",
        tree_text(mapped),
        "",
        fanouts_table(mapped),
        accesses_table(mapped),
    )


def _vectors(
    workload: Workload, accelerator: Accelerator, mapping: Mapping
) -> list[GroupPrediction]:
    """Return the predictions of a mapping's vector operators, over all repetitions."""
    names = {one.name for one in workload.operators if isinstance(one, Vector)}
    found = predict(workload, mapping, accelerator).groups
    return [
        replace(one, energy_pj=known_energies(one.energy_pj, accelerator))
        for one in found
        if one.name in names
    ]
