"""`simaccel explain`: a run beside its bound and MAESTRO's directives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from simaccel.cli.command import Command
from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.options import (
    estimate_option,
    experiment_options,
    fast_forward_option,
    force_option,
    json_option,
    mapping_option,
    overflow_option,
    read_estimates,
)
from simaccel.cli.output import OutputFiles
from simaccel.cli.progress import ProgressBar
from simaccel.cli.settings import option

if TYPE_CHECKING:
    from rich.table import Table


@click.command(cls=Command)
@experiment_options
@mapping_option
@option("-o FILE", "Write an HTML page; - prints it.", to="output")
@estimate_option
@force_option
@fast_forward_option
@overflow_option
@option(
    "--measure/--no-measure",
    "Measure costs that directives do not know. By running without each of them.",
    default=True,
    show_default=True,
)
@json_option
def explain(
    *,
    experiment: ExperimentOptions,
    output: str | None,
    estimates: tuple[str, ...],
    force: bool,
    fast_forward: bool,
    measure: bool,
    as_json: bool,
) -> None:
    """Explain a run by three analyses: machine, bounds and MAESTRO's directives.

    Where two of them differ, the page has the difference and the assumption that causes it.
    """
    files = OutputFiles({"-o": output}, force, experiment.inputs())
    files.require()
    own = read_estimates(estimates)
    inputs = experiment.read()
    from simaccel.papers.maestro.commands import explanation_tables as explanation
    from simaccel.papers.maestro.commands.attribution import MOST_RUNS, attribute
    from simaccel.papers.maestro.commands.explanation import explain as explained_of
    from simaccel.papers.maestro.dataflows.translating import DIRECTIVES, directives_for
    from simaccel.report.estimates import of_result, own_estimate_json, own_estimate_sections
    from simaccel.report.results import against_bound, traffic_line
    from simaccel.report.titles import experiment_title
    from simaccel.study.experiment import simulate

    with ProgressBar("simulating") as bar:
        result = simulate(
            *inputs,
            options=experiment.options,
            progress=lambda cycle, done: bar.show(done, f"cycle {cycle:,}"),
            fast_forward=fast_forward,
        )
    is_directed = inputs[-1] == DIRECTIVES
    explained = explained_of(result, directives_for(result.workload).layers if is_directed else ())
    if measure:
        with ProgressBar("measuring") as bar:
            explained = attribute(
                result, explained, lambda runs: bar.show(runs / MOST_RUNS, f"{runs} runs")
            )
    title = experiment_title(result.workload, result.accelerator, result.mapping.dataflow)
    compared = of_result(own, result)
    sections = own_estimate_sections(compared) | explanation.explanation_sections(explained)
    lines = [traffic_line(result), against_bound(result)]
    parts: list[Table | str] = []
    for name, table in sections.items():
        parts += [name, table if table.row_count else "nowhere"]
    files.show_rows(
        title,
        lambda: [*parts, *lines],
        lambda: explanation.explanation_json(result, explained) | own_estimate_json(compared),
        {"-o": lambda: explanation.explanation_html(title, explained, sections, lines)},
        as_json=as_json,
    )
