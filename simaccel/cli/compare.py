"""`simaccel compare`: several dataflows and lengths side by side, in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import click

from simaccel.cli.asked import Asked
from simaccel.cli.command import Command
from simaccel.cli.exhibit import show_bandwidths, show_exhibit, with_defaults
from simaccel.cli.faults import fault, gather, require_none, require_stdout_free
from simaccel.cli.kept import keeping
from simaccel.cli.options import (
    experiment_options,
    fast_forward_option,
    force_option,
    json_option,
)
from simaccel.cli.output import show, show_json
from simaccel.cli.parallel import run_all
from simaccel.cli.pareto import compare_fronts
from simaccel.cli.progress import Bar
from simaccel.cli.rows import Files
from simaccel.cli.sweep import PARAMETERS, Sweep, read_sweep
from simaccel.errors import SimaccelError, WorkerDiedError
from simaccel.experiment.run import result_json, simulate
from simaccel.files.targets import STDOUT
from simaccel.hardware import Accelerator
from simaccel.report.comparison import (
    Compared,
    Point,
    comparison_json,
    comparison_table,
    problem_lines,
    varied,
)
from simaccel.report.comparison_csv import comparison_csv
from simaccel.report.exhibits import EXHIBITS, TARGET, Exhibit
from simaccel.report.figures.comparison import draw_comparison
from simaccel.report.figures.sweep import draw_sweep
from simaccel.report.results import experiment_title
from simaccel.schedulers import Options
from simaccel.schedulers.front import FIGURES
from simaccel.workload import Workload


@dataclass(frozen=True)
class _Task:
    """One run, as it is sent to a process."""

    workload: Workload
    accelerator: Accelerator
    point: Point | None
    dataflow: str
    options: Options
    fast_forward: bool

    @property
    def seq_len(self) -> int | None:
        """The sequence length of a model."""
        length = self.workload.parameters.get("seq_len")
        return None if length is None else int(length)

    @property
    def row(self) -> Compared:
        """Its row, without a result."""
        return Compared(self.dataflow, self.seq_len, point=self.point)


def _run(task: _Task) -> Compared:
    """Run one task; what the user can cause becomes a row with its reason."""
    row = task.row
    try:
        result = simulate(
            task.workload,
            task.accelerator,
            task.dataflow,
            options=task.options,
            fast_forward=task.fast_forward,
        )
    except SimaccelError as error:
        return replace(row, problem=str(error), exit_code=error.exit_code)
    return replace(row, result=result_json(result))


def _lost(task: _Task) -> Compared:
    """Give the row of a run whose process died."""
    problem = "its process died; is there enough memory?"
    return replace(task.row, problem=problem, exit_code=WorkerDiedError.exit_code)


@click.command(cls=Command)
@experiment_options
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME=FROM:TO:STEP",
    help="Also vary one parameter: buffer=64KiB:64MiB:x2, seq-len=512:4096:+512 or array=16,32x64; "
    f"one of {', '.join(PARAMETERS)}.",
)
@click.option(
    "--pareto",
    metavar="X,Y",
    help="Instead of the best mapping of each dataflow, those that no other beats in both of two "
    f"figures: {', '.join(FIGURES)}.",
)
@click.option(
    "--exhibit",
    type=click.Choice(EXHIBITS),
    help="Instead of the comparison: operation intensity, utilisation by granularity and buffer, "
    "cycles by part, or the DRAM bandwidth that is needed (FLAT, Figs. 5, 9, 15, 17).",
)
@click.option(
    "--target",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="SHARE",
    help=f"Utilisation for which --exhibit bandwidth asks (default {TARGET}).",
)
@click.option(
    "--csv", "table", metavar="FILE", help="Write the rows to this file as CSV; - is the output."
)
@click.option("--plot", metavar="FILE", help="Draw utilisation and stalls (.png, .svg or .pdf).")
@force_option
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=None,
    help="Processes at a time (default: one a processor).",
)
@fast_forward_option
@json_option
@click.pass_context
def compare(
    ctx: click.Context,
    *,
    asked: Asked,
    sweep: tuple[str, ...],
    pareto: str | None,
    exhibit: Exhibit | None,
    target: float | None,
    table: str | None,
    plot: str | None,
    force: bool,
    jobs: int | None,
    fast_forward: bool,
    as_json: bool,
) -> None:
    """Compare dataflows, also at several lengths: --dataflow flex,flat --seq-len 512,4096.

    Or mapspaces (always on a spatial array): --mapspace pfm,ruby-s.
    The speedup is against the first dataflow or mapspace at the same length and point of the sweep.
    """
    require_stdout_free(table, "--csv", others={"--json": as_json})
    files = Files(table, plot, force, asked.inputs())
    cores = jobs or os.cpu_count() or 1
    _require_together(pareto, exhibit, target)
    if pareto is not None:
        slow = {"--sweep": ", ".join(sweep), "--no-fast-forward": not fast_forward}
        ctx.exit(compare_fronts(asked, pareto, files, jobs=cores, as_json=as_json, refused=slow))
    if exhibit is not None:
        asked, sweep = with_defaults(asked, exhibit, sweep)
    if exhibit == "bandwidth":
        ctx.exit(show_bandwidths(asked, target, files, jobs=cores, as_json=as_json))
    tasks = _tasks(asked, sweep, files, fast_forward=fast_forward)
    with keeping(table, [task.row for task in tasks]) as note, Bar("comparing") as bar:
        rows = run_all(_run, tasks, cores, bar, lost=_lost, note=note)
        if exhibit is None:
            _show(tasks, rows, files, as_json=as_json)
        else:
            workloads = {task.seq_len: task.workload for task in tasks}
            there = tasks[0].accelerator
            show_exhibit(exhibit, rows, workloads, there, files, as_json=as_json)
    ctx.exit(_exit_code(rows))


def _require_together(pareto: str | None, exhibit: Exhibit | None, target: float | None) -> None:
    """Refuse options that don't go together."""
    faults = []
    if pareto is not None and exhibit is not None:
        faults.append(fault("--exhibit", exhibit, "nothing beside --pareto"))
    if target is not None and exhibit != "bandwidth":
        faults.append(fault("--target", target, "nothing without --exhibit bandwidth"))
    require_none(faults)


def _show(tasks: Sequence[_Task], rows: Sequence[Compared], files: Files, *, as_json: bool) -> None:
    names = {*varied(rows), "seq-len"} if rows[0].point is None else varied(rows)
    title = experiment_title(tasks[0].workload, tasks[0].accelerator, varied=names)
    draw = draw_comparison if rows[0].point is None else draw_sweep
    written = files.write(partial(comparison_csv, rows), partial(draw, rows, title))
    if as_json:
        show_json(comparison_json(rows))
    elif files.table != STDOUT:
        show(title, comparison_table(rows), *problem_lines(rows), *written)


def _exit_code(rows: Sequence[Compared]) -> int:
    """Succeed if one run did, and no process died."""
    died = any(row.exit_code == WorkerDiedError.exit_code for row in rows)
    if died:
        return WorkerDiedError.exit_code
    return rows[0].exit_code if all(row.result is None for row in rows) else 0


def _tasks(
    asked: Asked, sweep_texts: tuple[str, ...], files: Files, *, fast_forward: bool
) -> list[_Task]:
    """Cross points, lengths and dataflows; all faults are reported before anything runs."""
    lengths = [None] if asked.workload.seq_len is None else asked.workload.seq_len.split(",")
    _, accelerator, names, sweep, *workloads = gather(
        files.require,
        asked.accelerator,
        lambda: asked.names(several=True),
        lambda: read_sweep(sweep_texts, asked),
        *(replace(asked.workload, seq_len=length).read for length in lengths),
    )
    return [
        _Task(workload, there, point, name, asked.options, fast_forward)
        for workload, there, point in _places(sweep, workloads, accelerator)
        for name in names
    ]


def _places(
    sweep: Sweep | None, workloads: Sequence[Workload], accelerator: Accelerator
) -> list[tuple[Workload, Accelerator, Point | None]]:
    """Give what is run at each point of the sweep and each length."""
    if sweep is None:
        return [(workload, accelerator, None) for workload in workloads]
    return gather(
        *(
            partial(sweep.apply, values, workload, accelerator)
            for values, workload in product(sweep.points, workloads)
        )
    )
