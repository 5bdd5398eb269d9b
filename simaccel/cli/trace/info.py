"""`simaccel trace info` and `diff`: what ran, whether a file is intact, and why two runs differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from simaccel.cli.command import Command
from simaccel.cli.options import json_option
from simaccel.cli.output import show, show_json
from simaccel.cli.settings import option
from simaccel.cli.trace.opening import checked_trace, require_files
from simaccel.report.units import bytes_text, seconds_text

if TYPE_CHECKING:
    from simaccel.trace import TraceReader

_TAKEN: Final = {"accelerator": " (--hw)", "workload": " (--workload)", "mapping": " (--mapping)"}
"""Texts of the header that are input files of `simaccel run`, and its options for them."""


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

            show(trace_title(opened), fields_table([*_rows(opened, found)]))


def _describe_trace(trace: TraceReader) -> dict[str, Any]:
    header = trace.header
    texts = [*_TAKEN][:2] if trace.unreadable() else [*_TAKEN, "program"]
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


def _rows(trace: TraceReader, described: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields of the JSON as text, with the time of the run and what was checked."""
    texts = {"file_bytes": bytes_text(described["file_bytes"]), "cycles": _run(trace)}
    files = (f"header/{name}{_TAKEN.get(name, '')}" for name in described["reproduced_by"])
    texts["reproduced_by"] = ", ".join(files)
    texts["partial"] = trace.unreadable()
    tiled = "rows of every engine cover the cycles without gap or overlap"
    texts["sound"] = tiled if trace.partial else "busy + stalls + idle = total for every engine"
    for name, value in described.items():
        text = f"{value:,}" if isinstance(value, int) else value
        text = texts.get(name, ", ".join(text) if isinstance(text, list) else text)
        if text:
            yield _NAMES.get(name, name.replace("_", " ")), text


def _run(trace: TraceReader) -> str:
    cycles = f"{trace.cycles:,} cycles"
    if trace.header.accelerator:
        cycles += f" ({seconds_text(trace.accelerator().seconds(trace.cycles))})"
    return f"partial: ended at {cycles}, before its end" if trace.partial else f"whole, {cycles}"


_NAMES: Final = {
    "file_bytes": "file size",
    "cycles": "run",
    "partial": "can't be shown",
    "sound": "checked",
}


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
