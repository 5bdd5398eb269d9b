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
from simaccel.cli.trace.opening import checked_trace, read_window, run_title
from simaccel.report.units import cycles_text

if TYPE_CHECKING:
    from simaccel.diagnosis.stalls import Diagnosis
    from simaccel.diagnosis.verdict import Proposal, StallAnalysis
    from simaccel.diagnosis.what_if import WhatIfResult
    from simaccel.hardware import Accelerator
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
    read_window(start, end)  # what the run needs not say
    with checked_trace(file, accounts=True) as opened:
        from simaccel.diagnosis.stalls import diagnose
        from simaccel.diagnosis.verdict import analysis_of
        from simaccel.report.stalls import stalls_json
        from simaccel.trace import TraceError

        if not opened.cycles:
            raise TraceError(opened.path, "holds no cycle", "a trace of a run")
        diagnosis = diagnose(opened, *read_window(start, end, opened.cycles))
        diagnosis.part(operator)
        accelerator = _accelerator(opened)
        freed, reason = _what_if(opened, accelerator) if what_if else (None, "")
        proposal = _proposal(opened, diagnosis) if what_if and freed else None
        analysis = analysis_of(opened, diagnosis, freed, proposal)
        if as_json:
            show_json(stalls_json(analysis, operator))
        else:
            show(_title(opened, diagnosis))
            _show(analysis, operator, None if each else top, each=each)
            _show_what_if(opened, analysis, operator, reason)


def verdict_lines(trace: TraceReader, *, what_if: bool) -> list[str]:
    """Return the analysis of a trace's stalls, with what-if runs if ``what_if``."""
    from simaccel.diagnosis.stalls import diagnose
    from simaccel.diagnosis.verdict import analysis_of
    from simaccel.report.stalls import verdicts

    accelerator = _accelerator(trace)
    freed, reason = _what_if(trace, accelerator) if what_if else (None, "")
    found = diagnose(trace)
    proposal = _proposal(trace, found) if freed else None
    lines = list(verdicts(analysis_of(trace, found, freed, proposal), found.total))
    return [*lines, f"No what-if: {reason}."] if reason else lines


def _accelerator(trace: TraceReader) -> Accelerator | None:
    """Return the accelerator that the trace stores, or None."""
    return trace.accelerator() if trace.header.accelerator else None


def _what_if(
    trace: TraceReader, accelerator: Accelerator | None
) -> tuple[WhatIfResult | None, str]:
    """Run the trace's program with resources without limit, or return why not."""
    from simaccel.diagnosis.what_if import remembered_what_if

    if trace.partial:
        return None, "the trace is partial, there is no whole run to compare with"
    if accelerator is None or not trace.header.program:
        return None, "the trace holds no accelerator or no program"
    if missing := trace.unreadable():
        return None, missing
    with ProgressBar("what if") as bar:
        return remembered_what_if(accelerator, trace.program(), bar.show, trace), ""


def _proposal(trace: TraceReader, found: Diagnosis) -> Proposal | None:
    """Look for another dataflow for what costs most; where nothing is, nothing is loaded for it."""
    if found.waits_for_bytes is None:
        return None
    from simaccel.diagnosis.verdict import propose

    return propose(trace.workload(), trace.accelerator(), found)


def _title(trace: TraceReader, found: Diagnosis) -> str:
    cycles = f"{cycles_text(found.total.cycles)} cycles"
    if found.total.cycles < trace.cycles:
        ends = f"{cycles_text(found.start)} to {cycles_text(found.end)}"
        cycles = f"cycles {ends}, {cycles} of {cycles_text(trace.cycles)}"
    partial = ", as far as the run came (the trace is partial)" if trace.partial else ""
    return f"{run_title(trace)}: {cycles}{partial}"


def _show(analysis: StallAnalysis, operator: str | None, top: int | None, *, each: bool) -> None:
    from simaccel.report.stalls import engines_table, overview_table, verdicts, waits_table

    diagnosis = analysis.diagnosis
    part = diagnosis.part(operator)
    show(*verdicts(analysis, part), "")
    if operator is None:
        show(overview_table(diagnosis, top))
    for shown in (*(diagnosis.operators if each and operator is None else ()), part):
        show(engines_table(shown))
    waits = waits_table(part)
    if waits is not None:
        show(waits)


def _show_what_if(
    trace: TraceReader, analysis: StallAnalysis, operator: str | None, reason: str
) -> None:
    from simaccel.report.stalls import what_if_table

    if reason:
        show("", f"no what-if: {reason}")
    if analysis.what_if is None:
        return
    whole = analysis.diagnosis.total.cycles == trace.cycles
    where = operator or "the whole run"
    also = "" if whole else ", not only of this window"
    show("", f"what if, for {where}{also}: the same program with a resource infinitely fast")
    show("(what other designs would make of the workload: simaccel run --designs)")
    part = analysis.diagnosis.part(operator)
    show(what_if_table(analysis.what_if, part.name))
    if not any("array" in freed.resources for freed in analysis.what_if.freed):
        show("array and SFU are left out: as the memory takes no time, the run would take none")
    if any(freed.cycles > analysis.what_if.base.cycles for freed in analysis.what_if.freed):
        show(
            "a negative saving is real: a transfer that comes earlier shares buffer ports and DRAM "
            "with more urgent ones"
        )
    rerun_cycles = analysis.what_if.base.cycles
    if rerun_cycles != trace.cycles:
        version = trace.header.version
        show(
            f"the trace's {cycles_text(trace.cycles)} cycles are those of simaccel {version}; this "
            f"one takes {cycles_text(rerun_cycles)}, to which the table compares"
        )
