"""`simaccel map` on spatial arrays: mapspaces, their search, and what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from simaccel.cli.asked import Asked, fault, gather
from simaccel.cli.output import show, show_json
from simaccel.cli.parallel import workers
from simaccel.cli.progress import Bar
from simaccel.errors import InputError, SimaccelError, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.dataflow import Constraints, parse_constraints
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.mapping.choices import Group, Mapping, NestGroup
from simaccel.mapping.files import mapping_text, save_mapping
from simaccel.report.nests import (
    accesses_table,
    fanouts_table,
    loops_text,
    mapped_json,
    mapped_table,
)
from simaccel.schedulers.blocks import OBJECTIVES, Objective
from simaccel.schedulers.mapspace import STRATEGIES, Strategy
from simaccel.schedulers.nests import Mapped, Target, map_einsum
from simaccel.schedulers.problems import mapping_of
from simaccel.schedulers.ruby import Each, Effort
from simaccel.workload import Einsum, Workload

_MAPSPACE: Strategy = "ruby-s"
_INPUTS = 2


class NotNestedError(SimaccelError):
    """An operator that no spatial array takes; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Sought:
    """The options that choose a mapspace and how to search it, as given."""

    mapspace: str | None = None
    objective: Objective | None = None
    constraints: tuple[str, ...] = ()
    patience: int | None = None
    budget_seconds: float | None = None
    seed: int | None = None
    jobs: int | None = None
    explain: bool = False

    def given(self) -> list[tuple[str, object]]:
        """Give the options that were used."""
        names = {"constraints": "--constrain"}
        return [
            (names.get(name, f"--{name.replace('_', '-')}"), value)
            for name, value in vars(self).items()
            if value
        ]

    def strategy(self) -> Strategy:
        """Give the mapspace.

        Raises:
            InputError: there is none of this name.

        """
        asked = self.mapspace or _MAPSPACE
        for known in STRATEGIES:
            if known == asked:
                return known
        raise InputError([fault("--mapspace", asked, suggest(asked, STRATEGIES))])

    def effort(self) -> Effort:
        """Give what the search is told."""
        given = {
            name: value
            for name in ("objective", "patience", "budget_seconds", "seed")
            if (value := getattr(self, name)) is not None
        }
        return Effort(**given)


def search_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a search; the command gets ``sought``."""

    @wraps(command)
    def with_search(**given: Any) -> None:  # noqa: ANN401 - what click passes
        names = [name for name in Sought.__dataclass_fields__ if name in given]
        sought = Sought(**{name: given.pop(name) for name in names})
        command(sought=sought, **given)

    options = (
        click.option(
            "--mapspace",
            metavar="NAME",
            help=f"Spatial arrays: {', '.join(STRATEGIES)} (default {_MAPSPACE}).",
        ),
        click.option(
            "--objective", type=click.Choice(OBJECTIVES), help="What is made small (default edp)."
        ),
        click.option(
            "--constrain",
            "constraints",
            multiple=True,
            metavar="LEVEL[.RANK]=..",
            help="Limit a level: cols=Q,M, rows.S=5, 'pe.C<=4', buffer.order=M,C, "
            "buffer.keep=input; over the accelerator's dataflow.",
        ),
        click.option(
            "--patience",
            type=click.IntRange(min=1),
            help="Valid mappings without improvement after which a search ends "
            f"(default {Effort.patience:,}).",
        ),
        click.option(
            "--budget-seconds",
            type=click.FloatRange(min=0, min_open=True),
            help="End the search of an operator after this time, at the cost of repeatability.",
        ),
        click.option("--seed", type=click.IntRange(min=0), help="Of the search (default 0)."),
        click.option(
            "--jobs", type=click.IntRange(min=1), help="Processes; the result is the same."
        ),
        click.option("--explain", is_flag=True, help="Say what limits the best mapping."),
    )
    decorated = with_search
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def is_spatial(asked: Asked) -> bool:
    """Say whether the accelerator has a spatial array; one that is wrong has none."""
    try:
        return isinstance(asked.accelerator().array, SpatialArraySpec)
    except InputError:
        return False


def refuse_search(sought: Sought, accelerator: str) -> None:
    """Refuse the options of a search where there is nothing to search.

    Raises:
        InputError: all options that were given.

    """
    allowed = f"nothing with {accelerator}, whose array is systolic; --dataflow chooses there"
    faults = [fault(option, value, allowed) for option, value in sought.given()]
    if faults:
        raise InputError(faults)


def map_nests(asked: Asked, sought: Sought, output: str | None, *, as_json: bool) -> None:
    """Search, print, and save."""
    workload, accelerator, strategy, constraints, _ = gather(
        asked.workload.read,
        asked.accelerator,
        sought.strategy,
        lambda: parse_constraints(sought.constraints),
        lambda: _refuse_dataflow(asked),
    )
    targets = _targets(workload, accelerator, strategy, constraints)
    with workers(sought.jobs or 1) as each:
        mapped = _search(targets, sought.effort(), each)
    mapping = _mapping(workload, strategy, mapped)
    if output is not None:
        save_mapping(mapping, Path(output))
    if as_json:
        show_json(_json(workload, accelerator, sought, mapped))
    elif output is None and not sought.explain:
        click.echo(mapping_text(mapping), nl=False)
    if not as_json and (output is not None or sought.explain):
        show(f"{workload.name} on {accelerator.name}: {strategy}", mapped_table(mapped))
        for one in mapped if sought.explain else ():
            _explain(one)
        show(*([f"mapping: {output}"] if output else []))


def _refuse_dataflow(asked: Asked) -> None:
    allowed = "nothing on a spatial array; --mapspace chooses there"
    given = {"--dataflow": asked.dataflow, "--pipeline": asked.pipeline or None}
    faults = [fault(name, value, allowed) for name, value in given.items() if value is not None]
    if faults:
        raise InputError(faults)


def _targets(
    workload: Workload, accelerator: Accelerator, strategy: Strategy, asked: Constraints
) -> list[Target]:
    """Give what is to be mapped, all of it checked before anything is searched."""
    array = accelerator.array
    dataflow = parse_constraints(array.dataflow if isinstance(array, SpatialArraySpec) else ())
    found = []
    for operator in workload.operators:
        if not isinstance(operator, Einsum) or len(operator.inputs) > _INPUTS:
            raise NotNestedError(
                f"{accelerator.name}: operator {operator.name} is no einsum of one or two inputs; "
                "spatial arrays take matrix products and convolutions (--layer chooses one)"
            )
        target = Target(
            einsum=operator,
            tensors=workload.tensors,
            hierarchy=levels(accelerator),
            strategy=strategy,
            dataflow=dataflow,
            asked=asked,
        )
        target.problem()
        found.append(target)
    return found


def _search(targets: list[Target], effort: Effort, each: Each) -> list[Mapped]:
    """Search each operator; those of one shape once."""
    seen: dict[object, Mapped] = {}
    found = []
    for at, target in enumerate(targets):
        shape = _shape(target)
        if shape not in seen:
            with Bar(f"{target.einsum.name} ({at + 1} of {len(targets)})") as bar:
                seen[shape] = map_einsum(target, effort, each, bar.show)
        found.append(replace(seen[shape], target=target))
    return found


def _shape(target: Target) -> object:
    einsum = target.einsum
    operands = (*einsum.inputs, einsum.output)
    widths = tuple(target.tensors[one.tensor].bytes_per_element for one in operands)
    return tuple(einsum.ranks.items()), tuple(one.projection for one in operands), widths


def _mapping(workload: Workload, strategy: Strategy, mapped: list[Mapped]) -> Mapping:
    groups: list[Group] = [
        NestGroup(operator=one.target.einsum.name, mapping=one.mapping) for one in mapped
    ]
    return mapping_of(workload, strategy, groups)


def _explain(mapped: Mapped) -> None:
    costs, array = mapped.costs, mapped.target.hierarchy.macs_per_cycle
    show(
        f"{mapped.target.einsum.name}: {int(costs.macs[0]):,} MACs, of them "
        f"{int(costs.ineffectual[0]):,} ineffectual, in {int(costs.steps[0]):,} steps of at most "
        f"{array}; bound by {', '.join(mapped.bounds) or 'nothing alone'}",
        "",
        loops_text(mapped),
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
