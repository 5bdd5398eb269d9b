"""`simaccel trace`: one module for each sub-command."""

from __future__ import annotations

import click

from simaccel.cli.trace.export import export
from simaccel.cli.trace.info import info


@click.group()
def trace() -> None:
    """Traces: what ran, why engines waited, and what to change."""


for _command in (info, export):
    trace.add_command(_command)
