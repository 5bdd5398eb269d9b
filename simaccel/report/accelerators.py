"""Tables of accelerators: a row for each, or every field of one with its unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from simaccel.files.schema import leaf_fields
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_of
from simaccel.hardware.area.spec import NODE, AreaSpec
from simaccel.hardware.array import ArraySpec
from simaccel.hardware.cores import CoresSpec
from simaccel.hardware.energy.spec import EnergySpec
from simaccel.hardware.energy.tables import NODES
from simaccel.hardware.links import ONE_CHIP, LinksSpec, shape_text
from simaccel.hardware.memory import DramSpec
from simaccel.hardware.precision import PrecisionSpec
from simaccel.hardware.quantity import UNIT_OF, Rate, format_quantity
from simaccel.hardware.resources import peak_macs_per_second
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.hardware.spec import Spec
from simaccel.report.tables import Column, texts
from simaccel.report.units import rate_text

_PARTLY: Final = EnergySpec | AreaSpec | PrecisionSpec | ArraySpec | SpatialArraySpec | LinksSpec
"""Sections of which only the given fields are listed."""
_SUFFIXES: Final = {
    "_bytes_per_cycle": " B/cycle",
    "_cycles": " cycles",
    "_pj": " pJ",
    "_pj_per_byte": " pJ/B",
    "_pj_per_element": " pJ/element",
    "_pj_per_cycle": " pJ/cycle",
    "_um2": " um2",
    "_um2_per_byte": " um2/B",
}


ACCELERATORS: Final = (
    *texts("name"),
    Column("TOPS", lambda chip: f"{2e-12 * peak_macs_per_second(chip):,.4g}"),
    Column("memory", "dram.capacity_bytes", "B", missing="unlimited"),
    Column("bandwidth", "dram.bandwidth_bytes_per_second", rate_text, missing="unlimited"),
    Column("buffer", "buffer.capacity_bytes", "B", missing="unlimited"),
    Column("what it is; what it is good for", "description", kind="wrapped"),
)
"""Columns: peak, memory and bandwidth of a chip, and its purpose."""


def accelerator_rows(accelerator: Accelerator) -> list[tuple[str, str]]:
    """Return rows (name, text) of every field with its unit, the sources, and derived figures."""
    return [*_rows(accelerator, ""), *_derived_figures(accelerator)]


def _rows(spec: Spec, prefix: str) -> Iterator[tuple[str, str]]:
    hidden = {"source", *(spec.absent if isinstance(spec, DramSpec) else ())}
    fields = [name for name in type(spec).model_fields if name not in hidden]
    if isinstance(spec, _PARTLY):
        fields = [name for name in fields if name in spec.model_dump()]  # others: see derived
    for name in fields:
        value = (
            spec.part_name if isinstance(spec, DramSpec) and name == "part" else getattr(spec, name)
        )
        if value is None and name not in leaf_fields(type(spec)):
            continue  # a section that isn't there, not an amount without a limit
        if value is None and not f"_{name}".endswith(tuple(UNIT_OF)):
            continue  # what is derived from other fields
        if value in (LinksSpec(), CoresSpec(), ONE_CHIP):
            continue
        if isinstance(value, Spec):
            yield from _rows(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _with_unit(name, value)
    if spec.source:
        yield f"{prefix}source", " ".join(spec.source.split())


def _with_unit(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and name == "chips":
        return shape_text(value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    for suffix, kind in UNIT_OF.items():
        if f"_{name}".endswith(suffix) and (value is None or isinstance(value, int)):
            return format_quantity(value, kind)
    matching = [unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)]
    unit = matching[0] if matching else ""
    return f"{value}{' cycle' if unit == ' cycles' and value == 1 else unit}"


def _derived_figures(accelerator: Accelerator) -> Iterator[tuple[str, str]]:
    macs_per_second = peak_macs_per_second(accelerator)
    bandwidth = accelerator.dram.bandwidth_bytes_per_second
    balance = "unlimited" if bandwidth is None else f"{macs_per_second / bandwidth:.6g} MAC/B"
    yield "derived.peak_macs_per_second", f"{macs_per_second / 10**9:.6g} GMAC/s"
    yield "derived.buffer_read_rate", _per_cycle(accelerator.read_rate)
    yield "derived.buffer_write_rate", _per_cycle(accelerator.write_rate)
    for name, backing in accelerator.every_backing.items():
        yield f"derived.{name}_channel_rate", _per_cycle(backing.channel_rate)
    if accelerator.pod.count > 1:
        yield "derived.chips", shape_text(accelerator.pod.shape)
    if accelerator.links.given:
        link = accelerator.links.rate(accelerator.clock_hz)
        yield "derived.link_rate", _per_cycle(link)
    yield "derived.noc_distribution_rate", _per_cycle(accelerator.distribution_rate)
    yield "derived.noc_collection_rate", _per_cycle(accelerator.collection_rate)
    yield "derived.noc_lead_latency", _with_unit("_cycles", accelerator.lead_latency_cycles)
    yield "derived.noc_tail_latency", _with_unit("_cycles", accelerator.tail_latency_cycles)
    yield "derived.machine_balance", balance
    given_energies = accelerator.energy.model_dump()
    for name, price in asdict(accelerator.prices).items():
        if name not in given_energies and price:
            yield f"derived.{name}", _with_unit(name, float(f"{price:.6g}"))
    if accelerator.energy.node is not None:
        yield "derived.energy_source", NODES[accelerator.energy.node].source
    area, node = area_of(accelerator), accelerator.energy.node or NODE
    for part, um2 in area.by_part.items():
        yield f"derived.area.{part}", f"{um2 * 1e-6:.4g} mm2"
    unknown = f"unknown: {' and '.join(area.unlimited)} unlimited"
    yield "derived.area", unknown if area.mm2 is None else f"{area.mm2:.4g} mm2"
    yield "derived.area_source", accelerator.area.table_source(node)


def _per_cycle(rate: Rate) -> str:
    if rate.unlimited:
        return "unlimited"
    return f"{rate.n_bytes / rate.n_cycles:.6g} B/cycle"
