"""`simaccel trace export`: a trace in the formats of other programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import click

from simaccel.cli.choices import AT_MOST, BINS, LANES, TRACE_FORMATS
from simaccel.cli.command import Command
from simaccel.cli.options import force_option
from simaccel.cli.output import show, show_json
from simaccel.cli.settings import fault, option
from simaccel.cli.trace.opening import checked_trace, read_window
from simaccel.errors import InputError, suggest
from simaccel.files.targets import STDOUT, require_parquet, require_target, writing, writing_text

_PARQUET: Final = "parquet"
"""The only binary format."""
_TABLES: Final = ("csv", _PARQUET)
"""Formats whose rows users add up: a window with too many events is refused, not shortened."""


@click.command(cls=Command)
@click.argument("file")
@option("--format NAME", "perfetto, csv, vcd or parquet.", to="name", required=True)
@option("-o --output FILE", "File to write; - prints it.", required=True)
@option("--from CYCLE", "First cycle (default 0).", to="start")
@option(
    "--to CYCLE",
    "Cycle after the last (default: the end of the run). If neither end is given and"
    " the run has too many events, perfetto and vcd show a steady period with the fill before it.",
    to="end",
)
@option(
    "--lanes NAME,..",
    f"Lanes, or kinds of lanes: engine, channel, tile. Default {LANES}.",
    default=LANES,
)
@option(
    "--bins N",
    f"Bins of the bandwidth counters (default {BINS}).",
    type=click.IntRange(1, 100_000),
    default=BINS,
)
@option(
    "--at-most N",
    f"Refuse windows of more events (default {AT_MOST}).",
    type=click.IntRange(1, 10**9),
    default=AT_MOST,
)
@force_option
@option("--json", "Print JSON and nothing else.", to="as_json")
def export(
    *,
    file: str,
    name: str,
    output: str,
    start: str | None,
    end: str | None,
    lanes: str,
    bins: int,
    at_most: int,
    force: bool,
    as_json: bool,
) -> None:
    """Write the events of a window in the format of another program.

    \b
    perfetto   JSON for https://ui.perfetto.dev and chrome://tracing
    csv        a table for spreadsheets: sum its column cycles
    parquet    the same table for pandas, Polars and DuckDB (pip install 'simaccel[parquet]')
    vcd        signals for GTKWave
    """  # noqa: D301 - click reads the backspace
    if name not in TRACE_FORMATS:
        raise InputError([fault("--format", name, suggest(name, TRACE_FORMATS))])
    require_target(output, force=force, inputs=(file,), text=name != _PARQUET)
    if name == _PARQUET:
        require_parquet("--format", "--format csv")
    with checked_trace(file) as trace:
        from simaccel.trace.exports import FORMATS, WindowTooLargeError, excerpt

        how: dict[str, Any] = {"bins": bins, "at_most": at_most}
        how["lanes"] = [lane.strip() for lane in lanes.split(",")]
        try:
            part = excerpt(trace, *read_window(start, end, trace.cycles), **how)
        except WindowTooLargeError:
            if (start, end) != (None, None) or name in _TABLES:
                raise
            from simaccel.report.figures.window import default_window

            steady = default_window(trace)  # or its beginning
            try:
                part = excerpt(trace, steady.start, steady.end, **how)
            except WindowTooLargeError as error:
                part = excerpt(trace, steady.start, max(error.fitting, steady.start + 1), **how)
        with _writing(name, output, force=force, inputs=(file,)) as stream:
            FORMATS[name](stream, part)
    n_events = len(part.rows)
    if output != STDOUT and as_json:
        show_json({"file": output, "events": n_events, "from": part.start, "to": part.end})
    elif output != STDOUT:
        show(f"{output}: {n_events:,} events of cycles {part.start:,} to {part.end:,}")


@contextmanager
def _writing(name: str, output: str, **how: Any) -> Iterator[IO[Any]]:  # noqa: ANN401 - what `writing` takes
    if name != _PARQUET:
        with writing_text(output, **how) as text:
            yield text
        return
    with writing(output, **how) as partial, partial.open("xb") as stream:
        yield stream
