"""`simaccel trace`: one module for each sub-command."""

from __future__ import annotations

import click

from simaccel.cli.command import Commands

_COMMANDS = {
    "info": (
        "simaccel.cli.trace.info",
        "info",
        "Say what a trace holds, and check that busy + stalls + idle = total.",
    ),
    "stalls": (
        "simaccel.cli.trace.stalls",
        "stalls",
        "Say where the cycles of a run went, what engines waited for, and what could be gained.",
    ),
    "plot": (
        "simaccel.cli.trace.plot",
        "plot",
        "Draw what the engines did, what moved, what the buffer held, and where the cycles went.",
    ),
    "view": (
        "simaccel.cli.trace.view",
        "view",
        "Write a page with the whole run: zoom, hover and click in a browser, without a network.",
    ),
    "export": (
        "simaccel.cli.trace.export",
        "export",
        "Write the events of a window in the format of another program.",
    ),
    "diff": (
        "simaccel.cli.trace.diff",
        "diff",
        "Take the difference in cycles of two runs of one workload apart.",
    ),
}
"""Each command: where it is, and the first paragraph of its help."""


@click.group(cls=Commands, places=_COMMANDS)
def trace() -> None:
    """Traces: what ran, why engines waited, and what to change."""
