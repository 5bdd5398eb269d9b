"""`simaccel trace stalls`: where the cycles went, why, and the gain by faster resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from simaccel.cli.choices import TOP
from simaccel.cli.command import Command
from simaccel.cli.options import json_option
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.cli.settings import RowCount, option
from simaccel.cli.trace.opening import checked_trace, read_window

if TYPE_CHECKING:
    from simaccel.diagnosis.stalls import Diagnosis
    from simaccel.trace import TraceReader


@click.command(cls=Command)
@click.argument("file")
@option("--operator NAME", "Only this operator or fused group.")
@option("--from CYCLE", "Start of a window (default 0).", to="start", default="0")
@option("--to CYCLE", "End of the window (default: the end of the run).", to="end")
@option("--each", "Print a table of the engines for each operator.")
@option(
    "--top N|all",
    f"Rows of the table of operators, the longest first (default {TOP}).",
    type=RowCount(),
    default=TOP,
)
@option(
    "--what-if/--no-what-if",
    "Run again with each resource infinitely fast (default), or not.",
    to="what_if",
    default=True,
)
@json_option
def stalls(
    file: str,
    operator: str | None,
    start: str,
    end: str | None,
    each: bool,
    top: int | None,
    what_if: bool,
    as_json: bool,
) -> None:
    """Show the cycles of each engine by cause, its waits, and the gain without each cause.

    What limits the run comes first, with the operators that cost most. If the first of them waits
    for DRAM, a search looks for a dataflow that moves fewer bytes. With --from or --to the tables
    are of that window; the gains are always those of the whole run.
    """
    with checked_trace(file, accounts=True) as opened:
        from simaccel.report.stalls import stall_parts, stalls_json
        from simaccel.study.stall_analysis import analyse_stalls
        from simaccel.trace import TraceError

        if not opened.cycles:
            raise TraceError(opened.path, "holds no cycle", "a trace of a run")
        window = read_window(start, end, opened.cycles)
        with ProgressBar("what if") as bar:
            analysis = analyse_stalls(opened, operator, window, what_if=what_if, progress=bar.show)
        if as_json:
            show_json(stalls_json(analysis, operator))
        else:
            rows = None if each else top
            show(_title(opened, analysis.diagnosis))
            show(*stall_parts(analysis, operator, rows, each=each))


def verdict_lines(trace: TraceReader, *, what_if: bool) -> list[str]:
    """Return the analysis of a trace's stalls, with what-if runs if ``what_if``."""
    from simaccel.report.stalls import verdicts
    from simaccel.study.stall_analysis import analyse_stalls

    with ProgressBar("what if") as bar:
        analysis = analyse_stalls(trace, what_if=what_if, progress=bar.show)
    lines = list(verdicts(analysis, analysis.diagnosis.total))
    return [*lines, f"No what-if: {analysis.lacks}."] if analysis.lacks else lines


def _title(trace: TraceReader, found: Diagnosis) -> str:
    from simaccel.report.titles import trace_title

    cycles = f"{found.total.cycles:,} cycles"
    if found.total.cycles < trace.cycles:
        cycles = f"cycles {found.start:,} to {found.end:,}, {cycles} of {trace.cycles:,}"
    partial = ", as far as the run came (the trace is partial)" if trace.partial else ""
    return f"{trace_title(trace)}: {cycles}{partial}"
