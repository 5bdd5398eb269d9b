"""`simaccel trace`: one module for each sub-command."""

from __future__ import annotations

import click

from simaccel.cli.command import Commands

_COMMANDS = {
    "info": ("trace.info.info", "Describe a trace, and check that busy + stalls + idle = total."),
    "stalls": (
        "trace.stalls.stalls",
        "Show the cycles of each engine by cause, its waits, and the gain without each cause.",
    ),
    "plot": (
        "trace.plot.plot",
        "Draw the engines over time, the bandwidths, the use of the buffer, and the stalls.",
    ),
    "view": (
        "trace.plot.view",
        "Write a page with the whole run: zoom, hover and click in a browser, without a network.",
    ),
    "export": (
        "trace.export.export",
        "Write the events of a window in the format of another program.",
    ),
    "diff": ("trace.info.diff", "Explain the difference in cycles of two runs of one workload."),
}
"""Each command: where it is, and the first paragraph of its help."""


@click.group(cls=Commands, places=_COMMANDS)
def trace() -> None:
    """Traces: the run, the waits of its engines, and the changes that help."""
