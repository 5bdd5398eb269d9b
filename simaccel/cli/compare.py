"""`simaccel compare`: several dataflows and lengths side by side, in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simaccel.cli.command import Command
from simaccel.cli.faults import gather, require_stdout_free
from simaccel.cli.options import (
    experiment_options,
    fast_forward_option,
    force_option,
    json_option,
)
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import Bar
from simaccel.cli.words import SWEPT
from simaccel.errors import SimaccelError, WorkerDiedError

if TYPE_CHECKING:
    from simaccel.cli.asked import Asked
    from simaccel.cli.sweep import Sweep
    from simaccel.hardware import Accelerator
    from simaccel.report.comparison import Compared, Point
    from simaccel.schedulers import Options
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
        from simaccel.report.comparison import Compared

        return Compared(self.dataflow, self.seq_len, point=self.point)


def _run(task: _Task) -> Compared:
    """Run one task; what the user can cause becomes a row with its reason."""
    from simaccel.experiment.run import result_json, simulate

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
        from simaccel.files.targets import require_distinct, require_target
        from simaccel.report.figures.style import require_figure_target

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
        from simaccel.files.targets import writing_text
        from simaccel.report.comparison_csv import comparison_csv

        lines = []
        if self.table is not None:
            with writing_text(self.table, force=self.force, inputs=self.inputs) as stream:
                stream.write(comparison_csv(rows))
            lines.append(f"table: {self.table}")
        if self.plot is not None:
            from simaccel.report.figures.comparison import draw_comparison
            from simaccel.report.figures.style import save_figure, style
            from simaccel.report.figures.sweep import draw_sweep

            draw = draw_comparison if rows[0].point is None else draw_sweep
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
    f"one of {', '.join(SWEPT)}.",
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
    from simaccel.files.targets import STDOUT

    require_stdout_free(table, "--csv", others={"--json": as_json})
    files = _Files(table, plot, force, asked.inputs())
    tasks = _tasks(asked, sweep, files, fast_forward=fast_forward)
    from simaccel.cli.kept import keeping
    from simaccel.cli.parallel import run_all
    from simaccel.report.comparison import (
        comparison_json,
        comparison_table,
        problem_lines,
        varied,
    )
    from simaccel.report.results import experiment_title

    with keeping(table, [task.row for task in tasks]) as note, Bar("comparing") as bar:
        rows = run_all(_run, tasks, jobs or os.cpu_count() or 1, bar, lost=_lost, note=note)
        names = {*varied(rows), "seq-len"} if rows[0].point is None else varied(rows)
        title = experiment_title(tasks[0].workload, tasks[0].accelerator, varied=names)
        written = files.write(rows, title)
    if as_json:
        show_json(comparison_json(rows))
    elif table != STDOUT:
        show(title, comparison_table(rows), *problem_lines(rows), *written)
    ctx.exit(_exit_code(rows))


def _exit_code(rows: Sequence[Compared]) -> int:
    """Succeed if one run did, and no process died."""
    died = any(row.exit_code == WorkerDiedError.exit_code for row in rows)
    if died:
        return WorkerDiedError.exit_code
    return rows[0].exit_code if all(row.result is None for row in rows) else 0


def _tasks(
    asked: Asked, sweep_texts: tuple[str, ...], files: _Files, *, fast_forward: bool
) -> list[_Task]:
    """Cross points, lengths and dataflows; all faults are reported before anything runs."""
    from simaccel.cli.sweep import read_sweep

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
