"""The command `simaccel`: its sub-commands, and how errors and Ctrl-C end it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from simaccel import __version__
from simaccel.cli.bound import bound
from simaccel.cli.catalogues import hw, workload
from simaccel.cli.compare import compare
from simaccel.cli.directives import directives
from simaccel.cli.dram import dram
from simaccel.cli.estimate import estimate, map_workload
from simaccel.cli.explain import explain
from simaccel.cli.explore import explore_command
from simaccel.cli.run import run
from simaccel.cli.trace import trace
from simaccel.errors import InputError, SimaccelError, printable

INTERRUPTED = 130
"""Exit code after Ctrl-C, and after SIGTERM, which ends a command in the same way."""


@contextmanager
def _printable() -> Iterator[None]:
    """Escape control characters in what click says of options that it does not know."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        text = printable(error.format_message(), keep="\n")
        raise click.UsageError(text, error.ctx) from None


class _Commands(click.Group):
    """A group whose commands end without a traceback when the user made a mistake."""

    def main(  # type: ignore[override]  # click has an overload for each mode
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,  # noqa: ANN401 - of click
    ) -> object:
        """Run a command line; Ctrl-C outside of a command's own work ends it like any other."""
        try:
            code: int | None = super().main(args, prog_name, standalone_mode=False, **extra)
        except click.ClickException as error:
            if not standalone_mode:
                raise
            error.show()
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            code = INTERRUPTED
        return sys.exit(code) if standalone_mode else code

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before the name of a command."""
        with _printable():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        os.environ["MPLBACKEND"] = (
            "agg"  # figures go to files; an unknown one would stop matplotlib
        )
        try:
            with _printable():
                return super().invoke(ctx)
        except SimaccelError as error:
            faults = error.faults if isinstance(error, InputError) else (error,)
            for one in faults:
                click.echo(f"error: {printable(str(one), keep=chr(10))}", err=True)
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


_COMMANDS = (
    *(run, compare, explore_command, explain, estimate, bound, directives, map_workload),
    *(hw, workload, dram, trace),
)
for _command in _COMMANDS:
    main.add_command(_command)
