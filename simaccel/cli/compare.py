"""`simaccel compare`: several dataflows and lengths side by side, in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from simaccel.cli.choices import EACH, EXHIBITS, FRONT_FIGURES, METRIC_NAMES, SWEPT, TARGET
from simaccel.cli.command import Command
from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.faults import fault, gather, require_none, require_stdout_free
from simaccel.cli.jobs import JOBS_HELP, Jobs, jobs_options
from simaccel.cli.options import (
    dry_run_option,
    experiment_options,
    fast_forward_option,
    force_option,
    json_option,
    overflow_option,
)
from simaccel.cli.output import show, show_json
from simaccel.cli.output_files import OutputFiles
from simaccel.cli.progress import ProgressBar
from simaccel.cli.several_runs import pipeline_options
from simaccel.errors import WorkerDiedError, suggest

if TYPE_CHECKING:
    from simaccel.cli.lists import OptionVariant
    from simaccel.cli.sweep import Sweep
    from simaccel.report.comparison import ComparisonRow
    from simaccel.report.exhibits import Exhibit
    from simaccel.report.metrics import Metric
    from simaccel.verbs.comparing import ComparisonTask


def _lost_row(task: ComparisonTask) -> ComparisonRow:
    """Give the row of a run whose process died."""
    problem = "its process died; is there enough memory?"
    return replace(task.row, problem=problem, exit_code=WorkerDiedError.exit_code)


@click.command(cls=Command)
@experiment_options
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME=FROM:TO:STEP",
    help="Also vary one parameter: buffer=64KiB:64MiB:x2, seq-len=512:4096:+512 or "
    f"array=16,32x64; one of {', '.join(SWEPT)}.",
)
@click.option(
    "--pareto",
    metavar="X,Y",
    help="Print all mappings that no other one beats in both of two figures: "
    f"{', '.join(FRONT_FIGURES)}.",
)
@click.option(
    "--exhibit",
    type=click.Choice(EXHIBITS),
    help="Print a figure of FLAT's evaluation: operational intensity, utilisation by "
    "granularity and buffer, cycles by part, or the needed DRAM bandwidth (Figs. 5,"
    " 9, 15, 17).",
)
@click.option(
    "--target",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="SHARE",
    help=f"For --exhibit bandwidth: the utilisation to reach (default {TARGET}).",
)
@click.option(
    "--csv",
    "table",
    metavar="FILE",
    help="Write the rows to this file as CSV; - prints it.",
)
@click.option(
    "--each",
    metavar="WHAT",
    help="Run each operator (or layer) alone, in a row of its own: --each operator.",
)
@click.option(
    "--mapping",
    "mappings",
    multiple=True,
    metavar="FILE",
    help="Also run the mapping in this file (see `simaccel map`); can be repeated.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME,...",
    help=f"Additional columns: {', '.join(METRIC_NAMES)}. --plot draws the first one.",
)
@click.option(
    "--plot",
    metavar="FILE",
    help="Draw utilisation and stalls, or the --metric (.png, .svg or .pdf); with "
    "--sweep buffer also bounds.",
)
@pipeline_options
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
    asked: ExperimentOptions,
    sweep: tuple[str, ...],
    each: str | None,
    pareto: str | None,
    exhibit: Exhibit | None,
    target: float | None,
    table: str | None,
    mappings: tuple[str, ...],
    metrics: tuple[str, ...],
    plot: str | None,
    stages: str | None,
    micro_batches: int | None,
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
    are run. Without --dataflow and --mapspace the default one is run, or, if nothing else
    differs, several. The speedup is relative to the first with the same other values.
    """
    from simaccel.cli import lists

    files = OutputFiles({"--csv": table, "--plot": plot}, force, asked.inputs())
    require_stdout_free(table, "--csv", others={"--json": as_json})
    _require_together(pareto, exhibit, target, each, dry_run=dry_run)
    own = {"--mapping": ", ".join(mappings), "--metric": metrics, "--pipeline-parallel": stages}
    lists.require_own(pareto, exhibit, own)
    if pareto is not None:
        from simaccel.cli.pareto import compare_fronts

        slow = {"--sweep": ", ".join(sweep), "--no-fast-forward": not fast_forward}
        ctx.exit(compare_fronts(asked, pareto, files, jobs, as_json=as_json, refused=slow))
    if exhibit is not None:
        from simaccel.cli.exhibit import show_bandwidths, with_defaults

        asked, sweep = with_defaults(asked, exhibit, sweep)
    if exhibit == "bandwidth":
        ctx.exit(show_bandwidths(asked, target, files, jobs, as_json=as_json))
    asked = lists.default_of_stages(asked, stages)
    every, shown = gather(
        lambda: lists.stage(_tasks(asked, sweep, each, files, mappings), stages, micro_batches),
        lambda: lists.metrics_of(metrics),
    )
    tasks = [replace(task, fast_forward=fast_forward) for task in every]
    lists.require_tokens(shown, tasks)
    lists.refuse_lists(tasks, exhibit)
    if dry_run:
        ctx.exit(_show_outlook(tasks, files.options, as_json=as_json))
    rows = _run_all(
        tasks,
        table,
        jobs,
        lambda rows: (
            _show(tasks, rows, files, shown, as_json=as_json)
            if exhibit is None
            else _show_exhibit(exhibit, tasks, rows, files, as_json=as_json)
        ),
    )
    ctx.exit(_exit_code(rows))


def _run_all(
    tasks: Sequence[ComparisonTask],
    table: str | None,
    jobs: Jobs,
    finish: Callable[[Sequence[ComparisonRow]], None],
) -> Sequence[ComparisonRow]:
    """Run tasks; rows that are done are kept where it ends before ``finish`` has shown them."""
    from simaccel.cli.partial_results import keep_partial_results
    from simaccel.experiment.parallel import run_with
    from simaccel.verbs.comparing import run_task

    with (
        keep_partial_results(table, [task.row for task in tasks]) as note,
        ProgressBar("comparing") as bar,
    ):

        def note_row(number: int, row: ComparisonRow) -> None:
            note(number, row)
            bar.line(_describe_finished(row))

        with jobs.working(min(os.cpu_count() or 1, len(tasks))) as team:
            rows = run_with(team, run_task, tasks, bar.show, lost=_lost_row, note=note_row)
        finish(rows)
    return rows


def _show_exhibit(
    exhibit: Exhibit,
    tasks: Sequence[ComparisonTask],
    rows: Sequence[ComparisonRow],
    files: OutputFiles,
    *,
    as_json: bool,
) -> None:
    from simaccel.cli.exhibit import show_exhibit

    workloads = {task.seq_len: task.workload for task in tasks}
    show_exhibit(exhibit, rows, workloads, tasks[0].accelerator, files, as_json=as_json)


def _show_outlook(
    tasks: Sequence[ComparisonTask], files: Mapping[str, str | None], *, as_json: bool
) -> int:
    """Say what there is to search; return the exit code."""
    from simaccel.cli.outlook import outlooks_of, show_outlook
    from simaccel.verbs.comparing import title_of

    searches = outlooks_of(tasks, [_name(task.row) for task in tasks])
    show_outlook(title_of(tasks), searches, files, runs=True, as_json=as_json)
    return 0


def _describe_finished(row: ComparisonRow) -> str:
    """Say what a finished run was, and how it went."""
    went = row.problem if row.result is None else f"{row.result['cycles']:,} cycles"
    return f"{_name(row)}: {went}"


def _name(row: ComparisonRow) -> str:
    """Say which run it is."""
    point = "" if row.point is None else row.point.text
    length = "" if row.seq_len is None else f"{row.seq_len} tokens"
    also = (one.text for one in row.also)
    return ", ".join(part for part in (point, *also, length, row.dataflow) if part)


def _require_together(
    pareto: str | None,
    exhibit: Exhibit | None,
    target: float | None,
    each: str | None,
    *,
    dry_run: bool,
) -> None:
    """Refuse options that don't go together."""
    faults = []
    if pareto is not None and exhibit is not None:
        faults.append(fault("--exhibit", exhibit, "nothing with --pareto"))
    if target is not None and exhibit != "bandwidth":
        faults.append(fault("--target", target, "nothing without --exhibit bandwidth"))
    if dry_run and (pareto is not None or exhibit == "bandwidth"):
        faults.append(fault("--dry-run", "given", "nothing with --pareto or --exhibit bandwidth"))
    if each is not None and (pareto is not None or exhibit is not None):
        faults.append(fault("--each", each, "nothing with --pareto or --exhibit"))
    require_none(faults)


def _show(
    tasks: Sequence[ComparisonTask],
    rows: Sequence[ComparisonRow],
    files: OutputFiles,
    metrics: Sequence[Metric],
    *,
    as_json: bool,
) -> None:
    from simaccel.report.comparison import (
        area_lines,
        comparison_json,
        comparison_table,
        given_up_lines,
        problem_lines,
        terms_lines,
    )
    from simaccel.report.comparison_csv import comparison_csv
    from simaccel.report.figures.comparison import draw_comparison
    from simaccel.report.figures.metric import draw_metric
    from simaccel.report.figures.sweep import draw_sweep
    from simaccel.verbs.comparing import slopes_of, title_of

    title, point = title_of(tasks), rows[0].point

    def draw() -> object:
        if metrics:
            return draw_metric(rows, title, metrics[0])
        if point is None or point.axis.named or rows[0].also:
            return draw_comparison(rows, title)
        return draw_sweep(rows, title, slopes_of(tasks) if point.axis.name == "buffer" else None)

    written = files.write("--csv", partial(comparison_csv, rows, metrics))
    written += files.write("--plot", draw)
    if as_json:
        show_json(comparison_json(rows))
    elif not files.prints:
        lines = [*terms_lines(rows), *area_lines(rows), *given_up_lines(rows)]
        lines += [*problem_lines(rows), *written]
        show(title, comparison_table(rows, metrics), *lines)


def _exit_code(rows: Sequence[ComparisonRow]) -> int:
    """Succeed if one run did, and no process died."""
    died = any(row.exit_code == WorkerDiedError.exit_code for row in rows)
    if died:
        return WorkerDiedError.exit_code
    return rows[0].exit_code if all(row.result is None for row in rows) else 0


def _tasks(
    asked: ExperimentOptions,
    sweep_texts: tuple[str, ...],
    each: str | None,
    files: OutputFiles,
    mappings: Sequence[str],
) -> list[ComparisonTask]:
    """Cross lists, points, lengths and dataflows; all faults are reported before anything runs.

    A fault of all values of the lists is reported once.
    """
    from simaccel.cli.lists import variants

    first, *others = variants(asked)
    own = _tasks_of(first, sweep_texts, each, files, mappings)
    made = gather(
        *(partial(_tasks_of, other, sweep_texts, each, files, mappings) for other in others)
    )
    return [*own, *(task for tasks in made for task in tasks)]


def _tasks_of(
    variant: OptionVariant,
    sweep_texts: tuple[str, ...],
    each: str | None,
    files: OutputFiles,
    mappings: Sequence[str],
) -> list[ComparisonTask]:
    """Give the tasks of one value of each list."""
    from simaccel.cli.lists import mapped_ways, names_of, place_task, scheduled_ways

    asked = variant.asked
    lengths = [None] if asked.workload.seq_len is None else asked.workload.seq_len.split(",")
    _, _, accelerator, names, sweep, estimates, *workloads = gather(
        files.require,
        lambda: _require_each(each, sweep_texts),
        asked.accelerator,
        lambda: asked.names(several=True),
        lambda: _sweep(sweep_texts, asked),
        asked.workload.estimates,
        *(replace(asked.workload, seq_len=length).read for length in lengths),
    )
    from simaccel.verbs.comparing import alone_tasks

    places = (
        [
            task
            for workload in workloads
            for task in alone_tasks(workload, accelerator, each, estimates)
        ]
        if sweep is None
        else sweep.tasks(workloads, accelerator)
    )
    return [
        way
        for task in (place_task(place, variant) for place in places)
        for way in (
            *mapped_ways(task, mappings),
            *scheduled_ways(task, names_of(task, names, asked, len(mappings)), asked),
        )
    ]


def _sweep(texts: tuple[str, ...], asked: ExperimentOptions) -> Sweep | None:
    """Read the sweep, if one is given."""
    if not texts:
        return None
    from simaccel.cli.sweep import read_sweep

    return read_sweep(texts, asked)


def _require_each(each: str | None, sweep_texts: tuple[str, ...]) -> None:
    """Refuse what --each can't be, and what it doesn't go with."""
    if each is None:
        return
    faults = [] if each in EACH else [fault("--each", each, suggest(each, EACH))]
    if sweep_texts:
        faults.append(fault("--each", each, "nothing with --sweep"))
    require_none(faults)
