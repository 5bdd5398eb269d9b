"""Output of the command line: tables and JSON to stdout, errors to stderr, files by option."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import click

from simaccel.cli.progress import clear_for_output
from simaccel.cli.settings import fault
from simaccel.errors import InputError, SimaccelError, WorkerDiedError, gather, require_none
from simaccel.files.targets import STDOUT, require_distinct, require_target, writing, writing_text
from simaccel.numbers import plain

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.study.points import StudyRow

_WIDTH = 120
"""Columns if the output is not a terminal, so that tables are complete in a file or pipe."""


class UnwrittenError(SimaccelError):
    """Standard output can't be written."""

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
    """Raise if standard output is closed, or refuses what the block prints.

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
    """Return the command line of this process."""
    return shlex.join(["simaccel", *sys.argv[1:]])


def show(*parts: Table | str) -> None:
    """Print tables and lines; a narrow terminal wraps lines, and nothing is left out."""
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


@contextmanager
def brief_warnings() -> Iterator[None]:
    """Print each warning of the block as one line, without its place in the code."""

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:  # noqa: ANN401 - of Python
        clear_for_output()
        click.echo(f"warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        yield


def show_json(document: object) -> None:
    """Print one JSON value and nothing else; unknown numbers are null."""
    click.echo(json.dumps(plain(document), indent=2, allow_nan=False))


def exit_code_of(rows: Sequence[StudyRow]) -> int:
    """Return the exit code of a study: 0 if a row has results and no process died."""
    if any(row.lost for row in rows):
        return WorkerDiedError.exit_code
    ran = any(row.figures is not None or row.result is not None for row in rows)
    return 0 if ran else rows[0].exit_code or InputError.exit_code


_BINARY: Final = ("--trace", "--parquet")
_WORDS: Final = {"--trace": "trace", "-o": "page", "--csv": "table", "--parquet": "table"}


@dataclass(frozen=True)
class OutputFiles:
    """The output files by option, and the input files, which they must not replace.

    Options that begin with ``--plot`` are figures.
    """

    options: Mapping[str, str | None]
    force: bool
    inputs: Sequence[str | Path] = ()

    @property
    def paths(self) -> dict[str, str]:
        """The output files that were given."""
        return {option: path for option, path in self.options.items() if path is not None}

    @property
    def prints(self) -> bool:
        """Whether one of the files is standard output."""
        return STDOUT in self.paths.values()

    @property
    def _how(self) -> dict[str, Any]:
        return {"force": self.force, "inputs": self.inputs}

    def require(self) -> None:
        """Refuse files that can't be written."""
        if not self.paths:
            return
        printed: list[str] = []
        for option, path in reversed(self.paths.items()):
            if path == STDOUT and not self._is_figure(option) and option not in _BINARY:
                allowed = f"a file for {option}: both go to standard output"
                require_none(fault(name, f"with {option} -", allowed) for name in printed)
                printed.append(f"{option} -")
        gather(
            *(partial(self._require, option, path) for option, path in self.paths.items()),
            lambda: require_distinct(self.paths.items()),
        )

    def _require(self, option: str, path: str) -> None:
        if self._is_figure(option):
            from simaccel.report.figures.style import require_figure_target

            require_figure_target(path, **self._how)
            return
        if option == "--parquet":
            from simaccel.files.targets import require_parquet

            require_parquet("--parquet", "--csv")
        require_target(path, text=option not in _BINARY, **self._how)

    def write(self, option: str, make: Callable[..., Any], kind: str = "") -> list[str]:
        """Write the file of an option, if it is given; return the line that reports it.

        ``make`` returns a figure, or text as a whole or in pieces; for binary files it writes to a
        path. ``kind``: what the file is called, where that doesn't follow from the option.
        """
        path = self.paths.get(option)
        if path is None:
            return []
        if self._is_figure(option):
            from simaccel.report.figures.style import save_figure, style

            with style():
                save_figure(make(), path, **self._how)
        elif option in _BINARY:
            with writing(path, **self._how) as partly:
                make(partly)
        else:
            with writing_text(path, **self._how) as stream:
                text: str | Iterable[str] = make()
                for piece in [text] if isinstance(text, str) else text:
                    stream.write(piece)
        return [f"{kind or _WORDS.get(option, 'figure')}: {path}"]

    def show_rows(
        self,
        title: str,
        parts: Callable[[], Iterable[Table | str]],
        document: Callable[[], object],
        files: Mapping[str, Callable[..., object]],
        *,
        as_json: bool,
    ) -> None:
        """Write files by option; print JSON, or tables and lines below a title."""
        written = [line for option, make in files.items() for line in self.write(option, make)]
        if as_json:
            show_json(document())
        elif not self.prints:
            show(title, *parts(), *written)

    @staticmethod
    def _is_figure(option: str) -> bool:
        return option.startswith("--plot")
