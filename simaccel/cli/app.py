"""The command `simaccel`: its sub-commands, and how errors and Ctrl-C end it."""

from __future__ import annotations

import os

import click

from simaccel import __version__
from simaccel.cli.catalogues import hw, workload
from simaccel.cli.compare import compare
from simaccel.cli.estimate import estimate, map_workload
from simaccel.cli.run import run
from simaccel.cli.trace import trace
from simaccel.errors import InputError, SimaccelError

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""


class _Commands(click.Group):
    """A group whose commands end without a traceback when the user made a mistake."""

    def invoke(self, ctx: click.Context) -> object:
        os.environ["MPLBACKEND"] = (
            "agg"  # figures go to files; an unknown one would stop matplotlib
        )
        try:
            return super().invoke(ctx)
        except SimaccelError as error:
            faults = error.faults if isinstance(error, InputError) else (error,)
            for one in faults:
                click.echo(f"error: {one}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="simaccel")
def main() -> None:
    """Simulate tensor accelerators, cycle by cycle.

    \b
    simaccel run --hw edge --workload bert --seq-len 512 --batch 64 --dataflow flat
    simaccel compare --hw edge --workload bert --seq-len 512,4096 --batch 64

    Exit codes: 0 all is well, 2 a mistake in what was given, 3 the program deadlocks,
    4 a check failed, 1 a worker process died or the output was closed, 130 interrupted.
    `compare` succeeds if one ran.
    """  # noqa: D301 - click reads the backspace


for _command in (run, compare, estimate, map_workload, hw, workload, trace):
    main.add_command(_command)
