"""`simaccel bound`: the least DRAM traffic that a buffer of a size lets any mapping attain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from simaccel.cli.choices import FUSIONS, UNFUSED
from simaccel.cli.command import Command
from simaccel.cli.experiment_options import accelerator_paths, read_accelerator
from simaccel.cli.options import force_option, json_option, set_option, workload_options
from simaccel.cli.output import OutputFiles
from simaccel.cli.settings import NamedValues, fault, option
from simaccel.cli.workload_options import WorkloadOptions
from simaccel.errors import InputError

if TYPE_CHECKING:
    from simaccel.papers.orojenesis.commands.bounding import Bound
    from simaccel.papers.orojenesis.halo import Halo

HALOS = ("exact", "machine", "tool", "tool-last")
"""Those of the analysis, which takes long to load."""


@click.command(cls=Command)
@option("--workload NAME|FILE", "Workload, as for `simaccel run`.", to="name", required=True)
@workload_options
@option("--imperfect", "Also tile sizes that do not divide their ranks.")
@option(
    "--uneven",
    "Also keep each tensor at a loop depth of its own, cut ranks twice. "
    "(Only for products of two tensors, convolutions among them.)",
)
@option("--bypass", "Also let tensors bypass the buffer, with one DRAM access per MAC.")
@option("--unit array", "Only tiles that a systolic array can take.", type=NamedValues(("array",)))
@option(
    "--halo READING",
    f"How elements that sliding windows share are counted: {', '.join(HALOS)} (default exact).",
    type=NamedValues(HALOS),
    default="exact",
)
@option(
    "--fuse HOW",
    f"How operators are fused. One of {', '.join(FUSIONS)} (default {UNFUSED}).",
    type=NamedValues(FUSIONS),
    default=UNFUSED,
)
@option("--buffer SIZE", "Print the bound for this buffer, and the mapping that attains it.")
@option("--hw NAME|FILE", "Also draw the performance of this accelerator.")
@set_option
@option("--csv FILE", "Write the points as CSV; - prints it.", to="table")
@option("--plot FILE", "Draw the figures (.png, .svg or .pdf).")
@option("-o --output FILE", "Write the mapping for --buffer; - prints it.")
@force_option
@json_option
def bound(
    *,
    options: WorkloadOptions,
    imperfect: bool,
    uneven: bool,
    bypass: bool,
    unit: str | None,
    halo: Halo,
    fuse: str,
    buffer: str | None,
    hw: str | None,
    overrides: tuple[str, ...],
    table: str | None,
    plot: str | None,
    output: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Bound the DRAM traffic of any mapping, for every size of the buffer (Orojenesis).

    The points are (bytes kept on chip, bytes moved) that no other mapping of the mapspace beats in
    both; each is attained by a mapping that `simaccel run --mapping` executes.
    """
    paths = {"--csv": table, "--plot": plot, "-o": output}
    inputs = [Path(options.name)] if options.is_file() else []
    inputs += accelerator_paths(hw) if hw is not None else []
    files = OutputFiles(paths, force, inputs)
    from simaccel.study.placement import gather_placed

    workload, accelerator, room = gather_placed(
        options.read,
        lambda: None if hw is None else read_accelerator(hw, overrides),
        lambda: _room(buffer),
    )
    files.require()
    from simaccel.papers.orojenesis.commands.bounding import bound_of
    from simaccel.papers.orojenesis.single import Mapspace

    mapspace = Mapspace(
        imperfect=imperfect, uneven=uneven, bypass=bypass, array=unit is not None, halo=halo
    )
    report = bound_of(workload, mapspace, fuse, accelerator, room)
    outputs = report.outputs()
    mapping = files.write("-o", lambda: _mapping_of(report), "mapping")
    parts = outputs.pop("parts")
    files.show_rows(report.title, lambda: [*parts(), *mapping], **outputs, as_json=as_json)


def _room(buffer: str | None) -> int | None:
    from simaccel.hardware.quantity import parse_quantity

    if buffer is None:
        return None
    try:
        return parse_quantity(buffer, "B")
    except ValueError as error:
        raise InputError([fault("--buffer", buffer, str(error))]) from None


def _mapping_of(report: Bound) -> str:
    from simaccel.mapping.files import mapping_text

    if report.chosen is None:
        allowed = f"at least {report.found.front.smallest} B, where anything runs"
        raise InputError([fault("--buffer", report.room, allowed)])
    if report.mapping is None:
        allowed = "a buffer that all tensors use: tensors that bypass it have no mapping"
        raise InputError([fault("--buffer", report.room, allowed)])
    return mapping_text(report.mapping)
