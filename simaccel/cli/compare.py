"""`simaccel compare`: several dataflows and lengths side by side, in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import click

from simaccel.cli.asked import Asked, gather, require_dataflows
from simaccel.cli.options import experiment_options, fast_forward_option, json_option
from simaccel.cli.output import show, show_json
from simaccel.cli.parallel import run_all
from simaccel.cli.progress import Bar
from simaccel.errors import SimaccelError
from simaccel.experiment import result_json, simulate
from simaccel.hardware import Accelerator
from simaccel.report.comparison import (
    Compared,
    comparison_json,
    comparison_table,
    problem_lines,
)
from simaccel.report.results import experiment_title
from simaccel.schedulers import Options
from simaccel.workload import Workload

_DATAFLOWS = "naive,flex,flat,flash"


@dataclass(frozen=True)
class _Task:
    """One run, as it is sent to a process."""

    workload: Workload
    accelerator: Accelerator
    dataflow: str
    options: Options
    fast_forward: bool

    @property
    def seq_len(self) -> int | None:
        """The sequence length of a model."""
        length = self.workload.parameters.get("seq_len")
        return None if length is None else int(length)


def _run(task: _Task) -> Compared:
    """Run one task; what the user can cause becomes a row with its reason."""
    try:
        result = simulate(
            task.workload,
            task.accelerator,
            task.dataflow,
            options=task.options,
            fast_forward=task.fast_forward,
        )
    except SimaccelError as error:
        return Compared(task.dataflow, task.seq_len, None, str(error), error.exit_code)
    return Compared(task.dataflow, task.seq_len, result_json(result))


@click.command()
@experiment_options
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
    ctx: click.Context, asked: Asked, jobs: int | None, fast_forward: bool, as_json: bool
) -> None:
    """Compare dataflows, also at several lengths: --dataflow flex,flat --seq-len 512,4096.

    The speedup is against the first dataflow at the same length.
    """
    tasks = list(_tasks(asked, fast_forward=fast_forward))
    with Bar("comparing") as bar:
        rows = run_all(_run, tasks, jobs or os.cpu_count() or 1, bar)
    if as_json:
        show_json(comparison_json(rows))
    else:
        title = experiment_title(tasks[0].workload, tasks[0].accelerator)
        show(title, comparison_table(rows), *problem_lines(rows))
    if all(row.result is None for row in rows):
        ctx.exit(rows[0].exit_code)


def _tasks(asked: Asked, *, fast_forward: bool) -> Iterator[_Task]:
    """Cross lengths and dataflows."""
    names = [name.strip() for name in (asked.dataflow or _DATAFLOWS).split(",")]
    lengths = [None] if asked.workload.seq_len is None else asked.workload.seq_len.split(",")
    accelerator, _, *workloads = gather(
        asked.accelerator,
        lambda: require_dataflows(names),
        *(replace(asked.workload, seq_len=length).read for length in lengths),
    )
    for workload in workloads:
        for name in names:
            yield _Task(workload, accelerator, name, asked.options, fast_forward)
