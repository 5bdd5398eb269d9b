"""`simaccel hw` and `simaccel workload`: what there is, and what it looks like."""

from __future__ import annotations

import click

from simaccel.cli.asked import AskedWorkload
from simaccel.cli.command import Command
from simaccel.cli.options import json_option, set_option, workload_options
from simaccel.cli.output import show, show_json
from simaccel.hardware.load import accelerator_rows, list_accelerators, load_accelerator
from simaccel.report.catalogues import (
    accelerators_table,
    fields_table,
    models_table,
    network_figures,
    networks_table,
    workload_table,
)
from simaccel.report.units import cycles_text
from simaccel.workload import MODELS, NETWORKS, describe


@click.group()
def hw() -> None:
    """Accelerators: list them, or show every field of one."""


@hw.command("list", cls=Command)
@json_option
def list_hw(as_json: bool) -> None:
    """List the accelerators that come with simaccel."""
    found = [load_accelerator(name) for name in list_accelerators()]
    if as_json:
        show_json([{"name": one.name, "description": one.description} for one in found])
    else:
        show(accelerators_table(found))


@hw.command("show", cls=Command)
@click.argument("name", metavar="NAME|FILE")
@set_option
@json_option
def show_hw(name: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show every field of an accelerator, with its source.

    The JSON is a valid accelerator file.
    """
    accelerator = load_accelerator(name, overrides)
    if as_json:
        from simaccel.experiment.recording import accelerator_document  # noqa: PLC0415 - it loads h5py

        show_json(accelerator_document(accelerator))
    else:
        show(fields_table(accelerator_rows(accelerator)))


@click.group()
def workload() -> None:
    """Workloads: list the catalogue, or show the operators of one."""


@workload.command("list", cls=Command)
@json_option
def list_workloads(as_json: bool) -> None:
    """List the models and networks of the catalogue and where their sizes are published."""
    if as_json:
        models = [
            {
                "name": model.name,
                "aliases": list(model.aliases),
                **vars(model.dimensions),
                "source": model.source,
            }
            for model in MODELS
        ]
        networks = [
            {
                "name": one.name,
                "aliases": list(one.aliases),
                **network_figures(one),
                "source": one.source,
            }
            for one in NETWORKS
        ]
        show_json(models + networks)
        return
    sources = [(one.name, one.source) for one in (*MODELS, *NETWORKS)]
    show(
        models_table(MODELS),
        networks_table(NETWORKS),
        fields_table(sources, ("name", "source")),
        "Besides: gemm with --shape M=..,K=..,N=..[,B=..], bmm (H=.. too), gbmm (G=..,H=.. too), "
        "conv with --shape M=..,C=..,P=..,Q=..,R=..,S=..[,G=..,N=..,stride=..,dilation=..], a YAML "
        "file, or a SCALE-Sim topology (CSV).",
    )


@workload.command("show", cls=Command)
@click.argument("name", metavar="NAME|FILE")
@workload_options
@json_option
def show_workload(asked: AskedWorkload, as_json: bool) -> None:
    """Show the operators of a workload: ranks, tensors, MACs and bytes."""
    found = asked.read()
    rows = describe(found)
    if as_json:
        operators = [vars(row) for row in rows]
        named = {"name": found.name, "fingerprint": found.fingerprint, "repeat": found.repeat}
        show_json({**named, "macs": found.macs, "operators": operators})
        return
    show(
        workload_table(rows),
        f"{found.name} ({found.fingerprint}): {found.repeat} x, {cycles_text(found.macs)} MACs",
    )
