"""`simaccel trace`: one module for each sub-command."""

from __future__ import annotations

import click

from simaccel.cli.command import Commands

_COMMANDS = {
    "info": "simaccel.cli.trace.info:info",
    "stalls": "simaccel.cli.trace.stalls:stalls",
    "plot": "simaccel.cli.trace.plot:plot",
    "view": "simaccel.cli.trace.plot:view",
    "export": "simaccel.cli.trace.export:export",
    "diff": "simaccel.cli.trace.info:diff",
}


@click.group(cls=Commands, places=_COMMANDS)
def trace() -> None:
    """Traces: the run, the waits of its engines, and the changes that help."""
