"""`simaccel directives`: a MAESTRO description, analysed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simaccel.cli.command import Command
from simaccel.cli.options import json_option
from simaccel.cli.output import show, show_json
from simaccel.cli.settings import fault, option
from simaccel.errors import gather, require_none
from simaccel.report.units import count_text

if TYPE_CHECKING:
    from simaccel.papers.maestro.analysis.analysis import Effects, LayerAnalysis
    from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
    from simaccel.papers.maestro.analysis.paper import DirectiveReading
    from simaccel.papers.maestro.dataflows.reading import Directives

PES, OFFCHIP_BANDWIDTH, CLUSTER_LEVELS = 256, 70_000, 4
"""Defaults and the most levels of the analysis, which takes long to load."""
_MOST = 2**31 - 1
_ALL = "all"
_BY_LEVEL = {"noc_bandwidth", "noc_hop_latency"}
"""Options with a number for each cluster level."""


@click.command(cls=Command)
@click.argument("file", metavar="FILE")
@option("--hw NAME|FILE", "An accelerator with a spatial array, or a hardware file of MAESTRO.")
@option("--pes N", f"PEs (default {PES}).")
@option(
    "--noc-bandwidth N[,N...]",
    "Elements per cycle of the NoC (default 32). By cluster level from the outermost.",
)
@option("--noc-hop-latency N[,N...]", "Latency of the NoC in cycles, by cluster level (default 1).")
@option("--offchip-bandwidth N", f"Elements per cycle off chip (default {OFFCHIP_BANDWIDTH}).")
@option("--simd-lanes N", "MACs per cycle of a PE (default 1).")
@option("--layer NAME", "One layer of the description.")
@option(
    "--no-multicast LEVELS|all",
    "Cluster levels (0 is the outermost) without multicast. Each sub-cluster gets its own copy.",
)
@option(
    "--no-reduction LEVELS|all", "Cluster levels that do not add the sums of their sub-clusters."
)
@option("--print", "Only print the description.", to="printing")
@json_option
def directives(
    *,
    file: str,
    layer: str | None,
    no_multicast: str | None,
    no_reduction: str | None,
    printing: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - what click passes
) -> None:
    """Analyse the dataflows of a MAESTRO description: reuse, buffers, bandwidth, energy, time.

    Figures follow the paper; corrections of the released tool are listed with their effects.
    Energies are multiples of one MAC, sizes are in elements.
    """
    from simaccel.papers.maestro.dataflows.reading import load_directives, require_pes
    from simaccel.papers.maestro.language.reading import load_description
    from simaccel.papers.maestro.language.syntax import text_of

    if printing:
        click.echo(text_of(load_description(file)), nl=False)
        return
    described, hardware, levels = gather(
        lambda: load_directives(file).select_layer(layer),
        lambda: _hardware(options),
        lambda: gather(
            lambda: _levels("--no-multicast", no_multicast),
            lambda: _levels("--no-reduction", no_reduction),
        ),
    )
    require_pes(described, hardware.pes)
    _require_levels(described, no_multicast, no_reduction)
    for note in described.notes:
        click.echo(f"note: {note}", err=True)
    from simaccel.papers.maestro.analysis.paper import PAPER, DirectiveReading

    multicast, reduction = levels
    reading = DirectiveReading(no_multicast=multicast, no_reduction=reduction)
    reading = reading if any(levels) else PAPER
    _report(described, hardware, reading, as_json=as_json)


def _report(
    described: Directives, hardware: DirectiveHardware, reading: DirectiveReading, *, as_json: bool
) -> None:
    from simaccel.papers.maestro.analysis.analysis import analyse
    from simaccel.papers.maestro.analysis.times import limits_of
    from simaccel.papers.maestro.commands.tables import (
        corrections_table,
        directives_json,
        directives_table,
        limits_table,
        mac_notes,
        room_notes,
    )

    analysed = analyse(described.layers, [hardware], reading)
    runs = [layer.runs[hardware.pes] for layer in analysed]
    limits = [limits_of(run.top, run.times) for run in runs]
    added = _effects(analysed, hardware)
    for note in (*room_notes(analysed), *mac_notes(analysed)):
        click.echo(f"note: {note}", err=True)
    if as_json:
        show_json(directives_json(analysed, described.name, limits, added))
        return
    layers = count_text(len(analysed), "layer")
    title = f"{described.name}: {layers} on {count_text(hardware.pes, 'PE')}, default reading"
    show(title, directives_table(analysed), limits_table(analysed, limits))
    show("corrected, and how much it adds over all layers:", corrections_table(added))


def _effects(analysed: Sequence[LayerAnalysis], hardware: DirectiveHardware) -> list[Effects]:
    from simaccel.papers.maestro.analysis.analysis import effects

    known: dict[int, Effects] = {}
    for one in analysed:
        key = id(one.columns)
        if key not in known:
            known[key] = effects(one, [hardware])
    return [known[id(one.columns)] for one in analysed]


def _hardware(options: dict[str, str | None]) -> DirectiveHardware:
    name = options.pop("hw")
    if name is not None:
        allowed = f"nothing with --hw {name}, which sets it"
        require_none(
            fault(f"--{key.replace('_', '-')}", value, allowed)
            for key, value in options.items()
            if value is not None
        )
        return _named_hardware(name)
    keys = ("pes", "noc_bandwidth", "noc_hop_latency", "offchip_bandwidth", "simd_lanes")
    sizes = gather(
        *(
            partial(
                _numbers,
                f"--{key.replace('_', '-')}",
                options[key],
                least=int(key != "noc_hop_latency"),
                most=CLUSTER_LEVELS if key in _BY_LEVEL else 1,
            )
            for key in keys
        )
    )
    from simaccel.papers.maestro.analysis.hardware import DirectiveHardware

    taken: dict[str, Any] = {
        key: numbers for key, numbers in zip(keys, sizes, strict=True) if numbers
    }
    taken |= {key: taken[key][0] for key in taken.keys() - _BY_LEVEL}
    if "noc_hop_latency" in taken:
        taken["noc_latency"] = taken.pop("noc_hop_latency")
    return DirectiveHardware(**taken)


def _named_hardware(name: str) -> DirectiveHardware:
    from simaccel.files.documents import read_text
    from simaccel.hardware.presets import accelerator_files
    from simaccel.importers.accelerators import load_accelerator
    from simaccel.papers.maestro.analysis import hardware

    if name not in accelerator_files().own and Path(name).is_file():
        text = read_text(Path(name), "hardware", "utf-8-sig")
        if hardware.is_hardware_text(text):
            return hardware.parse_hardware(text, name)
    return hardware.hardware_of(load_accelerator(name))


def _numbers(option: str, text: str | None, *, least: int, most: int) -> tuple[int, ...]:
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    if len(words) > most:
        allowed = "one number" if most == 1 else f"at most {most} numbers, one a cluster level"
        require_none([fault(option, text, allowed)])
    require_none(
        fault(option, word, f"a whole number from {least} to {_MOST}")
        for word in words
        if not re.fullmatch(r"[0-9]{1,20}", word, re.ASCII) or not least <= int(word) <= _MOST
    )
    return tuple(map(int, words))


def _require_levels(
    described: Directives, no_multicast: str | None, no_reduction: str | None
) -> None:
    """Refuse cluster levels that no dataflow of the description has."""
    from simaccel.papers.maestro.dataflows.dataflow import split

    deepest = max(len(split(layer.dataflow)[0]) for layer in described.layers) - 1
    levels = {"--no-multicast": no_multicast, "--no-reduction": no_reduction}
    require_none(
        fault(name, level, f"levels from 0 to {deepest}, which {described.file} has, or {_ALL}")
        for name, text in levels.items()
        if text not in {None, _ALL}
        for level in _levels(name, text)
        if level > deepest
    )


def _levels(option: str, text: str | None) -> frozenset[int]:
    if text == _ALL:
        return frozenset(range(CLUSTER_LEVELS))
    numbers = _numbers(option, text, least=0, most=CLUSTER_LEVELS)
    allowed = f"levels from 0 to {CLUSTER_LEVELS - 1}, or {_ALL}"
    require_none(fault(option, number, allowed) for number in numbers if number >= CLUSTER_LEVELS)
    return frozenset(numbers)
