"""`simaccel trace`: one module for each sub-command."""

from __future__ import annotations

import click

from simaccel.cli.trace.diff import diff
from simaccel.cli.trace.info import info
from simaccel.cli.trace.plot import plot
from simaccel.cli.trace.stalls import stalls


@click.group()
def trace() -> None:
    """Traces: what ran, why engines waited, and what to change."""


for _command in (info, stalls, diff, plot):
    trace.add_command(_command)
