"""`simaccel generate`: the tokens of a transformer, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from simaccel.cli.command import Command
from simaccel.cli.options import (
    dry_run_option,
    experiment_options,
    fast_forward_option,
    json_option,
    overflow_option,
)
from simaccel.cli.several_runs import SeveralRuns, generation_options

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions


@click.command(
    cls=Command,
    examples=("generate --hw tpu_v5e --workload llama3-8b --prompt 512 --tokens 128",),
)
@experiment_options
@generation_options
@dry_run_option
@fast_forward_option
@overflow_option
@json_option
@click.option("--quiet", is_flag=True, hidden=True)
def generate(
    *,
    asked: ExperimentOptions,
    several: SeveralRuns,
    dry_run: bool,
    fast_forward: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Generate tokens with a transformer: a prefill, and a decode step for each token.

    The first lines have the time to the first token, the time of a token, and tokens a second.
    A few decode steps are simulated, at lengths that are spread over the generation.
    """
    how = {"fast_forward": fast_forward, "as_json": as_json, "quiet": quiet}
    several.run_and_show(asked, dry_run=dry_run, **how)
