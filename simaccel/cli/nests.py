"""`simaccel map --mapspace`: mapspaces, their search, and what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from simaccel.cli.asked import Asked
from simaccel.cli.faults import gather
from simaccel.cli.jobs import Jobs
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import Bar
from simaccel.cli.sought import Sought
from simaccel.files.targets import writing_text
from simaccel.hardware import Accelerator
from simaccel.hardware.dataflow import parse_constraints
from simaccel.mapping.files import mapping_text
from simaccel.mapping.tree import Mapping
from simaccel.mapspace.nests import Mapped
from simaccel.report.figures.convergence import draw_convergence
from simaccel.report.figures.style import save_figure, style
from simaccel.report.nests import (
    accesses_table,
    fanouts_table,
    mapped_json,
    mapped_table,
    tree_text,
)
from simaccel.schedulers.spatial import choices, mapping_from, search_all
from simaccel.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What `map` does with what it found."""

    output: str | None
    plot: str | None
    force: bool
    inputs: list[Path]
    explain: bool
    as_json: bool
    text: Callable[[Mapping], str]
    """What is printed where nothing is written."""


def map_nests(asked: Asked, jobs: Jobs, wanted: Wanted) -> None:
    """Search, print, and save."""
    output, explain, as_json = wanted.output, wanted.explain, wanted.as_json
    workload, accelerator, strategy, constraints, _ = gather(
        asked.workload.read,
        asked.accelerator,
        asked.sought.strategy,
        lambda: parse_constraints(asked.sought.constraints),
        lambda: asked.names(several=False),
    )
    found = choices(workload, accelerator, strategy, constraints)
    with jobs.working() as team, Bar("searching") as bar:
        mapped = search_all(found, replace(asked.options, each=team.each, watch=bar.show))
    mapping = mapping_from(workload, accelerator, strategy, mapped)
    if output is not None:
        with writing_text(output, force=wanted.force, inputs=wanted.inputs) as stream:
            stream.write(mapping_text(mapping))
    title = f"{workload.name} on {accelerator.name}: {strategy}"
    if wanted.plot is not None:
        _plot(mapped, asked.sought.effort().objective, title, wanted)
    if as_json:
        show_json(_json(workload, accelerator, asked.sought, mapped))
    elif output is None and not explain:
        click.echo(wanted.text(mapping), nl=False)
    if not as_json and (output is not None or explain):
        show(title, mapped_table(mapped))
        for one in mapped if explain else ():
            _explain(one)
        show(*([f"mapping: {output}"] if output else []))


def _plot(mapped: list[Mapped], objective: str, title: str, wanted: Wanted) -> None:
    """Draw how the searches went on."""
    assert wanted.plot is not None  # noqa: S101 - narrows the type
    with style():
        figure = draw_convergence(mapped, objective, title)
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
