"""`simaccel trace`: one module for each sub-command."""

from __future__ import annotations

import click

from simaccel.cli.command import Commands

_COMMANDS = {
    "info": "trace.info.info",
    "stalls": "trace.stalls.stalls",
    "plot": "trace.plot.plot",
    "view": "trace.plot.view",
    "export": "trace.export.export",
    "diff": "trace.info.diff",
}


@click.group(cls=Commands, places=_COMMANDS)
def trace() -> None:
    """Traces: the run, the waits of its engines, and the changes that help."""
