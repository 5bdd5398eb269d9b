"""`simaccel estimate` and `map`: predictions, and mappings as files."""

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
    force_option,
    jobs_options,
    json_option,
    mapping_option,
    read_estimates,
    report_options,
)
from simaccel.cli.output import OutputFiles, show, show_json
from simaccel.cli.settings import option
from simaccel.files.targets import STDOUT

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import NestInputs


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
    from simaccel.study.placement import gather_placed

    workload, accelerator, strategy, constraints, _ = gather_placed(
        experiment.workload.read,
        experiment.accelerator,
        experiment.search.strategy,
        lambda: parse_constraints(experiment.search.constraints),
        lambda: experiment.names(several=False),
    )
    return workload, accelerator, strategy, constraints
