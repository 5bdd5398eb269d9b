"""`--estimate` of run, estimate and explain: one's own numbers beside the terms of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from simaccel.cli.faults import fault, require_none
from simaccel.cli.workload_options import number

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.diagnosis.own_estimate import OwnEstimate
    from simaccel.verbs.running import Result

_TOTAL: Final = "total"
_ALLOWED: Final = "a whole number of cycles from 1 on, or NAME=CYCLES of an operator or fused group"

estimate_option = click.option(
    "--estimate",
    "estimates",
    multiple=True,
    metavar="[NAME=]CYCLES",
    help="Your own number, of the run or a row: which terms of the bound, which waits it lacks.",
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


def compare_with(own: Mapping[str, int], result: Result) -> Sequence[OwnEstimate]:
    """Return one's own numbers beside the run, if there are any."""
    if not own:
        return ()
    from simaccel.report.own_estimate import of_result

    return of_result(own, result)


def estimate_tables(compared: Sequence[OwnEstimate]) -> list[Table | str]:
    """Return the tables of one's own numbers, if there are any."""
    if not compared:
        return []
    from simaccel.report.own_estimate import own_estimate_sections

    sections = own_estimate_sections(compared).items()
    return [part for section in sections for part in section]


def estimates_json(compared: Sequence[OwnEstimate]) -> dict[str, Any]:
    """Return one's own numbers as JSON, if there are any."""
    if not compared:
        return {}
    from simaccel.report.own_estimate import own_estimate_json

    return own_estimate_json(compared)
