"""`simaccel trace`: one module for each sub-command."""

from __future__ import annotations

import click

from simaccel.cli.trace.diff import diff
from simaccel.cli.trace.export import export
from simaccel.cli.trace.info import info
from simaccel.cli.trace.plot import plot
from simaccel.cli.trace.stalls import stalls
from simaccel.cli.trace.view import view


@click.group()
def trace() -> None:
    """Traces: what ran, why engines waited, and what to change."""


for _command in (info, stalls, plot, view, export, diff):
    trace.add_command(_command)
