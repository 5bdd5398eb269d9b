"""`simaccel trace info`: what ran, on what, and whether the file is sound."""

from __future__ import annotations

import click

from simaccel.cli.options import json_option
from simaccel.cli.output import show, show_json
from simaccel.report.catalogues import fields_table
from simaccel.report.units import cycles_text


@click.command()
@click.argument("file")
@json_option
def info(file: str, as_json: bool) -> None:
    """Say what a trace holds, and check that busy + stalls + idle = total."""
    from simaccel.trace import Trace  # noqa: PLC0415 - h5py only where it is needed

    with Trace.open(file) as opened:
        opened.check()
        figures = opened.figures
        found = {
            **{name: figures.get(name) for name in ("workload", "accelerator", "dataflow")},
            "version": opened.header.version,
            "cycles": opened.cycles,
            "engines": list(opened.engines),
            "rows": opened.n_rows,
            "segments": opened.n_segments,
            "sound": True,
        }
    if as_json:
        show_json(found)
        return
    rows = [(name, _text(value)) for name, value in found.items() if name != "sound"]
    sound = "busy + stalls + idle = total for every engine"
    show(fields_table([*rows, ("checked", sound)]))


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return cycles_text(value) if isinstance(value, int) else str(value)
