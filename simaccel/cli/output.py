"""Output of the command line: tables and JSON to stdout, progress and errors to stderr."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from simaccel.cli.progress import clear_for_output
from simaccel.errors import SimaccelError
from simaccel.numbers import plain

if TYPE_CHECKING:
    from rich.table import Table

_WIDTH = 120
"""Columns where the output is no terminal: tables are whole in a file or a pipe."""


class UnwrittenError(SimaccelError):
    """Standard output takes nothing."""

    exit_code = 1

    def __init__(self, reason: str) -> None:
        super().__init__(f"standard output can't be written: {reason}")


class _Output:
    """Standard output that reports if it can't be written; a pipe that ends is click's."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        clear_for_output()
        with _refusal():
            return self.stream.write(text)

    def flush(self) -> None:
        with _refusal():
            self.stream.flush()


@contextmanager
def _refusal() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        raise UnwrittenError(error.strerror or str(error)) from None


@contextmanager
def checked_output() -> Iterator[None]:
    """Raise where standard output refuses what is printed in the block, or is closed before it.

    Raises:
        UnwrittenError: says why.

    """
    stream = sys.stdout
    if stream is None:  # nothing runs whose results nobody could see
        raise UnwrittenError("it is closed")
    sys.stdout = cast("TextIO", _Output(stream))
    try:
        yield
    except UnwrittenError:
        stream = io.StringIO()  # for what Python writes as it ends
        raise
    finally:
        sys.stdout = stream


def command_line() -> str:
    """Return the command as it was given."""
    return shlex.join(["simaccel", *sys.argv[1:]])


def show(*parts: Table | str) -> None:
    """Print tables and lines; a terminal that is too narrow wraps lines, nothing is left out."""
    if all(isinstance(part, str) for part in parts):
        for part in parts:
            click.echo(part)
        return
    from rich.console import Console

    from simaccel.report.tables import least_width

    fixed = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=None if fixed else _WIDTH, highlight=False)
    for part in parts:
        if isinstance(part, str):
            console.print(part, markup=False, soft_wrap=True)
        else:
            console.width = max(console.width, least_width(part, console))
            console.print(part, "")


def show_json(document: object) -> None:
    """Print one JSON value and nothing else; null stands for unknown numbers."""
    click.echo(json.dumps(plain(document), indent=2, allow_nan=False))
