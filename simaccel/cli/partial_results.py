"""The finished rows of a comparison, kept if it ends early."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import click

from simaccel.errors import SimaccelError
from simaccel.files.targets import STDOUT, partial_path, real_path, writing_text
from simaccel.report.comparison import comparison_rows
from simaccel.report.tables import csv_text
from simaccel.study.points import StudyRow

WRITE_SECONDS = 1.0
"""Least time between two writes of the file: at most this much work is lost by a SIGKILL."""
UNFINISHED = "not finished"


@contextmanager
def keep_partial_results(
    table: str | None, expected: Sequence[StudyRow]
) -> Iterator[Callable[[int, StudyRow], None]]:
    """Yield a callback that records each finished row; they are saved on an error or a signal.

    While the others run, a CSV file beside ``table`` has the rows, with unfinished ones marked. It
    is removed when the block ends normally; after an error, Ctrl-C or a kill it stays and its path
    is reported. If ``table`` is standard output, the finished rows are printed in that case.
    """
    rows = [replace(row, problem=UNFINISHED, exit_code=1) for row in expected]
    partial = None if table in {None, STDOUT} else partial_path(real_path(str(table)))
    finished, kept, written = 0, 0, time.monotonic()

    def record_row(number: int, row: StudyRow) -> None:
        nonlocal finished, kept, written
        rows[number] = row
        finished += 1
        if partial is not None and time.monotonic() - written >= WRITE_SECONDS:
            kept = finished if _write(partial, rows) else kept
            written = time.monotonic()

    try:
        yield record_row
    except BaseException:
        if partial is not None:
            kept = finished if finished and _write(partial, rows) else kept
            if kept:
                click.echo(f"{kept} of {len(rows)} finished points are in {partial}", err=True)
        elif table is not None and finished:
            click.echo(csv_text(comparison_rows(rows)), nl=False)
        raise
    if partial is not None:
        partial.unlink(missing_ok=True)


def _write(partial: Path, rows: Sequence[StudyRow]) -> bool:
    """Write the rows, if the disk takes them: the run goes on without."""
    with suppress(SimaccelError):
        with writing_text(str(partial), force=True) as stream:
            stream.write(csv_text(comparison_rows(rows)))
        return True
    return False
