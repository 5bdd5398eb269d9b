"""The command `simaccel`: its sub-commands, and how errors and Ctrl-C end it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from simaccel.cli.command import Commands
from simaccel.cli.output import UnwrittenError, checked_output
from simaccel.errors import InputError, SimaccelError, printable, shorten

INTERRUPTED = 130
"""Exit code after Ctrl-C, and after SIGTERM, which ends a command in the same way."""


_LONG: Final = re.compile(r"\S{81,}")
"""Words that make a message too long to read."""


@contextmanager
def _printable() -> Iterator[None]:
    """Escape and shorten the user's text in click's messages about unknown options."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        text = _LONG.sub(lambda word: shorten(word[0], 80), error.format_message())
        text = printable(text, keep="\n")
        raise click.UsageError(text, error.ctx) from None


class _Simaccel(Commands):
    """The group whose commands end without a traceback when the user made a mistake."""

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
            with checked_output():
                code: int | None = super().main(args, prog_name, standalone_mode=False, **extra)
        except click.ClickException as error:
            if not standalone_mode:
                raise
            error.show()
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            code = INTERRUPTED
        except UnwrittenError as error:  # in a command, or closed before it
            click.echo(f"error: {error}", err=True)
            code = error.exit_code
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
        except UnwrittenError:
            raise
        except SimaccelError as error:
            for line in error.lines() if isinstance(error, InputError) else (error,):
                click.echo(f"error: {printable(str(line), keep=chr(10))}", err=True)
            ctx.exit(error.exit_code)
        except MemoryError as error:  # under a limit of the shell, or of a container
            click.echo(f"error: not enough memory: {error}".removesuffix(": "), err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


_COMMANDS = {
    "run": "simaccel.cli.run:run",
    "generate": "simaccel.cli.several_runs:generate",
    "compare": "simaccel.cli.compare:compare",
    "explore": "simaccel.cli.explore:explore_command",
    "estimate": "simaccel.cli.estimate:estimate",
    "map": "simaccel.cli.estimate:map_workload",
    "hw": "simaccel.cli.catalogues:hw",
    "workload": "simaccel.cli.catalogues:workload",
    "dram": "simaccel.cli.catalogues:dram",
    "trace": "simaccel.cli.trace:trace",
}


def _print_version(ctx: click.Context, _param: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted or ctx.resilient_parsing:
        return
    from simaccel.version import version

    click.echo(f"simaccel, version {version()}")
    ctx.exit()


@click.group(
    cls=_Simaccel,
    places=_COMMANDS,
    plugged="simaccel.commands",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Simulate tensor accelerators, cycle by cycle.

    \b
    simaccel run --hw edge --workload bert --seq-len 512 --batch 64 --dataflow flat
    simaccel compare --hw edge --workload bert --seq-len 512,4096 --batch 64 --dataflow flex,flat

    Exit codes: 0 success, 1 a worker process died or the output can't be written, 2 a mistake
    in the input, 3 an internal error or a deadlock, 4 a check failed, 130 interrupted.
    `compare` succeeds if at least one run did.
    """  # noqa: D301 - click reads the backspace
