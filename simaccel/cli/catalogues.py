"""`simaccel hw`, `workload` and `dram`: what there is, and what it looks like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from simaccel.cli.choices import PATTERNS
from simaccel.cli.command import Command
from simaccel.cli.options import (
    force_option,
    json_option,
    set_option,
    settings_option,
    workload_options,
)
from simaccel.cli.output import OutputFiles, show, show_json
from simaccel.cli.settings import NamedValues, fault, option
from simaccel.cli.workload_options import WorkloadOptions
from simaccel.errors import Fault, SimaccelError, require_none
from simaccel.files.targets import STDOUT, writing_text
from simaccel.report.units import count_text

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.hardware import Accelerator
    from simaccel.report.figures.style import Figure
    from simaccel.workload import Workload

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


@click.group()
def hw() -> None:
    """Accelerators: list them, or show every field of one."""


@hw.command("list", cls=Command)
@json_option
def list_hw(as_json: bool) -> None:
    """List the accelerators that come with simaccel or with plug-ins, chips first."""
    from simaccel.hardware.presets import list_accelerators
    from simaccel.hardware.resources import peak_macs_per_second
    from simaccel.importers.accelerators import load_accelerator
    from simaccel.report.accelerators import ACCELERATORS
    from simaccel.report.tables import pick, tabulate

    accelerators: list[Accelerator] = []
    broken: dict[str, str] = {}
    for name in list_accelerators():
        try:
            accelerators.append(load_accelerator(name))
        except SimaccelError as error:  # of a plug-in, which is nobody else's fault
            broken[name] = str(error)
    accelerators.sort(key=lambda accelerator: (accelerator.stands_for, accelerator.name))
    if as_json:
        names, peak = ("name", "stands_for", "description"), peak_macs_per_second
        listed = [
            pick(chip, *names, peak_macs_per_second=peak, chips="pod.count")
            for chip in accelerators
        ]
        show_json([*listed, *({"name": n, "problem": why} for n, why in broken.items())])
    else:
        lines = (f"{name}: {why}" for name, why in broken.items())
        show(tabulate(accelerators, ACCELERATORS), *lines)


@hw.command("show", cls=Command)
@click.argument("name", metavar="NAME|FILE")
@set_option
@json_option
def show_hw(name: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show every field of an accelerator, with its source.

    The JSON is a valid accelerator file.
    """
    from simaccel.importers.accelerators import load_accelerator
    from simaccel.report.accelerators import accelerator_rows
    from simaccel.study.documents import accelerator_document

    accelerator = load_accelerator(name, overrides)
    from simaccel.report.catalogues import fields_table

    if as_json:
        show_json(accelerator_document(accelerator))
    else:
        show(fields_table(accelerator_rows(accelerator)), *accelerator.account.lines())


@hw.command("new", cls=Command)
@click.argument("name", metavar="NAME")
@option("-o FILE", "Write it here (default: NAME.yaml); - prints it.", to="output")
@force_option
def new_hw(name: str, output: str | None, force: bool) -> None:
    """Write the file of an accelerator of your own, with comments, to be changed.

    Its sections name presets (of other accelerators, topologies, technology nodes, DRAM parts)
    that you may replace by figures.
    """
    from simaccel.hardware.presets import list_accelerators, template

    name = name.removesuffix(".yaml")
    if not _NAME.fullmatch(name):
        require_none([fault("NAME", name, "letters, digits, and any of _ . -")])
    output = output or f"{name}.yaml"
    with writing_text(output, force=force) as stream:
        stream.write(template(name, list_accelerators()))
    if output != STDOUT:
        show(f"{output}: change it, and look at it with simaccel hw show {output}")


@click.group()
def workload() -> None:
    """Workloads: list the catalogue, or show the operators of one."""


@workload.command("list", cls=Command)
@json_option
def list_workloads(as_json: bool) -> None:
    """List the models and networks of the catalogue and where their sizes are published."""
    from simaccel.report import catalogues
    from simaccel.report.tables import pick, tabulate
    from simaccel.workload import MODELS, NETWORKS, PLUGGED, TRANSFORMERS

    rows = list(PLUGGED.plugin_names().items())
    if as_json:
        models = [
            {**pick(model, "name", "aliases"), **vars(model.dimensions), "source": model.source}
            for model in MODELS.values()
        ]
        transformers = [
            {**vars(transformer), **pick(transformer, **catalogues.TRANSFORMER_FIGURES)}
            for transformer in TRANSFORMERS.values()
        ]
        networks = [
            pick(network, "name", "aliases", **catalogues.NETWORK_FIGURES, source="source")
            for network in NETWORKS.values()
        ]
        others = [{"name": name, "plugin": package} for name, package in rows]
        show_json(models + transformers + networks + others)
        return
    published = (MODELS.values(), TRANSFORMERS.values(), NETWORKS.values())
    sources = [(workload.name, workload.source) for part in published for workload in part]
    plugged: tuple[str | Table, ...] = ()
    if rows:
        plugged = "Of plug-ins:", catalogues.fields_table(rows, ("name", "plug-in"))
    show(
        "Attention blocks as FLAT counts them (no norms, no masks):",
        tabulate(MODELS.values(), catalogues.MODELS),
        "Transformers (--phase, --prompt, --kv-len):",
        tabulate(TRANSFORMERS.values(), catalogues.TRANSFORMERS),
        "Networks:",
        tabulate(NETWORKS.values(), catalogues.NETWORKS),
        catalogues.fields_table(sources, ("name", "source")),
        *plugged,
        "Besides: gemm with --shape M=..,K=..,N=..[,B=..], bmm (H=.. too), gbmm (G=..,H=.. too), "
        "conv with --shape M=..,C=..,P=..,Q=..,R=..,S=..[,G=..,N=..,stride=..,dilation=..], a YAML "
        "file, a SCALE-Sim topology (CSV), an ONNX model, or a MAESTRO description (.m).",
    )


@workload.command("show", cls=Command)
@click.argument("name", metavar="NAME|FILE")
@settings_option
@workload_options
@option("--plot FILE", "Draw operators and tensors (.png, .svg or .pdf).")
@option("--mapping FILE", "With --plot: colour the operators that this mapping fuses.")
@force_option
@json_option
def show_workload(
    options: WorkloadOptions, plot: str | None, mapping: str | None, force: bool, as_json: bool
) -> None:
    """Show the operators of a workload: ranks, tensors, MACs and bytes."""
    inputs = [options.name] if options.is_file() else []
    inputs += [mapping] if mapping else []
    files = OutputFiles({"--plot": plot}, force, inputs)
    files.require()
    workload = options.read_anyway()
    from simaccel.report.catalogues import OPERATORS, import_lines, import_table
    from simaccel.report.tables import pick, tabulate
    from simaccel.report.titles import workload_title
    from simaccel.workload import describe

    written = files.write("--plot", partial(_graph, workload, mapping))
    imported = options.import_file() if options.is_onnx() else None
    rows = describe(workload)
    if as_json:
        document = pick(workload, "name", "fingerprint", "repeat", "macs")
        document["operators"] = [vars(row) for row in rows]
        if entries := [vars(row) for row in workload.account.entries]:
            document["nodes" if imported else "entries"] = entries
        show_json(document)
        return
    notes = (
        (import_table(imported), *import_lines(imported)) if imported else workload.account.lines()
    )
    title = [workload_title(workload), f"{workload.macs:,} MACs"]
    title += [f"{count_text(len(rows), 'operator')}"]
    title += [f"repeated {workload.repeat} times"] if workload.repeat > 1 else []
    fingerprint = f"fingerprint: {workload.fingerprint}"
    show(", ".join(title), tabulate(rows, OPERATORS), fingerprint, *notes, *written)


def _graph(workload: Workload, mapping: str | None) -> Figure:
    """Draw a workload's graph, fused operators in the colour of their group."""
    from simaccel.mapping.checks import require_mapping
    from simaccel.mapping.files import load_mapping
    from simaccel.report.figures.graph import draw_graph

    groups: dict[str, str] = {}
    if mapping is not None:
        chosen = load_mapping(Path(mapping), workload)
        require_mapping(workload, chosen, None, mapping)
        groups = {name: group.name for group in chosen.groups for name in group.operators}
    return draw_graph(workload, groups)


def _part_faults(name: str) -> Iterator[Fault]:
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
    from simaccel.report.catalogues import DRAM_PARTS
    from simaccel.report.tables import pick, tabulate

    if as_json:
        hidden, peak = {"origins", "source"}, "peak_bytes_per_second"
        show_json([p.model_dump(exclude=hidden) | pick(p, peak) for p in PARTS.values()])
    else:
        show(tabulate(PARTS.values(), DRAM_PARTS))


@dram.command("show", cls=Command)
@click.argument("name", metavar="NAME")
@json_option
def show_part(name: str, as_json: bool) -> None:
    """Show every figure of a part, with its source."""
    from simaccel.hardware.dram.part import DramPart
    from simaccel.hardware.dram.parts import PARTS
    from simaccel.report.catalogues import fields_table

    require_none(_part_faults(name))
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
    from simaccel.report.catalogues import PATTERNS
    from simaccel.report.tables import tabulate

    require_none(_part_faults(part))
    rows = [row for row in measured_patterns(part) if pattern in (None, row["pattern"])]
    if as_json:
        show_json({"part": part, "patterns": rows})
    else:
        show(tabulate(rows, PATTERNS))
