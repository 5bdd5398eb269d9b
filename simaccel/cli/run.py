"""`simaccel run`: one workload on one accelerator, on the machine and beside its bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

import click

from simaccel.cli.choices import TOP
from simaccel.cli.command import Command
from simaccel.cli.forecast import show_inputs_forecast
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
from simaccel.cli.settings import RowCount, option
from simaccel.cli.several_runs import SeveralRuns, several_runs_options
from simaccel.files.targets import STDOUT
from simaccel.report.units import count_text
from simaccel.units import UNFILLED

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.cli.experiment_options import ExperimentOptions, Inputs
    from simaccel.diagnosis.check import OperatorCheck
    from simaccel.diagnosis.own_estimate import OwnEstimate
    from simaccel.schedulers import Options
    from simaccel.search.accounts import OnAccount, SearchAccount
    from simaccel.study.experiment import ExperimentResult
    from simaccel.study.points import StudyRow
    from simaccel.verbs.running import Result
    from simaccel.workload import Workload


_HINT = "many PEs do nothing: --designs runs arrays of other shapes, and other designs"


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
@option("--trace FILE", "Write a trace (HDF5).")
@option("--csv FILE", "Write a row for each operator; - prints it.", to="table")
@force_option
@several_runs_options
@estimate_option
@option(
    "--designs",
    "Also run designs that differ in one thing: twice the buffer, channels or banks, other "
    "shapes of the array, other stationarities.",
)
@option("--check", "Compare the results with plain numpy.", to="checked")
@dry_run_option
@fast_forward_option
@overflow_option
@jobs_options(SEARCH_JOBS_HELP)
@report_options(
    "Also print the course of the search, also of one whose result was stored.", draws=False
)
@option("--plot FILE", "Draw utilisation and waits by operator (.png, .svg, .pdf).")
@option("--top N|all", f"Rows, the longest first (default {TOP}).", type=RowCount(), default=TOP)
@option("--detail", "Also engines, energy, kinds, channels, buffer, area, bound.")
@json_option
@click.option("--quiet", is_flag=True, hidden=True)
def run(
    *,
    experiment: ExperimentOptions,
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
    top: int | None,
    detail: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run a workload on an accelerator: cycles, utilisation, bytes, energy, stalls.

    The first line has the answer: time, utilisation, the limit, and the speedup without that
    limit. If the workload is a CSV file of layers with a column Estimate, the table has the
    estimates and their errors beside the cycles.
    """
    how = {"fast_forward": fast_forward, "quiet": quiet}
    if (several.tokens, several.stages) != (None, None):
        several.run_and_show(experiment, dry_run=dry_run, as_json=as_json, **how)
        return
    paths = {"--trace": trace, "--csv": table, "--plot": plot}
    files = OutputFiles(paths, force, experiment.inputs() if any(paths.values()) else ())
    files.require()
    if wanted := report.given_options():
        experiment.require_search(wanted)
    own = read_estimates(estimates) if estimates else {}
    entries = experiment.workload.estimates()
    inputs = experiment.read()
    if dry_run:
        show_inputs_forecast(experiment, inputs, paths, runs=True, as_json=as_json)
        return
    from simaccel.report import comparison, results, rows, tables
    from simaccel.report.estimates import of_result, own_estimate_json

    if checked and inputs[1].pod.count > 1:
        from simaccel.diagnosis.check import require_small

        require_small(inputs[0])
    unsearched, inputs = inputs, _search_mapspace(experiment, inputs, jobs, report, quiet=quiet)
    result = _run(experiment, inputs, report, trace, force=force, **how)
    checks = _check(inputs[0], result) if checked else ()
    compared = of_result(own, result) if own else []
    known = {**entries, **own}
    written = [f"trace: {trace}"] if trace else []
    written += files.write("--csv", lambda: tables.csv_text(rows.operator_rows(result, known)))
    written += files.write("--plot", lambda: result.plot().figure)
    beside = _run_neighbours(unsearched, experiment.options, jobs, quiet=quiet) if designs else []
    if as_json:
        document = {"check": [vars(check) for check in checks]} if checks else {}
        document |= own_estimate_json(compared) | report.json(experiment, result.accelerator)
        show_json(result.to_dict() | document | comparison.designs_json(result, beside))
    elif quiet and table != STDOUT:
        show(results.against_bound(result))
    elif table != STDOUT:
        parts = _parts(experiment, report, result, known, top, checks, compared, beside)
        show(*parts, *(_detail(result) if detail else []), *written)


def _parts(
    experiment: ExperimentOptions,
    report: SearchReport,
    result: Result,
    estimates: Mapping[str, float],
    top: int | None,
    checks: Sequence[OperatorCheck],
    compared: Sequence[OwnEstimate],
    beside: Sequence[StudyRow],
) -> list[Table | str]:
    """Return the title, the answer, the longest rows, and what was asked for below them."""
    from simaccel.report.accounts import whole_lines
    from simaccel.report.comparison import designs_table
    from simaccel.report.estimates import own_estimate_parts
    from simaccel.report.pods import dataflow_reason
    from simaccel.report.results import checked_table

    why = dataflow_reason(result) if experiment.is_default else experiment.described_reason()
    parts = [f"{result.title}{why}", *result.parts(estimates, top)]
    parts += [checked_table(checks)] if checks else []
    parts += own_estimate_parts(compared) if compared else []
    parts += [designs_table(result, beside)] if beside else []
    parts += [_HINT] if result.limit.name == UNFILLED and not beside else []
    if report.explain:
        table = report.table(experiment, result.accelerator)
        parts += [table, *whole_lines(result, experiment.objective)]
    return parts


def _run_neighbours(inputs: Inputs, options: Options, jobs: Jobs, *, quiet: bool) -> list[StudyRow]:
    """Run the designs next to an accelerator; ``inputs`` as they are given, without a search."""
    from simaccel.study.neighbour_designs import design_points, neighbour_designs
    from simaccel.study.runs import run_rows

    _, accelerator, dataflow = inputs
    points = design_points(neighbour_designs(accelerator, dataflow, options), inputs, options)
    with jobs.working() as team, ProgressBar("other designs", quiet=quiet) as bar:

        def tell(_: int, row: StudyRow) -> None:
            bar.line(f"{row.settings[0].text}: {row.outcome}")

        return run_rows(points, team, bar.show, on_row=tell)[0]


def _check(whole: Workload, result: Result) -> tuple[OperatorCheck, ...]:
    """Return what a run computed; of a large workload a sample."""
    from simaccel.diagnosis.check import check_or_sample
    from simaccel.diagnosis.check_chips import check_chips

    if result.pod.cuts:
        return check_chips(whole, result.pod)
    return check_or_sample(result.workload, result.mapping, result.program)


def _run(
    experiment: ExperimentOptions,
    inputs: Inputs,
    report: SearchReport,
    trace: str | None,
    *,
    force: bool,
    fast_forward: bool,
    quiet: bool,
) -> Result:
    from simaccel.study.experiment import given_up_json
    from simaccel.verbs.running import wrap_result

    with ProgressBar("simulating", quiet=quiet) as bar:
        run: Callable[..., ExperimentResult]
        if trace is None:
            from simaccel.study.experiment import simulate as run
        else:
            from simaccel.study.recording import record  # h5py only where it is needed

            run = partial(record, trace, force=force)
        result = run(
            *inputs,
            options=replace(experiment.options, on_account=_account_printer(experiment, bar)),
            progress=lambda cycle, done: bar.show(done, f"cycle {cycle:,}"),
            fast_forward=fast_forward,
        )
    searched = given_up_json(report.losses, experiment.objective)  # by a search before
    return wrap_result(replace(result, given_up=result.given_up or searched))


def _account_printer(experiment: ExperimentOptions, bar: ProgressBar) -> OnAccount:
    objective = experiment.objective

    def tell(one: SearchAccount) -> None:
        found = f", best {objective} {one.value:,.6g}" if isfinite(one.value) else ""
        bar.line(f"searched {one.name}: {count_text(one.ran, 'mapping')} run{found}")

    return tell


def _search_mapspace(
    experiment: ExperimentOptions, inputs: Inputs, jobs: Jobs, report: SearchReport, *, quiet: bool
) -> Inputs:
    """Search a mapspace with a progress bar, in several processes with ``--jobs``."""
    from simaccel.mapping.tree import Mapping as Tree
    from simaccel.study.scheduling import schedule_workload

    workload, accelerator, dataflow = inputs
    if isinstance(dataflow, Tree):
        return inputs
    if not (experiment.searches() or jobs != Jobs() or report.given_options()):
        return inputs
    with jobs.working() as team, ProgressBar("searching", quiet=quiet) as bar:
        options = replace(
            experiment.options,
            each=team.run_each,
            watch=bar.show,
            on_account=_account_printer(experiment, bar),
        )
        options, note = replace(options, on_losses=report.losses.append), report.accounts.append
        mapping = schedule_workload(workload, accelerator, dataflow, options, record=note)
        return workload, accelerator, mapping


def _detail(result: Result) -> list[Table | str]:
    from simaccel.report import results
    from simaccel.report.pods import measured_lines
    from simaccel.report.rows import activities, energy_table

    tables: list[Table | str] = [
        results.waits_table(result),
        results.kinds_table(result),
        results.engines_table(activities(result), result.run.cycles),
        *filter(None, [energy_table(result)]),
        results.buffer_line(result),
        results.channels_line(result),
        results.size_line(result),
    ]
    kind, scope = (result.workload.parameters.get(name) for name in ("kind", "scope"))
    if kind == "transformer":
        from simaccel.report.generation import classes_line

        tables.append(classes_line(result))
    if (kind, scope) == ("network", "model"):
        from simaccel.report.catalogues import whole_line

        tables.append(whole_line(result.workload))
    return [
        *tables,
        *measured_lines(result),
        results.cost_line(result),
        results.against_bound(result),
    ]
