"""`simaccel run`: one workload on one accelerator, on the machine and in the closed form."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from simaccel.cli.command import Command
from simaccel.cli.faults import fault
from simaccel.cli.generate import generates
from simaccel.cli.options import (
    experiment_options,
    fast_forward_option,
    force_option,
    jobs_option,
    json_option,
    mapping_option,
)
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import Bar
from simaccel.cli.words import LENGTHS
from simaccel.errors import InputError

if TYPE_CHECKING:
    from simaccel.cli.asked import Asked, Inputs
    from simaccel.experiment.check import Checked
    from simaccel.experiment.run import Result


@click.command(cls=Command)
@experiment_options
@mapping_option
@click.option("--trace", metavar="FILE", help="Write a trace (HDF5) to this file.")
@force_option
@click.option(
    "--generate",
    "tokens",
    type=int,
    metavar="N",
    help="Of a transformer: a prefill of --prompt tokens, and the decode steps of N tokens.",
)
@click.option(
    "--lengths",
    type=int,
    metavar="K",
    help=f"Decode steps of a generation that are simulated (default {LENGTHS}).",
)
@click.option("--check", "checked", is_flag=True, help="Compare the results with plain numpy.")
@click.option("--dry-run", is_flag=True, help="Say what the run would cost, and do not run.")
@fast_forward_option
@jobs_option
@json_option
@click.option("--quiet", is_flag=True, help="Print the last line only, and no progress.")
def run(
    *,
    asked: Asked,
    trace: str | None,
    force: bool,
    tokens: int | None,
    lengths: int | None,
    checked: bool,
    dry_run: bool,
    fast_forward: bool,
    jobs: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run a workload on an accelerator: cycles, utilisation, bytes, energy, stalls.

    The last line compares the machine with the closed form.
    """
    others = {"--trace": trace, "--check": checked, "--dry-run": dry_run, "--jobs": jobs}
    how = {"fast_forward": fast_forward, "as_json": as_json, "quiet": quiet}
    if generates(asked, tokens, lengths, others, **how):
        return
    if trace is not None:
        from simaccel.files.targets import require_target

        require_target(trace, force=force, inputs=asked.inputs())
    if dry_run:
        _forecast(asked, jobs, fast_forward=fast_forward, as_json=as_json)
        return
    inputs = asked.read()
    if checked:
        from simaccel.experiment.check import require_small

        require_small(inputs[0])
    inputs = _searched(asked, inputs, jobs, quiet=quiet)
    result = _run(asked, inputs, trace, force=force, fast_forward=fast_forward, quiet=quiet)
    _show(asked, result, _checked(result) if checked else (), as_json=as_json, quiet=quiet)
    if trace is not None and not (as_json or quiet):
        show(f"trace: {trace}")


def _run(
    asked: Asked, inputs: Inputs, trace: str | None, *, force: bool, fast_forward: bool, quiet: bool
) -> Result:
    """Run the program, with a trace if one is asked for."""
    from simaccel.experiment.run import simulate
    from simaccel.report.units import cycles_text

    with Bar("simulating", quiet=quiet) as bar:
        kwargs: dict[str, Any] = {
            "options": asked.options,
            "progress": lambda cycle, done: bar.show(done, f"cycle {cycles_text(cycle)}"),
            "fast_forward": fast_forward,
        }
        if trace is None:
            return simulate(*inputs, **kwargs)
        from simaccel.experiment.recording import record

        return record(trace, *inputs, force=force, **kwargs)


def _checked(result: Result) -> tuple[Checked, ...]:
    from simaccel.experiment.check import check

    return check(result.workload, result.mapping, result.program)


def _searched(asked: Asked, inputs: Inputs, jobs: int | None, *, quiet: bool) -> Inputs:
    """Search a mapspace, which takes a while, with a bar of its own."""
    workload, accelerator, dataflow = inputs
    if not isinstance(dataflow, str) or not asked.searches():
        if jobs is not None:
            raise InputError([fault("--jobs", jobs, "nothing where no mapspace is searched")])
        return inputs
    from simaccel.cli.parallel import workers
    from simaccel.experiment.scheduling import scheduled

    with workers(jobs or 1) as each, Bar("searching", quiet=quiet) as bar:
        options = replace(asked.options, each=each, watch=bar.show)
        return workload, accelerator, scheduled(workload, accelerator, dataflow, options)


def _forecast(asked: Asked, jobs: int | None, *, fast_forward: bool, as_json: bool) -> None:
    from simaccel.experiment.forecast import forecast
    from simaccel.experiment.scheduling import scheduled
    from simaccel.program.lowering import lower
    from simaccel.report.costs import forecast_json, forecast_table
    from simaccel.report.results import experiment_title

    started = time.perf_counter()
    workload, accelerator, dataflow = _searched(asked, asked.read(), jobs, quiet=False)
    mapping = (
        scheduled(workload, accelerator, dataflow, asked.options)
        if isinstance(dataflow, str)
        else dataflow
    )
    seconds = time.perf_counter() - started
    program = lower(workload, mapping)
    expected = forecast(
        workload,
        accelerator,
        mapping,
        program,
        fast_forward=fast_forward,
        scheduling_seconds=seconds,
    )
    if as_json:
        show_json(forecast_json(expected))
    else:
        title = experiment_title(workload, accelerator, mapping.dataflow)
        show(f"{title}: not run", forecast_table(expected))


def _show(
    asked: Asked, result: Result, found: tuple[Checked, ...], *, as_json: bool, quiet: bool
) -> None:
    """Print what is asked for: JSON, the last line, or tables."""
    from simaccel.experiment.run import result_json
    from simaccel.report.results import against_estimate

    if as_json:
        checks = {"check": [vars(one) for one in found]} if found else {}
        show_json({**result_json(result), **checks})
        return
    if not quiet:
        _show_tables(asked, result, found)
    show(against_estimate(result))


def _show_tables(asked: Asked, result: Result, found: tuple[Checked, ...]) -> None:
    from simaccel.report.energy import energy_table
    from simaccel.report.results import (
        bound_line,
        buffer_line,
        channels_line,
        checked_table,
        cost_line,
        engines_table,
        experiment_title,
        operators_table,
    )

    title = experiment_title(result.workload, result.accelerator, result.mapping.dataflow)
    show(title, operators_table(result), engines_table(result), energy_table(result))
    if found:
        show(checked_table(found))
    show(buffer_line(result), bound_line(result), channels_line(result))
    if result.workload.parameters.get("kind") == "transformer":
        from simaccel.report.generation import classes_line

        show(classes_line(result))
    if asked.workload.is_onnx():
        from simaccel.report.imports import import_line

        show(import_line(asked.workload.imported()))
    show(cost_line(result))
