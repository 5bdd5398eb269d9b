"""`simaccel compare`: several dataflows and lengths side by side, in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import click

from simaccel.cli.asked import Asked
from simaccel.cli.command import Command
from simaccel.cli.faults import fault, gather, require_none, require_stdout_free
from simaccel.cli.jobs import AT_A_TIME, Jobs, jobs_options
from simaccel.cli.kept import keeping
from simaccel.cli.options import (
    experiment_options,
    fast_forward_option,
    force_option,
    json_option,
)
from simaccel.cli.output import show, show_json
from simaccel.cli.parameters import PARAMETERS
from simaccel.cli.progress import Bar
from simaccel.cli.sweep import Sweep, read_sweep
from simaccel.errors import WorkerDiedError, suggest
from simaccel.experiment.parallel import noted
from simaccel.files.targets import STDOUT, require_distinct, require_target, writing_text
from simaccel.hardware import Accelerator
from simaccel.report.comparison import (
    Compared,
    Point,
    area_lines,
    comparison_json,
    comparison_table,
    problem_lines,
)
from simaccel.report.comparison_csv import comparison_csv
from simaccel.report.figures.comparison import draw_comparison
from simaccel.report.figures.style import require_figure_target, save_figure, style
from simaccel.report.figures.sweep import draw_sweep
from simaccel.verbs.comparing import (
    EACH,
    Task,
    alone_tasks,
    run_task,
    seq_len_of,
    title_of,
)
from simaccel.workload import Workload


def _lost(task: Task) -> Compared:
    """Give the row of a run whose process died."""
    problem = "its process died; is there enough memory?"
    return replace(task.row, problem=problem, exit_code=WorkerDiedError.exit_code)


@dataclass(frozen=True)
class _Files:
    """Where the rows go beside the terminal."""

    table: str | None
    plot: str | None
    force: bool
    inputs: Sequence[Path]

    def require(self) -> None:
        """Refuse what can't be written, before anything runs.

        Raises:
            InputError: a file that exists, a folder that doesn't, a suffix that no figure has.

        """
        how: dict[str, Any] = {"force": self.force, "inputs": self.inputs}
        checks = []
        if self.table is not None:
            checks.append(partial(require_target, self.table, text=True, **how))
        if self.plot is not None:
            checks.append(partial(require_figure_target, self.plot, **how))
        gather(
            *checks, lambda: require_distinct({"--plot": self.plot, "--csv": self.table}.items())
        )

    def write(self, rows: Sequence[Compared], title: str) -> list[str]:
        """Write the files that are asked for; a line for each."""
        lines = []
        if self.table is not None:
            with writing_text(self.table, force=self.force, inputs=self.inputs) as stream:
                stream.write(comparison_csv(rows))
            lines.append(f"table: {self.table}")
        if self.plot is not None:
            point = rows[0].point
            draw = draw_comparison if point is None or point.axis.named else draw_sweep
            with style():
                save_figure(draw(rows, title), self.plot, force=self.force, inputs=self.inputs)
            lines.append(f"figure: {self.plot}")
        return lines


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
    "--csv", "table", metavar="FILE", help="Write the rows to this file as CSV; - is the output."
)
@click.option(
    "--each",
    metavar="WHAT",
    help="Run each operator (or layer) alone, a row for each: --each operator.",
)
@click.option("--plot", metavar="FILE", help="Draw utilisation and stalls (.png, .svg or .pdf).")
@force_option
@jobs_options(AT_A_TIME)
@fast_forward_option
@json_option
@click.pass_context
def compare(
    ctx: click.Context,
    *,
    asked: Asked,
    sweep: tuple[str, ...],
    each: str | None,
    table: str | None,
    plot: str | None,
    force: bool,
    jobs: Jobs,
    fast_forward: bool,
    as_json: bool,
) -> None:
    """Compare dataflows, also at several lengths: --dataflow flex,flat --seq-len 512,4096.

    Or mapspaces (always on a spatial array): --mapspace pfm,ruby-s.
    The speedup is against the first dataflow or mapspace at the same length and point of the sweep.
    """
    require_stdout_free(table, "--csv", others={"--json": as_json})
    files = _Files(table, plot, force, asked.inputs())
    tasks = _tasks(asked, sweep, each, files, fast_forward=fast_forward)
    with keeping(table, [task.row for task in tasks]) as note, Bar("comparing") as bar:
        with jobs.working(min(os.cpu_count() or 1, len(tasks))) as team:
            rows = noted(team, run_task, tasks, bar.show, lost=_lost, note=note)
        title = title_of(tasks)
        written = files.write(rows, title)
    if as_json:
        show_json(comparison_json(rows))
    elif table != STDOUT:
        lines = (*area_lines(rows), *problem_lines(rows), *written)
        show(title, comparison_table(rows), *lines)
    ctx.exit(_exit_code(rows))


def _exit_code(rows: Sequence[Compared]) -> int:
    """Succeed if one run did, and no process died."""
    died = any(row.exit_code == WorkerDiedError.exit_code for row in rows)
    if died:
        return WorkerDiedError.exit_code
    return rows[0].exit_code if all(row.result is None for row in rows) else 0


def _tasks(
    asked: Asked,
    sweep_texts: tuple[str, ...],
    each: str | None,
    files: _Files,
    *,
    fast_forward: bool,
) -> list[Task]:
    """Cross points, lengths and dataflows; all faults are reported before anything runs."""
    lengths = [None] if asked.workload.seq_len is None else asked.workload.seq_len.split(",")
    _, accelerator, names, sweep, _, given, *workloads = gather(
        files.require,
        asked.accelerator,
        lambda: asked.names(several=True),
        lambda: read_sweep(sweep_texts, asked),
        lambda: _require_each(each, sweep_texts),
        asked.workload.estimates,
        *(replace(asked.workload, seq_len=length).read for length in lengths),
    )
    places = (
        [task for one in workloads for task in alone_tasks(one, accelerator, each, given)]
        if sweep is None
        else _places(sweep, workloads, accelerator)
    )
    return [
        replace(task, dataflow=name, options=asked.options, fast_forward=fast_forward)
        for task in places
        for name in names
    ]


def _require_each(each: str | None, sweep_texts: tuple[str, ...]) -> None:
    """Refuse what --each can't be, and what it doesn't go with."""
    if each is None:
        return
    faults = [] if each in EACH else [fault("--each", each, suggest(each, EACH))]
    if sweep_texts:
        faults.append(fault("--each", each, "nothing beside --sweep"))
    require_none(faults)


def _places(sweep: Sweep, workloads: Sequence[Workload], accelerator: Accelerator) -> list[Task]:
    """Give what is run at each point of the sweep and each length."""
    found: list[tuple[Workload, Accelerator, Point]] = gather(
        *(
            partial(sweep.apply, values, workload, accelerator)
            for values, workload in product(sweep.points, workloads)
        )
    )
    return [Task(one, there, point, "", seq_len=seq_len_of(one)) for one, there, point in found]
