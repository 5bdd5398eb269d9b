"""`simaccel map` with dataflows: the mapping, and how its search went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from simaccel.analytic.estimate import estimate as predict
from simaccel.cli.asked import Asked
from simaccel.cli.faults import fault, require_none
from simaccel.cli.jobs import Jobs
from simaccel.cli.output import show, show_json
from simaccel.experiment.scheduling import scheduled
from simaccel.files.targets import writing_text
from simaccel.hardware import Accelerator
from simaccel.mapping.files import mapping_text
from simaccel.mapping.tree import Mapping
from simaccel.report.accounts import account_json, accounts_table
from simaccel.report.figures.convergence import draw_convergence
from simaccel.report.figures.style import save_figure, style
from simaccel.report.titles import experiment_title
from simaccel.report.units import bytes_text
from simaccel.schedulers.accounts import Account
from simaccel.verbs.estimating import fitting
from simaccel.workload import Workload

if TYPE_CHECKING:
    from simaccel.cli.asked import Inputs


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

    @property
    def asks_how(self) -> bool:
        """Whether it is asked how the search went, which a remembered mapping does not say."""
        return self.explain or self.plot is not None

    def save(self, mapping: Mapping) -> None:
        """Write the mapping where that is wanted."""
        if self.output is not None:
            with writing_text(self.output, force=self.force, inputs=self.inputs) as stream:
                stream.write(mapping_text(mapping))


def map_dataflow(asked: Asked, read: Inputs, jobs: Jobs, wanted: Wanted) -> None:
    """Let a dataflow map a workload, save and print it."""
    workload, accelerator, mapping, accounts = _mapped(asked, read, jobs, wanted)
    wanted.save(mapping)
    title = experiment_title(workload, accelerator, mapping.dataflow)
    objective = asked.options.objective
    if wanted.plot is not None:
        curves = [("+".join(one.operators), one.curve, one.judged) for one in accounts]
        with style():
            figure = draw_convergence(curves, objective, title)
            save_figure(figure, wanted.plot, force=wanted.force, inputs=wanted.inputs)
    if wanted.as_json:
        found = yaml.safe_load(mapping_text(mapping))
        explained = {"searches": [account_json(one) for one in accounts]} if wanted.explain else {}
        show_json({**found, **explained})
        return
    if wanted.explain:
        show(title, accounts_table(accounts, objective))
    if wanted.output is None:
        click.echo(wanted.text(mapping), nl=False)
    else:
        reserved = predict(workload, mapping, accelerator).buffer_bytes
        click.echo(f"{wanted.output}: {mapping.dataflow}, reserves {bytes_text(reserved)}")


def _mapped(
    asked: Asked, read: Inputs, jobs: Jobs, wanted: Wanted
) -> tuple[Workload, Accelerator, Mapping, list[Account]]:
    """Schedule, and refuse a mapping that doesn't fit the buffer."""
    workload, accelerator, mapping = read
    accounts: list[Account] = []
    if isinstance(mapping, Mapping):
        allowed = "nothing with --dataflow directives, which decides it"
        given = {**jobs.given(), "--explain": wanted.explain or None, "--plot": wanted.plot}
        require_none(fault(o, v, allowed) for o, v in given.items() if v is not None)
    else:
        with jobs.working() as team:
            options = replace(asked.options, each=team.each, note=accounts.append)
            mapping = scheduled(workload, accelerator, mapping, options, anew=wanted.asks_how)
    return workload, accelerator, fitting(workload, accelerator, mapping), accounts
