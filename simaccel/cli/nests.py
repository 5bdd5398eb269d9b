"""`simaccel map --mapspace`: mapspaces, their search, and what was found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from simaccel.cli.asked import Asked
from simaccel.cli.jobs import Jobs
from simaccel.cli.mapped import Wanted
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import Bar
from simaccel.cli.sought import Sought
from simaccel.experiment.precision import at_precision
from simaccel.experiment.remembered import remembered
from simaccel.experiment.scheduling import MachineJudge, scheduled
from simaccel.hardware import Accelerator
from simaccel.mapspace.nests import Mapped
from simaccel.report.accounts import account_json, accounts_table
from simaccel.report.figures.convergence import draw_convergence
from simaccel.report.figures.style import save_figure, style
from simaccel.report.nests import (
    accesses_table,
    fanouts_table,
    mapped_json,
    mapped_table,
    tree_text,
)
from simaccel.schedulers.accounts import Account
from simaccel.schedulers.spatial import choices, mapping_from, search_all
from simaccel.workload import Workload

if TYPE_CHECKING:
    from simaccel.cli.asked import NestInputs


def map_nests(asked: Asked, read: NestInputs, jobs: Jobs, wanted: Wanted) -> None:
    """Search, print, and save."""
    workload, accelerator, strategy, constraints = read
    workload = at_precision(workload, accelerator)
    found = choices(workload, accelerator, strategy, constraints, asked.sought.stationarity)
    accounts: list[Account] = []
    with jobs.working() as team, Bar("searching") as bar:
        options = replace(asked.options, each=team.each, watch=bar.show, note=accounts.append)
        if not (wanted.asks_how or wanted.as_json or wanted.output):
            mapping = scheduled(workload, accelerator, strategy, options)
            click.echo(wanted.text(mapping), nl=False)
            return
        options = replace(options, judge=MachineJudge(accelerator))
        mapped = search_all(found, options)
        mapping = mapping_from(workload, accelerator, strategy, mapped)
    remembered(workload, accelerator, strategy, options, lambda: mapping, anew=True)
    wanted.save(mapping)
    title = f"{workload.name} on {accelerator.name}: {strategy}"
    objective = asked.sought.effort().objective
    if wanted.plot is not None:
        _plot(mapped, objective, title, wanted)
    if wanted.as_json:
        show_json({**_json(workload, accelerator, asked.sought, mapped), **_how(accounts)})
        return
    show(title, mapped_table(mapped))
    if wanted.explain:
        show(accounts_table(accounts, objective))
    for one in mapped if wanted.explain else ():
        _explain(one)
    show(*([f"mapping: {wanted.output}"] if wanted.output else []))


def _how(accounts: list[Account]) -> dict[str, Any]:
    return {"searches": [account_json(one) for one in accounts]}


def _plot(mapped: list[Mapped], objective: str, title: str, wanted: Wanted) -> None:
    """Draw how the searches went on."""
    assert wanted.plot is not None  # noqa: S101 - narrows the type
    with style():
        curves = [(one.target.einsum.name, one.found.curve, one.found.valid) for one in mapped]
        figure = draw_convergence(curves, objective, title)
        save_figure(figure, wanted.plot, force=wanted.force, inputs=wanted.inputs)


def _explain(mapped: Mapped) -> None:
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
    workload: Workload, accelerator: Accelerator, sought: Sought, mapped: list[Mapped]
) -> dict[str, Any]:
    effort = sought.effort()
    operators = [mapped_json(one) for one in mapped]
    cycles = sum(one["cycles"] for one in operators)
    energy = sum(one["energy_pj"] for one in operators)
    return {
        "workload": workload.name,
        "accelerator": accelerator.name,
        "mapspace": sought.strategy(),
        "objective": effort.objective,
        "seed": effort.seed,
        "cycles": cycles,
        "energy_pj": energy,
        "edp_j_cycles": energy * cycles * 1e-12,
        "operators": operators,
    }
