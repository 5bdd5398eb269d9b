"""`simaccel trace info` and `diff`: what ran, whether a file is intact, and why two runs differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from simaccel.cli.command import Command
from simaccel.cli.options import json_option
from simaccel.cli.output import show, show_json
from simaccel.cli.settings import option
from simaccel.cli.trace.opening import checked_trace, require_files
from simaccel.report.units import bytes_text, seconds_text

if TYPE_CHECKING:
    from simaccel.trace import TraceReader

_REPRODUCE = ("accelerator", "workload", "mapping")
"""Texts of the header that are input files of `simaccel run`."""


@click.command(cls=Command)
@click.argument("file")
@json_option
def info(file: str, as_json: bool) -> None:
    """Describe a trace, and check that busy + stalls + idle = total."""
    with checked_trace(file) as opened:
        found = _describe_trace(opened)
        if as_json:
            show_json(found)
        else:
            from simaccel.report.catalogues import fields_table
            from simaccel.report.titles import trace_title

            show(trace_title(opened), fields_table(_rows(opened, found)))


def _describe_trace(trace: TraceReader) -> dict[str, Any]:
    header = trace.header
    texts = _REPRODUCE[:2] if trace.unreadable() else (*_REPRODUCE, "program")
    return {
        "workload": trace.workload().name if header.workload else None,
        "accelerator": trace.accelerator().name if header.accelerator else None,
        "dataflow": trace.dataflow() if header.mapping else None,
        "version": header.version,
        "seed": header.seed,
        "schema_version": trace.schema_version,
        "file_bytes": trace.path.stat().st_size,
        "partial": trace.partial,
        "cycles": trace.cycles,
        "engines": list(trace.engines),
        "channels": list(trace.channels),
        "tiles": list(trace.tiles),
        "rows": trace.n_rows,
        "segments": trace.n_segments,
        "reproduced_by": [name for name in texts if getattr(header, name)],
        "sound": True,
    }


def _rows(trace: TraceReader, figures: dict[str, Any]) -> list[tuple[str, str]]:
    recipe = figures["reproduced_by"]
    rows = [
        ("version", figures["version"]),
        ("schema version", str(figures["schema_version"])),
        ("file size", bytes_text(figures["file_bytes"])),
        ("rows", f"{figures['rows']:,}"),
        ("segments", f"{figures['segments']:,}"),
        ("run", _run(trace)),
        ("engines", ", ".join(trace.engines)),
        ("channels", ", ".join(trace.channels)),
        ("tiles", ", ".join(trace.tiles)),
    ]
    if all(name in recipe for name in _REPRODUCE):
        files = "--hw, --workload and --mapping of `simaccel run`"
        rows.append(("reproduced by", f"header/{', header/'.join(_REPRODUCE)}: {files}"))
    elif recipe:
        rows.append(("reproduced by", f"header/{', header/'.join(recipe)}"))
    if missing := trace.unreadable():
        rows.append(("can't be shown", missing))
    tiled = "rows of every engine cover the cycles without gap or overlap"
    sums = tiled if trace.partial else "busy + stalls + idle = total for every engine"
    return [row for row in [*rows, ("checked", sums)] if row[1]]


def _run(trace: TraceReader) -> str:
    cycles = f"{trace.cycles:,} cycles"
    if trace.header.accelerator:
        cycles += f" ({seconds_text(trace.accelerator().seconds(trace.cycles))})"
    return f"partial: ended at {cycles}, before its end" if trace.partial else f"whole, {cycles}"


@click.command(cls=Command)
@click.argument("a")
@click.argument("b")
@option("--engine NAME", "Compare the cycles of this engine (default array).", default="array")
@json_option
def diff(a: str, b: str, engine: str, as_json: bool) -> None:
    """Explain the difference in cycles of two runs of one workload.

    The rows of each table add up exactly to the difference. Operators that only one run has
    fused are compared together.
    """
    require_files(a, b)
    with checked_trace(a) as first, checked_trace(b) as second:
        from simaccel.diagnosis.difference import compare

        difference = compare(first, second, engine)
    from simaccel.report import trace_diff

    if as_json:
        show_json(trace_diff.difference_json(difference))
        return
    show(
        f"A: {a}",
        f"B: {b}",
        "",
        trace_diff.groups_table(difference),
        trace_diff.causes_table(difference),
    )
    show(*trace_diff.difference_lines(difference))
