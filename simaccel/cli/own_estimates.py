"""`--estimate` of run, estimate and explain: one's own numbers beside the terms of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from simaccel.cli.faults import fault, require_none
from simaccel.cli.workload_options import number

_TOTAL: Final = "total"
_ALLOWED: Final = "a whole number of cycles from 1 on, or NAME=CYCLES of an operator or fused group"

estimate_option = click.option(
    "--estimate",
    "estimates",
    multiple=True,
    metavar="[NAME=]CYCLES",
    help="Compare your own number, of the run or of a row of it, with the terms of its bound and "
    "its waits: which of them the number lacks; can be repeated.",
)


def read_estimates(entries: Sequence[str]) -> dict[str, int]:
    """Return cycles by the row that they are for.

    Raises:
        InputError: texts that are no cycles, or two numbers for one row.

    """
    outcome: dict[str, int] = {}
    faults = []
    for text in entries:
        name, is_named, cycles = text.rpartition("=")
        name = name.strip() if is_named else _TOTAL
        read = number(cycles)
        if not isinstance(read, int) or read < 1 or not name:
            faults.append(fault("--estimate", text, _ALLOWED))
        elif name in outcome:
            faults.append(fault("--estimate", text, f"one number for {name}"))
        else:
            outcome[name] = read
    require_none(faults)
    return outcome
