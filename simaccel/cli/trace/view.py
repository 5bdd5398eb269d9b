"""`simaccel trace view`: a trace as one HTML page to look into with a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from simaccel.cli.command import Command
from simaccel.cli.options import force_option
from simaccel.cli.output import show
from simaccel.cli.settings import option
from simaccel.cli.trace.sound import sound
from simaccel.cli.trace.stalls import verdict_lines
from simaccel.files.targets import STDOUT, require_target
from simaccel.report.units import bytes_text

if TYPE_CHECKING:
    from simaccel.trace import TraceReader


@click.command(cls=Command)
@click.argument("file")
@option("-o --output PAGE", "HTML file to write; - prints it.", required=True)
@option(
    "--what-if/--no-what-if",
    "Run again with each resource infinitely fast (default), or not.",
    to="what_if",
    default=True,
)
@force_option
def view(file: str, output: str, *, what_if: bool, force: bool) -> None:
    """Write a page with the whole run: zoom, hover and click in a browser, without a network.

    The page begins with the summary that `simaccel trace stalls` prints.
    """
    require_target(output, force=force, inputs=(file,), text=True)
    with sound(file, _require_small) as opened:
        from simaccel.report.page import write_page

        said = verdict_lines(opened, what_if=what_if) if opened.cycles else []
        n_bytes = write_page(opened, output, force=force, said=said)
    if output != STDOUT:
        show(f"page: {output} ({bytes_text(n_bytes)})")


def _require_small(trace: TraceReader) -> None:
    from simaccel.report.page.data import require_small

    require_small(trace)
