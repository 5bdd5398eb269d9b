"""`simaccel map --mapspace`: mapspaces, their search, and what was found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.jobs import Jobs
from simaccel.cli.map_options import MapOptions
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.experiment.precision import placed_on
from simaccel.experiment.remembered import RememberedMapping, remember
from simaccel.experiment.scheduling import schedule_workload
from simaccel.hardware import Accelerator
from simaccel.report.nests import (
    accesses_table,
    fanouts_table,
    mapped_json,
    mapped_table,
    tree_text,
)
from simaccel.schedulers import Options, settle_options
from simaccel.schedulers.spatial import choices, mapping_from, search_all
from simaccel.search.mapspace.nests import NestResult
from simaccel.workload import Workload

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import NestInputs


def map_nests(asked: ExperimentOptions, read: NestInputs, jobs: Jobs, wanted: MapOptions) -> None:
    """Search, print, and save."""
    workload, accelerator, strategy, constraints = read
    workload = placed_on(workload, accelerator)
    options = settle_options(asked.options, accelerator)
    searched = choices(workload, accelerator, strategy, constraints, options.stationarity)
    told = wanted.told
    with jobs.working() as team, ProgressBar("searching") as bar:
        options = replace(options, each=team.each, watch=bar.show)
        options = replace(options, note=told.accounts.append, gave=told.gave.append)
        if not wanted.asks_more:
            mapping = schedule_workload(workload, accelerator, strategy, options)
            click.echo(wanted.text(mapping), nl=False)
            wanted.say_given_up(asked)
            return
        mapped = search_all(searched, options, workload)
        mapping = mapping_from(workload, accelerator, strategy, mapped)
    kept = RememberedMapping(mapping, told.accounts, told.gave)
    remember(workload, accelerator, strategy, options, kept)
    wanted.save(mapping)
    title = f"{workload.name} on {accelerator.name}: {strategy}"
    objective = options.effort.aim
    told.draw(objective, title, force=wanted.force, inputs=wanted.inputs)
    if wanted.as_json:
        show_json(
            {
                **_json(workload, accelerator, options, mapped),
                "mapspace": strategy,
                **replace(told, explain=True).json(),
            }
        )
        return
    show(title, mapped_table(mapped))
    if told.explain:
        show(told.table(objective))
    for nest in mapped if told.explain else ():
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


def _json(
    workload: Workload, accelerator: Accelerator, options: Options, mapped: list[NestResult]
) -> dict[str, Any]:
    effort = options.effort
    operators = [mapped_json(nest) for nest in mapped]
    cycles = sum(operator["cycles"] for operator in operators)
    energy = sum(operator["energy_pj"] for operator in operators)
    return {
        "workload": workload.name,
        "accelerator": accelerator.name,
        "objective": effort.aim,
        "seed": effort.seed,
        "cycles": cycles,
        "energy_pj": energy,
        "edp_j_cycles": energy * cycles * 1e-12,
        "operators": operators,
    }
