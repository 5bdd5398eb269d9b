"""`simaccel compare --exhibit NAME`: FLAT's figures 5, 9, 15 and 17 for any model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from simaccel.cli.choices import TARGET
from simaccel.cli.faults import fault, gather, require_none
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.errors import InputError, SimaccelError, WorkerDiedError

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.cli.jobs import Jobs
    from simaccel.cli.output_files import OutputFiles
    from simaccel.hardware import Accelerator
    from simaccel.report.exhibits import Exhibit, Row
    from simaccel.schedulers import Options
    from simaccel.study.points import StudyRow
    from simaccel.workload import Workload

DATAFLOWS: Final[dict[Exhibit, str]] = {
    "roofline": "flex,flat",
    "granularity": "naive,flex-m,flex-b,flex-h,flex-r,flat-m,flat-b,flat-h,flat-r",
    "breakdown": "naive,flex,flat",
    "bandwidth": "flex,flat",
}
"""What an exhibit compares where nothing is given."""
_SIZES: Final = tuple(1 << at for at in range(16, 31, 2))
"""The buffer sizes of `granularity`, where nothing is given: 64 KiB to 1 GiB."""
_HEADINGS: Final[dict[Exhibit, str]] = {
    "roofline": "operational intensity",
    "granularity": "utilisation of the attentions by granularity",
    "breakdown": "cycles by part",
    "bandwidth": "bandwidth needed",
}


def with_defaults(
    asked: ExperimentOptions, exhibit: Exhibit, sweep: tuple[str, ...]
) -> tuple[ExperimentOptions, tuple[str, ...]]:
    """Return the options and the sweep, with the exhibit's defaults for those not given.

    Raises:
        InputError: a sweep where the exhibit has none.

    """
    if sweep and exhibit != "granularity":
        allowed = "nothing with --exhibit, except granularity"
        require_none([fault("--sweep", ", ".join(sweep), allowed)])
    if asked.dataflow is None and not asked.searches():
        asked = replace(asked, dataflow=DATAFLOWS[exhibit])
    return asked, sweep or ((_buffers(asked),) if exhibit == "granularity" else ())


def _buffers(asked: ExperimentOptions) -> str:
    """Return the sweep of `granularity`: the sizes that the array can have."""
    from simaccel.hardware.sections import smallest_buffer

    try:
        least = smallest_buffer(asked.accelerator().array)
    except InputError:  # said later, with all else that is wrong
        least = 0
    return f"buffer={','.join(str(size) for size in _SIZES if size >= least)}"


def show_exhibit(
    exhibit: Exhibit,
    rows: Sequence[StudyRow],
    workloads: dict[int | None, Workload],
    accelerator: Accelerator,
    files: OutputFiles,
    *,
    as_json: bool,
) -> None:
    """Show and write an exhibit that is made of the runs of a comparison."""
    from simaccel.report.comparison import problem_lines
    from simaccel.report.exhibits import breakdown_rows, granularity_rows, roofline_rows
    from simaccel.report.titles import experiment_title

    if exhibit == "roofline":
        exhibit_rows = roofline_rows(rows, workloads, accelerator)
    elif exhibit == "granularity":
        exhibit_rows = granularity_rows(rows, workloads)
    else:
        exhibit_rows = breakdown_rows(rows, workloads)
    first = next(iter(workloads.values()))
    title = experiment_title(first, accelerator, varied={"seq-len"} if len(workloads) > 1 else ())
    heading = f"{title}: {_HEADINGS[exhibit]}"
    _show(exhibit, exhibit_rows, heading, accelerator, files, problem_lines(rows), as_json=as_json)


def _show(
    exhibit: Exhibit,
    rows: Sequence[Row],
    title: str,
    accelerator: Accelerator,
    files: OutputFiles,
    lines: Sequence[str],
    *,
    as_json: bool,
) -> None:
    from simaccel.report.exhibits import (
        exhibit_csv,
        exhibit_json,
        exhibit_table,
    )
    from simaccel.report.figures.exhibits import draw_exhibit

    if not rows:
        if as_json:
            show_json(exhibit_json(exhibit, rows))
        else:
            show(title, *lines)
        return
    written = files.write("--csv", partial(exhibit_csv, rows))
    written += files.write("--plot", partial(draw_exhibit, exhibit, rows, title, accelerator))
    if as_json:
        show_json(exhibit_json(exhibit, rows))
    elif not files.prints:
        show(title, exhibit_table(rows), *lines, *written)


@dataclass(frozen=True)
class _Task:
    """The search for one bandwidth, as it is sent to a process."""

    workload: Workload
    accelerator: Accelerator
    dataflow: str
    options: Options
    target: float


@dataclass(frozen=True)
class _Needed:
    """A needed bandwidth, or the reason for none."""

    row: Row
    problem: str = ""
    exit_code: int = 0


def _run(task: _Task) -> _Needed:
    from simaccel.study.bandwidth import needed_bandwidth

    length = task.workload.parameters.get("seq_len")
    row: Row = {
        "seq_len": None if length is None else int(length),
        "dataflow": task.dataflow,
        "bytes_per_second": None,
        "utilisation": None,
    }
    try:
        needed = needed_bandwidth(
            task.workload, task.accelerator, task.dataflow, task.target, task.options
        )
    except SimaccelError as error:
        return _Needed(row, str(error), error.exit_code)
    row |= {"bytes_per_second": needed.bytes_per_second, "utilisation": needed.utilisation}
    return _Needed(row)


def _lost_result(task: _Task) -> _Needed:
    problem = "its process died; is there enough memory?"
    return replace(_run_nothing(task), problem=problem, exit_code=WorkerDiedError.exit_code)


def _run_nothing(task: _Task) -> _Needed:
    row = {"seq_len": None, "dataflow": task.dataflow}
    return _Needed({**row, "bytes_per_second": None, "utilisation": None})


def show_bandwidths(
    asked: ExperimentOptions, target: float | None, files: OutputFiles, jobs: Jobs, *, as_json: bool
) -> int:
    """Find the bandwidth that each dataflow needs at each length; return the exit code."""
    lengths = [None] if asked.workload.seq_len is None else asked.workload.seq_len.split(",")
    _, accelerator, names, *workloads = gather(
        files.require,
        asked.accelerator,
        lambda: asked.names(several=True),
        *(replace(asked.workload, seq_len=length).read for length in lengths),
    )
    from simaccel.experiment.parallel import run_with
    from simaccel.report.titles import experiment_title

    wanted = TARGET if target is None else target
    tasks = [
        _Task(workload, accelerator, name, asked.options, wanted)
        for workload in workloads
        for name in names
    ]
    with jobs.working(os.cpu_count() or 1) as team, ProgressBar("finding bandwidths") as bar:
        needed = run_with(team, _run, tasks, bar.show, lost=_lost_result)
    rows = [_add_saving(need.row, [each.row for each in needed]) for need in needed]
    varied = {"seq-len"} if len(workloads) > 1 else set[str]()
    title = experiment_title(workloads[0], accelerator, varied=varied)
    heading = f"{title}: bandwidth for a utilisation of {wanted:.0%}"
    lines = [f"{need.row['dataflow']}: {need.problem}" for need in needed if need.problem]
    if any(row["bytes_per_second"] is None and row["utilisation"] for row in rows):
        lines.append("-: no bandwidth is enough; the utilisation is that with the largest")
    _show("bandwidth", rows, heading, accelerator, files, lines, as_json=as_json)
    return needed[0].exit_code if all(need.problem for need in needed) else 0


def _add_saving(row: Row, rows: Sequence[Row]) -> Row:
    """Add by how much less a dataflow needs than the first one at its length."""
    first = next(one for one in rows if one["seq_len"] == row["seq_len"])
    known = row["bytes_per_second"] and first["bytes_per_second"]
    saved = 1 - row["bytes_per_second"] / first["bytes_per_second"] if known else None
    return {**row, "saved": saved}
