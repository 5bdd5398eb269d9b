"""`simaccel estimate` and `simaccel map`: the closed form, and mappings as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from simaccel.cli.command import Command
from simaccel.cli.faults import fault, require_none, require_stdout_free
from simaccel.cli.options import (
    experiment_options,
    force_option,
    jobs_option,
    json_option,
    mapping_option,
)
from simaccel.cli.output import show, show_json

if TYPE_CHECKING:
    from simaccel.cli.asked import Asked
    from simaccel.hardware import Accelerator
    from simaccel.mapping.tree import Mapping
    from simaccel.workload import Workload


def _fitting(asked: Asked) -> tuple[Workload, Accelerator, Mapping]:
    """Read everything, and refuse a mapping that doesn't fit the buffer."""
    workload, accelerator, mapping = asked.mapped()
    from simaccel.program.folding import require_sums_fit
    from simaccel.program.lowering import lower
    from simaccel.program.program import require_fit

    program = lower(workload, mapping)
    require_fit(program, accelerator.capacities)
    require_sums_fit(program, accelerator)
    return workload, accelerator, mapping


@click.command(cls=Command)
@experiment_options
@mapping_option
@json_option
def estimate(asked: Asked, as_json: bool) -> None:
    """Predict a run with the closed form alone; nothing is simulated."""
    workload, accelerator, mapping = _fitting(asked)
    from simaccel.analytic.estimate import estimate as predict
    from simaccel.report.estimates import estimate_json, estimate_table
    from simaccel.report.results import experiment_title

    predicted = predict(workload, mapping, accelerator)
    if as_json:
        names = {
            "workload": workload.name,
            "accelerator": accelerator.name,
            "dataflow": mapping.dataflow,
        }
        show_json({**names, **estimate_json(predicted, accelerator)})
        return
    title = experiment_title(workload, accelerator, mapping.dataflow)
    show(f"{title}: closed form", estimate_table(predicted, accelerator))


@click.command("map", cls=Command)
@experiment_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the mapping here, - prints it (default: print its tree).",
)
@jobs_option
@click.option("--explain", is_flag=True, help="Say what limits the best mapping of a mapspace.")
@click.option("--plot", metavar="FILE", help="Draw how the search went on, as .png, .svg or .pdf.")
@force_option
@json_option
def map_workload(
    *,
    asked: Asked,
    output: str | None,
    jobs: int | None,
    explain: bool,
    plot: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Let a scheduler map a workload, and save the mapping as YAML.

    With --mapspace, and on spatial arrays, the best mapping of a mapspace is searched.
    """
    from simaccel.files.targets import STDOUT, writing_text

    require_stdout_free(output, "-o", others={"--json": as_json, "--explain": explain})
    inputs = asked.inputs()
    _require_files(output, plot, force=force, inputs=inputs)
    from simaccel.mapping.files import mapping_text
    from simaccel.mapping.text import tree_text

    text = mapping_text if output == STDOUT else tree_text
    output = None if output == STDOUT else output
    if asked.searches():
        from simaccel.cli.nests import Wanted, map_nests

        wanted = Wanted(
            output=output,
            plot=plot,
            force=force,
            inputs=inputs,
            explain=explain,
            as_json=as_json,
            text=text,
        )
        map_nests(asked, jobs or 1, wanted)
        return
    allowed = "nothing where no mapspace is searched"
    given = {"--jobs": jobs, "--explain": explain or None, "--plot": plot}
    require_none(fault(o, v, allowed) for o, v in given.items() if v is not None)
    workload, accelerator, mapping = _fitting(asked)
    if as_json:
        import yaml

        show_json(yaml.safe_load(mapping_text(mapping)))
    elif output is None:
        click.echo(text(mapping), nl=False)
    if output is None:
        return
    with writing_text(output, force=force, inputs=inputs) as stream:
        stream.write(mapping_text(mapping))
    if as_json:
        return
    from simaccel.analytic.estimate import estimate as predict
    from simaccel.report.units import bytes_text

    predicted = predict(workload, mapping, accelerator)
    click.echo(f"{output}: {mapping.dataflow}, reserves {bytes_text(predicted.buffer_bytes)}")


def _require_files(
    output: str | None, plot: str | None, *, force: bool, inputs: list[Path]
) -> None:
    """Refuse files that can't be written, before anything is searched."""
    from simaccel.files.targets import require_distinct, require_target
    from simaccel.report.figures.style import require_figure_target

    if output is not None:
        require_target(output, force=force, inputs=inputs, text=True)
    if plot is not None:
        require_figure_target(plot, force=force, inputs=inputs)
    require_distinct({"-o": output, "--plot": plot}.items())
