"""`simaccel dram`: what an access pattern gets from a DRAM part, and which parts there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from simaccel.cli.choices import ADDRESS_MAPS, CONTROLLERS
from simaccel.cli.command import Command
from simaccel.cli.faults import fault, require_none
from simaccel.cli.options import json_option
from simaccel.cli.output import show, show_json
from simaccel.errors import Fault

_MOST_BYTES = 2**29
_MOST_IN_FLIGHT = 2**20

part_option = click.option(
    "--part", required=True, metavar="NAME", help="A part, see `simaccel dram parts`."
)
_map_option = click.option(
    "--map",
    "mapping",
    metavar="NAME",
    help=f"Address map: {', '.join(ADDRESS_MAPS)} (default bgil with bank groups, else rbc).",
)
_controller_option = click.option(
    "--controller",
    type=click.Choice(CONTROLLERS),
    help="Memory controller: one queue per bank, or one window (default: as the source "
    "of the part).",
)
_refresh_option = click.option(
    "--refresh/--no-refresh", default=True, help="Simulate refresh (default), or not."
)
_bytes = click.IntRange(1, _MOST_BYTES)
_PATTERN_OPTIONS = {
    "chunk": click.option(
        "--chunk", type=_bytes, default=64, metavar="B", help="Contiguous bytes (default 64)."
    ),
    "row": click.option(
        "--row-bytes", "row", required=True, type=_bytes, metavar="B", help="Bytes of a row."
    ),
    "pitch": click.option(
        "--pitch",
        required=True,
        type=_bytes,
        metavar="B",
        help="Bytes from the start of a row to the start of the next.",
    ),
    "tile_rows": click.option(
        "--tile-rows", type=click.IntRange(1, 2**20), metavar="N", help="Rows (default 64)."
    ),
    "write_fraction": click.option(
        "--write-fraction",
        type=click.FloatRange(0, 1),
        metavar="F",
        help="Share of writes (default 0; for two-streams above 0 the second stream writes).",
    ),
    "reads_in_flight": click.option(
        "--reads-in-flight",
        type=click.IntRange(1, _MOST_IN_FLIGHT),
        metavar="N",
        help="Reads that may be outstanding (default: no limit).",
    ),
    "waits": click.option(
        "--waits", is_flag=True, default=None, help="A turn waits until all reads have returned."
    ),
    "apart": click.option(
        "--apart", is_flag=True, default=None, help="The streams start half of all banks apart."
    ),
    "load": click.option(
        "--load",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="F",
        help="Random arrivals, at this share of the peak (default: as fast as they are accepted).",
    ),
}
_KINDS: dict[str, tuple[str, ...]] = {
    "sequential": ("write_fraction", "reads_in_flight", "load"),
    "random-chunk": ("chunk", "write_fraction", "reads_in_flight", "load"),
    "strided-tile": ("row", "pitch", "tile_rows", "write_fraction", "reads_in_flight"),
    "alternating": ("chunk", "reads_in_flight", "waits", "apart"),
    "two-streams": ("chunk", "write_fraction", "reads_in_flight", "apart"),
}
"""The options of a pattern."""
_ABOUT = {
    "sequential": "One burst after the other.",
    "random-chunk": "Chunks at random places, read or written whole.",
    "strided-tile": "Tiles of a matrix in DRAM: rows of some bytes, a pitch apart.",
    "alternating": "A chunk is read in one half of the memory, then one written in the other.",
    "two-streams": "Two streams in two halves of the memory take turns, a chunk each.",
}


def _part(name: str) -> Iterator[Fault]:
    from simaccel.hardware.dram.parts import PARTS

    if name not in PARTS:
        yield fault("--part", name, ", ".join(PARTS))


def _map(name: str | None) -> Iterator[Fault]:
    if name is not None and name not in ADDRESS_MAPS:
        yield fault("--map", name, ", ".join(ADDRESS_MAPS))


@click.group()
def dram() -> None:
    """DRAM parts: list them, or measure the throughput of an access pattern on one."""


@dram.command("parts", cls=Command)
@json_option
def list_parts(as_json: bool) -> None:
    """List the parts."""
    from simaccel.hardware.dram.parts import PARTS
    from simaccel.report.dram import part_figures, parts_table

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


@dram.command("idle", cls=Command)
@part_option
@json_option
def idle(part: str, as_json: bool) -> None:
    """Measure the latency of single reads, in ns."""
    from simaccel.hardware.dram.measure import idle_latencies
    from simaccel.hardware.dram.parts import PARTS
    from simaccel.report.catalogues import fields_table

    require_none(_part(part))
    found = idle_latencies(PARTS[part])
    if as_json:
        show_json({"part": part, "latency_ns": found})
    else:
        show(fields_table([(k, f"{v:.1f} ns") for k, v in found.items()], ("read", "latency")))


def _too_narrow(given: dict[str, Any]) -> Iterator[Fault]:
    row, pitch = given.get("row"), given.get("pitch")
    if row is not None and pitch is not None and pitch < row:
        yield fault("--pitch", pitch, f"at least the {row} bytes of a row")


def _run(kind: str, chosen: dict[str, Any]) -> None:
    """Measure a pattern and print what it gets."""
    options = {name: chosen[name] for name in _KINDS[kind] if chosen[name] is not None}
    require_none([*_part(chosen["part"]), *_map(chosen["mapping"]), *_too_narrow(options)])
    from simaccel.hardware.dram.addresses import default_map
    from simaccel.hardware.dram.measure import measure
    from simaccel.hardware.dram.parts import PARTS
    from simaccel.hardware.dram.patterns import Pattern
    from simaccel.report.catalogues import fields_table
    from simaccel.report.dram import number_text, pattern_figures

    part = PARTS[chosen["part"]]
    mapping = chosen["mapping"] or default_map(part)
    pattern = Pattern(kind=kind, **options)
    controller = chosen["controller"] or part.controller
    measured = measure(part, mapping, pattern, controller, refresh=chosen["refresh"])
    names = {"part": part.name, "map": mapping, "controller": controller, "pattern": kind}
    figures = names | pattern_figures(measured)
    if chosen["as_json"]:
        show_json(figures)
        return
    rows = [(name, v if isinstance(v, str) else number_text(v)) for name, v in figures.items()]
    show(fields_table(rows, ("figure", "value")))


def _add(kind: str) -> None:
    """Add the command of a pattern."""

    def command(**given: Any) -> None:  # noqa: ANN401 - what click passes
        _run(kind, given)

    command.__doc__ = _ABOUT[kind]
    options = [part_option, _map_option, *(_PATTERN_OPTIONS[name] for name in _KINDS[kind])]
    decorated: Callable[..., None] = command
    for option in reversed([*options, _controller_option, _refresh_option, json_option]):
        decorated = option(decorated)
    dram.command(kind, cls=Command)(decorated)


for _kind in _KINDS:
    _add(_kind)
