"""`simaccel dram`: the DRAM parts, and the measured throughput of access patterns on them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from simaccel.cli.choices import PATTERNS, NamedValues
from simaccel.cli.command import Command
from simaccel.cli.faults import fault, require_none
from simaccel.cli.options import json_option
from simaccel.cli.output import show, show_json
from simaccel.cli.settings import option
from simaccel.errors import Fault


def _part(name: str) -> Iterator[Fault]:
    from simaccel.hardware.dram.parts import PARTS

    if name not in PARTS:
        yield fault("--part", name, ", ".join(PARTS))


@click.group()
def dram() -> None:
    """DRAM parts: list them, and the measured throughput of access patterns on them."""


@dram.command("parts", cls=Command)
@json_option
def list_parts(as_json: bool) -> None:
    """List the parts."""
    from simaccel.hardware.dram.parts import PARTS
    from simaccel.report.catalogues import part_figures, parts_table

    if as_json:
        show_json([part_figures(part) for part in PARTS.values()])
    else:
        show(parts_table(list(PARTS.values())))


@dram.command("show", cls=Command)
@click.argument("name", metavar="NAME")
@json_option
def show_part(name: str, as_json: bool) -> None:
    """Show every figure of a part, with its source."""
    from simaccel.hardware.dram.part import DramPart
    from simaccel.hardware.dram.parts import PARTS
    from simaccel.report.catalogues import fields_table

    require_none(_part(name))
    part = PARTS[name]
    rows = {
        field: (getattr(part, field), part.origin(field))
        for field in DramPart.model_fields
        if field not in ("name", "origins", "source")
    }
    if as_json:
        show_json({field: {"value": value, "origin": o} for field, (value, o) in rows.items()})
    else:
        show(fields_table([(f, f"{value}  {o}") for f, (value, o) in rows.items()]))


@dram.command("measured", cls=Command)
@option("--part NAME", "A part, see `simaccel dram parts`.", required=True)
@option("--pattern", "One pattern (default: all).", type=NamedValues(PATTERNS))
@json_option
def show_measured(part: str, pattern: str | None, as_json: bool) -> None:
    """Show the throughput and the latency of access patterns on a part.

    The figures were measured with a model of a memory controller that serves single bursts.
    """
    from simaccel.hardware.dram.parts import measured_patterns
    from simaccel.report.catalogues import patterns_table

    require_none(_part(part))
    rows = [row for row in measured_patterns(part) if pattern in (None, row["pattern"])]
    if as_json:
        show_json({"part": part, "patterns": rows})
    else:
        show(patterns_table(rows))
