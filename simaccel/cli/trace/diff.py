"""`simaccel trace diff`: which operators and causes make two runs differ."""

from __future__ import annotations

import click

from simaccel.cli.command import Command
from simaccel.cli.options import json_option
from simaccel.cli.output import show, show_json
from simaccel.cli.settings import option
from simaccel.cli.trace.sound import require_files, sound


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
    with sound(a) as first, sound(b) as second:
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
