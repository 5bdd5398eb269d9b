"""`simaccel compare`: several dataflows and lengths side by side, in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from simaccel.cli.choices import EACH, FRONT_FIGURES, METRIC_NAMES, SWEPT, TARGET
from simaccel.cli.command import Command
from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.options import (
    JOBS_HELP,
    Jobs,
    dry_run_option,
    experiment_options,
    fast_forward_option,
    force_option,
    jobs_options,
    json_option,
    overflow_option,
)
from simaccel.cli.output import OutputFiles, brief_warnings, command_line, exit_code_of
from simaccel.cli.progress import ProgressBar
from simaccel.cli.settings import OF_RUNS, NamedValues, PluggedName, option
from simaccel.cli.several_runs import PIPELINE_OPTIONS
from simaccel.errors import SimaccelError, gather
from simaccel.files.targets import STDOUT, partial_path, real_path, writing_text

if TYPE_CHECKING:
    from simaccel.study.figure_table import Figure
    from simaccel.study.points import Point, Record, StudyRow


@click.command(
    cls=Command,
    shown=("jobs",),
    examples=(
        "compare --hw edge,cloud --workload bert --seq-len 512,4096 --dataflow flex,flat",
        "compare --hw edge --workload resnet18 --set mapspace=pfm,ruby-s --metric reads,footprint",
    ),
)
@experiment_options
@option(
    "--sweep NAME=FROM:TO:STEP",
    "Also vary a parameter: buffer=64KiB:64MiB:x2, array=16,32x64; can be repeated. "
    f"One of {', '.join(SWEPT)}, any field of the accelerator, or any other --axis of explore.",
    multiple=True,
)
@option(
    "--pareto X,Y",
    "Print the mappings that no other one beats in both figures. Figures: "
    f"{', '.join(FRONT_FIGURES)}.",
)
@option(
    "--exhibit NAME",
    "Print a figure of FLAT's evaluation (Figs. 5, 9, 15, 17). Operational intensity "
    "(roofline), utilisation by granularity and buffer (granularity), cycles by part (breakdown), "
    "or the needed DRAM bandwidth (bandwidth). Or an exhibit of a plug-in.",
    type=PluggedName("simaccel.exhibits"),
)
@option(
    "--target SHARE",
    f"For --exhibit bandwidth: the utilisation to reach (default {TARGET}).",
    OF_RUNS,
    type=click.FloatRange(min=0, max=1, min_open=True),
)
@option("--csv FILE", "Write the rows as CSV; - prints it.", to="table")
@option("--each operator", "Run each operator (or layer) alone, in a row.", type=NamedValues(EACH))
@option(
    "--mapping FILE",
    "Also run the mapping in this file (see `simaccel map`); can be repeated.",
    to="mappings",
    multiple=True,
)
@option(
    "--metric NAME,...",
    f"Additional columns: {', '.join(METRIC_NAMES)}. --plot draws the first one.",
    to="metrics",
    multiple=True,
)
@option(
    "--plot FILE",
    "Draw utilisation and stalls, or the --metric. As .png, .svg or .pdf; with "
    "--sweep buffer also bounds.",
)
@option("--store DIR", "Keep rows in this folder, and do not run them again.", OF_RUNS)
@PIPELINE_OPTIONS[0]
@PIPELINE_OPTIONS[1]
@dry_run_option
@force_option
@jobs_options(JOBS_HELP)
@fast_forward_option
@overflow_option
@json_option
@click.pass_context
def compare(
    ctx: click.Context,
    *,
    experiment: ExperimentOptions,
    sweep: tuple[str, ...],
    each: str | None,
    pareto: str | None,
    exhibit: str | None,
    target: float | None,
    table: str | None,
    mappings: tuple[str, ...],
    metrics: tuple[str, ...],
    plot: str | None,
    stages: str | None,
    micro_batches: int | None,
    store: str | None,
    dry_run: bool,
    force: bool,
    jobs: Jobs,
    fast_forward: bool,
    as_json: bool,
) -> None:
    """Compare runs: lists of dataflows, mapspaces, accelerators, lengths, batches and phases.

    Options that take a list: --dataflow flex,flat --mapspace pfm,ruby-s --hw edge,cloud
    --seq-len 512,4096 --batch 1,4,16 --phase prefill,decode --stationarity ws,os,is
    --objective cycles,energy --tensor-parallel 1,2,4 --pipeline-parallel 1,2. All combinations
    are run. --chips 1,2,4x4 is a sweep. Without --dataflow and --mapspace the default one is
    run, or, if nothing else differs, several. The speedup is relative to the first with the
    same other values.
    """
    from simaccel.cli import lists

    files = OutputFiles({"--csv": table, "--plot": plot}, force, experiment.inputs())
    from simaccel.cli import exhibit as saved

    saved.require_fitting(exhibit, target, store, dry_run=dry_run)
    front = saved.read_front(pareto)
    if is_saved := bool(exhibit or front):
        experiment, sweep = saved.with_defaults(experiment, exhibit, sweep)
    experiment, sweep = lists.sweep_chips(experiment, sweep)
    wanted = lists.WantedRows(files, sweep, each, mappings, stages, micro_batches)
    every, shown = gather(lambda: wanted.points(experiment), lambda: lists.metrics_of(metrics))
    points = [replace(point, fast_forward=fast_forward) for point in every]
    lists.require_tokens(shown, points)
    if is_saved:
        saved.require_shown(points, front, sweep)
    if dry_run:
        from simaccel.cli.forecast import forecasts_of, show_forecast
        from simaccel.verbs.comparing import comparison_title

        searches = forecasts_of(points, [_name(point.row) for point in points])
        show_forecast(comparison_title(points), searches, files.options, runs=True, as_json=as_json)
        return

    def finish(rows: Sequence[StudyRow]) -> None:
        if front is not None:
            saved.show_fronts(front, points, rows, files, as_json=as_json)
        elif exhibit is not None:
            saved.show_exhibit(exhibit, points, rows, files, target, as_json=as_json)
        else:
            from simaccel.verbs.comparing import Comparison, comparison_title

            compared = Comparison(comparison_title(points), tuple(rows), shown, points)
            with brief_warnings():
                files.show_rows(compared.title, **compared.outputs(), as_json=as_json)

    find = saved.finder_of(exhibit, front, target)
    ctx.exit(_run_all(points, table, jobs, store, finish, find))


def _run_all(
    points: Sequence[Point],
    table: str | None,
    jobs: Jobs,
    store: str | None,
    finish: Callable[[Sequence[StudyRow]], None],
    find: Callable[[Point], Record] | None,
) -> int:
    """Run points, and return the exit code, which is 0 if one ran; ``find``: as of `make_record`.

    Finished runs are saved if the command ends before ``finish`` has shown them.
    """
    from simaccel.cli.forecast import processes_of
    from simaccel.study.runs import run_rows
    from simaccel.study.store import ROWS, open_store, store_in

    kept = store_in(store, ROWS)
    open_store(kept, command_line(), 0)

    with (
        keep_partial_results(None if find else table, [point.row for point in points]) as note,
        ProgressBar("comparing") as bar,
    ):

        def note_row(number: int, row: StudyRow) -> None:
            note(number, row)
            bar.line(f"{_name(row)}: {row.outcome}")

        count = os.cpu_count() or 1 if find else processes_of(points)
        with jobs.working(count) as team:
            how = {"whole": True, "find": find} if find else {"whole": True}
            rows, _ = run_rows(points, team, bar.show, kept, note_row, **how)
        finish(rows)
    return exit_code_of(rows)


def _name(row: StudyRow) -> str:
    length = "" if row.seq_len is None else f"{row.seq_len} tokens"
    settings = (setting.text for setting in row.settings)
    return ", ".join(part for part in (*settings, length, row.dataflow) if part)


UNFINISHED = "not finished"


@contextmanager
def keep_partial_results(
    table: str | None, expected: Sequence[StudyRow]
) -> Iterator[Callable[[int, StudyRow], None]]:
    """Yield a callback that records each finished row; they are saved on an error or a signal.

    Then a CSV file beside ``table`` has the rows, with unfinished ones marked, and its path is
    reported. If ``table`` is standard output, the rows are printed.
    """
    rows = [replace(row, problem=UNFINISHED, exit_code=1) for row in expected]
    finished: set[int] = set()

    def record_row(number: int, row: StudyRow) -> None:
        rows[number] = row
        finished.add(number)

    try:
        yield record_row
    except BaseException:
        if table == STDOUT and finished:
            click.echo(_csv(rows), nl=False)
        elif table is not None and finished:
            partial = str(partial_path(real_path(table)))
            with suppress(SimaccelError), writing_text(partial, force=True) as stream:
                stream.write(_csv(rows))
                text = f"{len(finished)} of {len(rows)} finished points are in {partial}"
                click.echo(text, err=True)
        raise


def _csv(rows: Sequence[StudyRow], metrics: Sequence[Figure] = ()) -> str:
    from simaccel.report.comparison import comparison_rows
    from simaccel.report.tables import csv_text

    return csv_text(comparison_rows(rows, metrics))
