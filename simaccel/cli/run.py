"""`simaccel run`: one workload on one accelerator, on the machine and beside its bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from simaccel.cli.command import Command
from simaccel.cli.headroom import headroom_lines
from simaccel.cli.jobs import SEARCH_JOBS_HELP, Jobs, jobs_options
from simaccel.cli.neighbour_designs import (
    DESIGNS_HELP,
    neighbour_parts,
    neighbours_json,
    run_neighbours,
)
from simaccel.cli.options import (
    dry_run_option,
    experiment_options,
    fast_forward_option,
    force_option,
    json_option,
    mapping_option,
    overflow_option,
)
from simaccel.cli.outlook import show_inputs_outlook
from simaccel.cli.output import show, show_json
from simaccel.cli.output_files import OutputFiles
from simaccel.cli.own_estimates import (
    compare_with,
    estimate_option,
    estimate_tables,
    estimates_json,
    read_estimates,
)
from simaccel.cli.progress import ProgressBar
from simaccel.cli.search_report import SearchReport, report_options
from simaccel.cli.several_runs import SeveralRuns, several_runs_options
from simaccel.cli.top import ALL, TOP
from simaccel.files.targets import STDOUT
from simaccel.report.units import count_text, cycles_text

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.cli.experiment_options import ExperimentOptions, Inputs
    from simaccel.diagnosis.own_estimate import OwnEstimate
    from simaccel.experiment.check import OperatorCheck
    from simaccel.search.accounts import Note, SearchAccount
    from simaccel.verbs.running import Result
    from simaccel.workload import Workload


@click.command(
    cls=Command,
    examples=(
        "run --hw edge --workload bert --seq-len 512 --batch 64",
        "run --hw tpu_v6e --workload llama3-8b --phase decode --kv-len 1024 --batch 64 --detail",
        "run --hw edge --workload resnet50 --set layer=conv1 --set buffer.capacity_bytes=1MiB",
    ),
)
@experiment_options
@mapping_option
@click.option("--trace", metavar="FILE", help="Write a trace (HDF5).")
@click.option(
    "--csv",
    "table",
    metavar="FILE",
    help="Write a row for each operator; - prints it.",
)
@force_option
@several_runs_options
@estimate_option
@click.option("--designs", is_flag=True, help=DESIGNS_HELP)
@click.option("--check", "checked", is_flag=True, help="Compare the results with plain numpy.")
@dry_run_option
@fast_forward_option
@overflow_option
@jobs_options(SEARCH_JOBS_HELP)
@report_options(
    "Also print the course of the search, also of one whose result was stored.", draws=False
)
@click.option(
    "--plot",
    metavar="FILE",
    help="Draw utilisation and waits by operator (.png, .svg, .pdf).",
)
@click.option("--top", type=TOP, metavar="N|all", help="Rows, the longest first (default 10).")
@click.option(
    "--detail",
    is_flag=True,
    help="Also engines, energy, kinds, channels, buffer, area, bound.",
)
@json_option
@click.option("--quiet", is_flag=True, hidden=True)
def run(
    *,
    asked: ExperimentOptions,
    trace: str | None,
    table: str | None,
    force: bool,
    several: SeveralRuns,
    estimates: tuple[str, ...],
    designs: bool,
    checked: bool,
    dry_run: bool,
    fast_forward: bool,
    jobs: Jobs,
    report: SearchReport,
    plot: str | None,
    top: int | str | None,
    detail: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run a workload on an accelerator: cycles, utilisation, bytes, energy, stalls.

    The first line has the answer: time, utilisation, the limit, and the speedup without that
    limit. If the workload is a CSV file of layers with a column Estimate, the table has the
    estimates and their errors beside the cycles.
    """
    paths = {"--trace": trace, "--csv": table, "--plot": plot}
    how = {"fast_forward": fast_forward, "as_json": as_json, "quiet": quiet}
    if several.run_and_show(asked, dry_run=dry_run, **how):
        return
    files = OutputFiles(paths, force, asked.inputs())
    files.require()
    asked.require_search(report.given_options())
    own, entries = read_estimates(estimates), asked.workload.estimates()
    if dry_run:
        show_inputs_outlook(asked, asked.read(), paths, runs=True, as_json=as_json)
        return
    inputs = asked.read()
    from simaccel.report.default_dataflow import dataflow_reason
    from simaccel.report.results import against_bound

    _require_small(inputs if checked else ())
    unsearched, inputs = inputs, _search_mapspace(asked, inputs, jobs, report, quiet=quiet)
    result = _run(asked, inputs, report, trace, force=force, fast_forward=fast_forward, quiet=quiet)
    checks, compared = _check(inputs[0], result) if checked else (), compare_with(own, result)
    written = _write(files, result, {**entries, **own})
    beside = run_neighbours(unsearched, asked.options, jobs, quiet=quiet) if designs else ()
    if as_json:
        show_json(_json(result, checks, report, asked, compared) | neighbours_json(result, beside))
    elif quiet and table != STDOUT:
        show(against_bound(result))
    elif table != STDOUT:
        why = dataflow_reason(result) if asked.is_default else ""
        parts = [f"{result.title}{why}", *_result_parts(result, checks, {**entries, **own}, top)]
        parts += [*estimate_tables(compared), *neighbour_parts(result, beside)]
        parts += _search_parts(asked, report, result)
        show(*parts, *(_detail(asked, result) if detail else []), *written)


def _write(files: OutputFiles, result: Result, estimates: Mapping[str, float]) -> list[str]:
    """Write the rows as CSV, and the picture, if files for them are given; name all files."""
    from simaccel.report.rows import operator_rows
    from simaccel.report.tables import csv_text

    lines = [f"trace: {path}" for option, path in files.paths.items() if option == "--trace"]
    lines += files.write("--csv", lambda: csv_text(operator_rows(result, estimates)))
    return lines + files.write("--plot", lambda: result.plot().figure)


def _require_small(inputs: Sequence[Any]) -> None:
    """Refuse to check a large workload on several chips."""
    if inputs and inputs[1].pod.count > 1:
        from simaccel.experiment.check import require_small

        require_small(inputs[0])


def _check(whole: Workload, result: Result) -> tuple[OperatorCheck, ...]:
    """Return what a run computed; of a large workload a sample."""
    from simaccel.experiment.check_chips import check_chips
    from simaccel.experiment.sampled_check import check_or_sample

    if result.pod.cuts:
        return check_chips(whole, result.pod)
    return check_or_sample(result.workload, result.mapping, result.program)


def _run(
    asked: ExperimentOptions,
    inputs: Inputs,
    report: SearchReport,
    trace: str | None,
    *,
    force: bool,
    fast_forward: bool,
    quiet: bool,
) -> Result:
    from simaccel.verbs.running import record, simulate

    with ProgressBar("simulating", quiet=quiet) as bar:
        how: dict[str, Any] = {
            "options": replace(asked.options, note=_teller(asked, bar), gave=report.gave.append),
            "progress": lambda cycle, done: bar.show(done, f"cycle {cycles_text(cycle)}"),
            "fast_forward": fast_forward,
        }
        if trace is None:
            return simulate(*inputs, **how)
        return record(trace, *inputs, force=force, **how)


def _teller(asked: ExperimentOptions, bar: ProgressBar) -> Note:
    """Return a callback for each operator, or fused group, whose search has ended."""
    objective = asked.objective

    def tell(one: SearchAccount) -> None:
        found = f", best {objective} {one.value:,.6g}" if isfinite(one.value) else ""
        bar.line(f"searched {one.name}: {count_text(one.ran, 'mapping')} run{found}")

    return tell


def _search_mapspace(
    asked: ExperimentOptions, inputs: Inputs, jobs: Jobs, report: SearchReport, *, quiet: bool
) -> Inputs:
    """Search a mapspace with a progress bar, in several processes with ``--jobs``."""
    from simaccel.experiment.scheduling import schedule_workload
    from simaccel.mapping.tree import Mapping as Tree

    workload, accelerator, dataflow = inputs
    if isinstance(dataflow, Tree):
        return inputs
    if not (asked.searches() or jobs.given_options() or report.given_options()):
        return inputs
    with jobs.working() as team, ProgressBar("searching", quiet=quiet) as bar:
        options = replace(
            asked.options, each=team.run_each, watch=bar.show, note=_teller(asked, bar)
        )
        options, note = replace(options, gave=report.gave.append), report.accounts.append
        mapping = schedule_workload(workload, accelerator, dataflow, options, record=note)
        return workload, accelerator, mapping


def _json(
    result: Result,
    outcome: tuple[OperatorCheck, ...],
    report: SearchReport,
    asked: ExperimentOptions,
    compared: Sequence[OwnEstimate],
) -> dict[str, Any]:
    from simaccel.experiment.run import result_json
    from simaccel.report.pods import pod_json

    return {
        **result_json(result),
        **pod_json(result),
        **_check_json(outcome),
        **estimates_json(compared),
        **_search_json(report, asked, result),
    }


def _search_parts(
    asked: ExperimentOptions, report: SearchReport, result: Result
) -> list[Table | str]:
    """Return the table of the search, if it is wanted, and what its choice gave up."""
    from simaccel.experiment.run import given_up_json, result_json
    from simaccel.report.objective_losses import given_up_lines

    table = [report.table(asked.objective, result.accelerator)] if report.explain else []
    gave = given_up_json(report.gave, asked.objective)
    lines = given_up_lines(result_json(result) | gave, asked.options.tolerance) if gave else []
    return [*table, *lines]


def _check_json(found: tuple[OperatorCheck, ...]) -> dict[str, Any]:
    return {"check": [vars(one) for one in found]} if found else {}


def _search_json(report: SearchReport, asked: ExperimentOptions, result: Result) -> dict[str, Any]:
    from simaccel.experiment.run import given_up_json

    gave = given_up_json(report.gave, asked.objective)
    searches = report.json(asked.objective, result.accelerator) if report.explain else {}
    return {**gave, **searches}


def _result_parts(
    result: Result,
    checks: tuple[OperatorCheck, ...],
    estimates: Mapping[str, float],
    top: int | str | None,
) -> list[Table | str]:
    """Return the answer, the longest rows, traffic and energy, misfits and parts not taken.

    ``top``: rows of the table, or all.
    """
    from simaccel.report import results
    from simaccel.report.checks import checked_table
    from simaccel.report.default_dataflow import start_lines

    rows = None if top == ALL else int(top or results.TOP)
    return [
        *results.answer_lines(result, result.speedups),
        *start_lines(result),
        results.operators_table(result, estimates, rows),
        *([checked_table(checks)] if checks else []),
        *result.cost_lines(),
    ]


def _detail(asked: ExperimentOptions, result: Result) -> list[Table | str]:
    """Return the tables of waits, kinds, engines and energy, and the lines below them."""
    from simaccel.report import results
    from simaccel.report.default_dataflow import measured_lines
    from simaccel.report.energy import energy_table

    tables: list[Table | str] = [
        results.waits_table(result),
        results.kinds_table(result),
        results.engines_table(result),
        energy_table(result),
        results.buffer_line(result),
        results.channels_line(result),
        results.size_line(result),
    ]
    parameters = result.workload.parameters
    if parameters.get("kind") == "transformer":
        from simaccel.report.generation import classes_line

        tables.append(classes_line(result))
    if asked.workload.is_onnx():
        from simaccel.report.imports import import_line

        tables.append(import_line(asked.workload.import_file()))
    if (parameters.get("kind"), parameters.get("scope")) == ("network", "model"):
        from simaccel.report.imports import whole_line

        tables.append(whole_line(result.workload))
    tables += [*measured_lines(result), *headroom_lines(result)]
    return [*tables, results.cost_line(result), results.against_bound(result)]
