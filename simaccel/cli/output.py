"""Where the command line writes: tables and JSON to stdout, progress and errors to stderr."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

_WIDTH = 120
"""Columns where the output is no terminal: tables are whole in a file or a pipe."""


def show(*parts: Table | str) -> None:
    """Print tables and lines; a terminal that is too narrow wraps lines, nothing is left out."""
    if all(isinstance(part, str) for part in parts):
        for part in parts:
            click.echo(part)
        return
    from rich.console import Console

    from simaccel.report.layout import least_width

    fixed = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=None if fixed else _WIDTH, highlight=False)
    for part in parts:
        if isinstance(part, str):
            console.print(part, markup=False, soft_wrap=True)
        else:
            console.width = max(console.width, least_width(part, console))
            console.print(part, "")


def show_json(document: object) -> None:
    """Print one JSON value and nothing else."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))
