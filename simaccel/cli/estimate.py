"""`simaccel estimate`, `explain` and `map`: predictions, analyses, and mappings as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from simaccel.cli.command import Command
from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.options import (
    SEARCH_JOBS_HELP,
    Jobs,
    SearchReport,
    dry_run_option,
    estimate_option,
    experiment_options,
    fast_forward_option,
    force_option,
    jobs_options,
    json_option,
    mapping_option,
    overflow_option,
    read_estimates,
    report_options,
)
from simaccel.cli.output import OutputFiles, show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.cli.settings import option
from simaccel.files.targets import STDOUT

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import NestInputs
    from simaccel.papers.maestro.dataflows.reading import DirectedLayer


@click.command(cls=Command)
@experiment_options
@mapping_option
@estimate_option
@json_option
def estimate(experiment: ExperimentOptions, estimates: tuple[str, ...], as_json: bool) -> None:
    """Predict the counts, the work and the lower bound of a run, without simulation."""
    own = read_estimates(estimates)
    workload, accelerator, mapping = experiment.read_mapping()
    from simaccel.report import estimates as report
    from simaccel.report.estimates import estimate_table
    from simaccel.verbs.estimating import estimate_of, require_mapping_fits

    outcome = estimate_of(
        workload, accelerator, require_mapping_fits(workload, accelerator, mapping)
    )
    compared = report.own_estimates(own, outcome.workload, accelerator, outcome.prediction)
    if as_json:
        show_json({**outcome.to_dict(), **report.own_estimate_json(compared)})
    else:
        table = estimate_table(outcome.prediction, outcome.accelerator)
        show(outcome.title, table, *report.own_estimate_parts(compared))


@click.command(
    "map",
    cls=Command,
    shown=("mapspace", "objective", "stationarity", "constrain", "patience", "explain", "jobs"),
    examples=(
        "map --hw edge --workload bert --seq-len 512 --dataflow flat -o flat.yaml",
        "map --hw eyeriss_like --workload conv --shape M=64,C=64,P=56,Q=56,R=3,S=3 --explain",
    ),
)
@experiment_options
@option("-o --output FILE", "File for the mapping; - prints it (default: print its tree).")
@jobs_options(SEARCH_JOBS_HELP)
@report_options("Also print the course of the search. Also what limits the best of a mapspace.")
@dry_run_option
@force_option
@json_option
def map_workload(
    *,
    experiment: ExperimentOptions,
    output: str | None,
    jobs: Jobs,
    report: SearchReport,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Map a workload by a dataflow or a mapspace, and save the mapping as YAML.

    With --mapspace, and on spatial arrays, the best mapping of a mapspace is searched.
    """
    files = OutputFiles({"-o": output, "--plot": report.plot}, force, experiment.inputs())
    experiment.require_search(report.given_options())
    files.require()
    nests = _nest_inputs(experiment) if experiment.searches() and not dry_run else None
    read = experiment.read() if nests is None else None
    from simaccel.cli.forecast import show_inputs_forecast
    from simaccel.cli.map_options import MapOptions, map_dataflow, map_nests
    from simaccel.mapping.files import mapping_text
    from simaccel.mapping.text import tree_text

    text = mapping_text if output == STDOUT else tree_text
    wanted = MapOptions(files=files, report=report, as_json=as_json, text=text)
    if nests is not None:
        map_nests(experiment, nests, jobs, wanted)
    elif read is not None and dry_run:
        anew = experiment.searches() and wanted.needs_search
        show_inputs_forecast(
            experiment, read, wanted.options, runs=False, as_json=as_json, anew=anew
        )
    elif read is not None:
        map_dataflow(experiment, read, jobs, wanted)


def _nest_inputs(experiment: ExperimentOptions) -> NestInputs:
    from simaccel.hardware.dataflow import parse_constraints
    from simaccel.study.precision import gather_placed

    workload, accelerator, strategy, constraints, _ = gather_placed(
        experiment.workload.read,
        experiment.accelerator,
        experiment.search.strategy,
        lambda: parse_constraints(experiment.search.constraints),
        lambda: experiment.names(several=False),
    )
    return workload, accelerator, strategy, constraints


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
    from simaccel.diagnosis.attribution import MOST_RUNS, attribute
    from simaccel.diagnosis.explanation import explain as explained_of
    from simaccel.papers.maestro.dataflows.reading import load_directives
    from simaccel.report import explanation
    from simaccel.report.estimates import of_result, own_estimate_json, own_estimate_sections
    from simaccel.report.results import against_bound, bound_line
    from simaccel.report.titles import experiment_title
    from simaccel.study.experiment import simulate

    directed: tuple[DirectedLayer, ...] = ()
    if experiment.is_directed():
        directed = (
            load_directives(experiment.workload.name).select_layer(experiment.workload.layer).layers
        )
    with ProgressBar("simulating") as bar:
        result = simulate(
            *inputs,
            options=experiment.options,
            progress=lambda cycle, done: bar.show(done, f"cycle {cycle:,}"),
            fast_forward=fast_forward,
        )
    explained = explained_of(result, directed)
    if measure:
        with ProgressBar("measuring") as bar:
            explained = attribute(
                result, explained, lambda runs: bar.show(runs / MOST_RUNS, f"{runs} runs")
            )
    title = experiment_title(result.workload, result.accelerator, result.mapping.dataflow)
    compared = of_result(own, result)
    sections = own_estimate_sections(compared) | explanation.explanation_sections(explained)
    lines = [bound_line(result), against_bound(result)]
    written = files.write(
        "-o", lambda: explanation.explanation_html(title, explained, sections, lines)
    )
    if as_json:
        show_json(
            {**explanation.explanation_json(result, explained), **own_estimate_json(compared)}
        )
    elif not files.prints:
        show(title)
        for name, table in sections.items():
            show(name, table if table.row_count else "nowhere")
        show(*lines, *written)
