"""`simaccel trace plot` and `view`: figures of a trace for papers, and one HTML page."""

from __future__ import annotations

from typing import Any

import click

from simaccel.cli.command import Command
from simaccel.cli.options import force_option
from simaccel.cli.output import show
from simaccel.cli.settings import NamedValues, option
from simaccel.cli.trace.opening import checked_trace, read_window
from simaccel.cli.trace.stalls import verdict_lines
from simaccel.files.targets import STDOUT, require_target
from simaccel.report.figures import KINDS
from simaccel.report.units import bytes_text


@click.command(cls=Command)
@click.argument("file")
@option("--output -o FILE", "File to write: *.png, *.svg or *.pdf.", required=True)
@option(
    "--kind",
    "One figure, or all on one page (default).",
    type=NamedValues([*KINDS, "all"]),
    default="all",
)
@option(
    "--columns",
    "Width in columns of a paper. 1 is 3.3 in (default for one figure), 2 is 7 in "
    "(default for all).",
    type=click.IntRange(1, 2),
)
@option("--from CYCLE", "First cycle of the window.", to="start")
@option("--to CYCLE", "Cycle after the window.", to="end")
@option("--operator NAME", "Show only this operator.")
@option("--engine NAME", "Engine whose stalls are stacked (default array).", default="array")
@force_option
def plot(
    file: str,
    output: str,
    kind: str,
    start: str | None,
    end: str | None,
    force: bool,
    **figure_options: Any,  # noqa: ANN401 - the rest of what click passes
) -> None:
    """Draw the engines over time, the bandwidths, the use of the buffer, and the stalls.

    timeline and occupancy show a window of cycles: by default one steady period of the run with
    the fill before it. bandwidth and stalls show all cycles, unless --from or --to is given.
    """
    from simaccel.report.figures.style import require_figure_target

    kinds = KINDS if kind == "all" else (kind,)
    require_figure_target(output, force=force, inputs=(file,))
    with checked_trace(file, accounts=True) as trace:
        from simaccel.report.figures.page import FigureOptions, plot_trace

        is_given = (start, end) != (None, None)
        low, high = read_window(start, end, trace.cycles) if is_given else (None, None)
        options = FigureOptions(kinds=kinds, start=low, end=high, **figure_options)
        shown = plot_trace(trace, output, options, force=force)
    for name in kinds:
        first, last = shown.cycles(name)
        show(f"{name}: cycles {first:,} to {last:,}")
    show(f"figure: {output}")


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
    with checked_trace(file, for_page=True) as opened:
        from simaccel.report.page import write_page

        said = verdict_lines(opened, what_if=what_if) if opened.cycles else []
        n_bytes = write_page(opened, output, force=force, said=said)
    if output != STDOUT:
        show(f"page: {output} ({bytes_text(n_bytes)})")
