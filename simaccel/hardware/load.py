"""Accelerators of ``hwconfigs/*.yaml``: finding, reading, overriding and tabulating them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from simaccel.errors import (
    ABSENT,
    Fault,
    InputError,
    require_none,
)
from simaccel.files.documents import parse_document, refuse_others
from simaccel.files.schema import A_MAPPING, faults_of, leaf_fields, replaced_fields, valid_fields
from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.area.parts import area_of
from simaccel.hardware.area.spec import NODE, AreaSpec
from simaccel.hardware.array import ArraySpec
from simaccel.hardware.cores import CoresSpec
from simaccel.hardware.energy.spec import EnergySpec
from simaccel.hardware.energy.tables import NODES
from simaccel.hardware.links import ONE_CHIP, LinksSpec, follow_topology, shape_text
from simaccel.hardware.memory import DramSpec
from simaccel.hardware.precision import PrecisionSpec
from simaccel.hardware.presets import (
    BASE,
    EXPECTED,
    PRESETS,
    SECTIONS,
    Settings,
    each_setting,
    list_accelerators,
    unknown_field,
    with_presets,
)
from simaccel.hardware.quantity import UNIT_OF, Rate, format_quantity
from simaccel.hardware.sections import contradictions
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.hardware.spec import Spec
from simaccel.numbers import BITS, TOLD_APART

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


def own_document(raw: dict[str, Any], path: Path) -> tuple[dict[str, Any], list[Fault]]:
    """Return a file's document with its presets filled in, and faults of the presets.

    Raises:
        InputError: the file describes something else than an accelerator.
    """
    refuse_others(raw, "array", str(path), EXPECTED)
    return with_presets(raw, str(path))


def build_accelerator(
    raw: dict[str, Any], path: Path, overrides: Settings, faults: Sequence[Fault]
) -> Accelerator:
    """Return the accelerator of a document, with ``overrides`` of its fields.

    Raises:
        InputError: ``faults`` and all further faults of the document and the overrides.
    """
    files, unknown = _override(raw, overrides)
    accelerator, wrong = _build(raw, str(path))
    wrong += _empty(raw, str(path), wrong)
    wrong = [
        Fault(_file_of(fault, files), fault.field, fault.value, _section_allowed(fault))
        for fault in wrong
    ]
    named = {fault.field for fault in (*faults, *unknown)}  # a section of no name is said once
    if BASE in named:  # which has what the file lacks
        wrong = [fault for fault in wrong if fault.value is not ABSENT]
    require_none([*faults, *unknown, *(fault for fault in wrong if fault.field not in named)])
    assert accelerator is not None, "what is not built has faults"  # noqa: S101
    return accelerator


def _section_allowed(fault: Fault) -> str:
    """Return what is allowed instead of a value; in place of a section also a preset's name."""
    if fault.field not in SECTIONS or not fault.allowed.startswith(A_MAPPING):
        return fault.allowed
    names = PRESETS.get(fault.field) or list_accelerators()
    return f"a section, or a name such as {next(iter(names))}"


def _file_of(fault: Fault, files: Mapping[str, str]) -> str:
    """Return the source of a fault's value; ``files``: sources of fields and of whole sections."""
    section = fault.field.partition(".")[0]
    return files.get(fault.field) or files.get(section, fault.file)


def with_values(accelerator: Accelerator, values: Mapping[str, object], source: str) -> Accelerator:
    """Return an accelerator with other values; it is checked like a file.

    ``values``: by ``path.to.field``; of a section also the name of a part or of an accelerator.

    Raises:
        InputError: every fault, with ``source`` as its file.
    """
    raw, faults = accelerator.model_dump(), list[Fault]()
    for field, value in values.items():
        if field in SECTIONS:
            faults += _replace_section(raw, field, value, source)
        else:
            _put_value(raw, field.split("."), value)
    follow_topology(raw, values)
    built, more = _build(raw, source)
    if built is None or faults:
        raise InputError([*faults, *more])
    return built


def _override(raw: dict[str, Any], overrides: Settings) -> tuple[dict[str, str], list[Fault]]:
    """Write the overrides into ``raw``; return the source of each, and faults."""
    leaves = leaf_fields(Accelerator)
    files: dict[str, str] = {}
    faults = []
    for field, value, file in each_setting(overrides):
        if value is ABSENT:
            faults.append(Fault(file, "override", field, "path.to.field=value"))
        elif field in SECTIONS:
            faults += _replace_section(raw, field, value, file)
            files[field] = file
        elif field not in leaves:
            instead = replaced_fields(Accelerator).get(field) or unknown_field(field, leaves)
            faults.append(Fault(file, field, value, instead))
        else:
            try:
                read = parse_document(value) if isinstance(value, str) else value
            except ValueError:
                faults.append(Fault(file, field, value, "a YAML value"))
                continue
            files[field] = file
            _put_value(raw, field.split("."), read)
    if files:
        follow_topology(raw, files)
    return files, faults


def _replace_section(raw: dict[str, Any], section: str, value: object, file: str) -> list[Fault]:
    """Replace a document's section by the preset of a name; return faults of the name."""
    named = {**raw, section: value.strip() if isinstance(value, str) else value}
    found, faults = with_presets(named, file)
    raw |= {section: found[section]} if section in found else {}
    return faults


def _put_value(raw: dict[str, Any], keys: list[str], value: object) -> None:
    section: Any = raw
    for key in keys[:-1]:
        section = section.setdefault(key, {}) if isinstance(section, dict) else None
    if isinstance(section, dict):  # otherwise the section itself is a fault
        section[keys[-1]] = value


def _build(raw: dict[str, Any], file: str) -> tuple[Accelerator | None, list[Fault]]:
    accelerator, faults = None, []
    try:
        accelerator = Accelerator.model_validate(raw)
    except ValidationError as error:
        faults = faults_of(error, file, raw, Accelerator)
        # what pydantic leaves out once a field is wrong
        faults += [
            Fault(file, *wrong)
            for wrong in contradictions(valid_fields(Accelerator, raw))
            if wrong[0] not in {fault.field for fault in faults}
        ]
    return accelerator, faults


def _empty(raw: dict[str, Any], file: str, faults: Sequence[Fault]) -> list[Fault]:
    """Return faults for keys without a value, except those that have a fault already."""
    named, empty = {fault.field for fault in faults}, []
    for leaf in leaf_fields(Accelerator):
        value: Any = raw
        for key in leaf.split("."):
            value = value.get(key, ABSENT) if isinstance(value, Mapping) else ABSENT
        if value is None and leaf not in named:
            allowed = "a value; to lift a limit write unlimited"
            empty.append(Fault(file, leaf, ABSENT, allowed))
    return empty


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


def peak_macs_per_second(accelerator: Accelerator) -> float:
    """Return the peak MACs per second of a chip, in its own precision.

    >>> from simaccel import load_accelerator
    >>> 2 * peak_macs_per_second(load_accelerator("edge_tpu")) / 1e12
    3.93216
    """
    numbers, array = accelerator.precision.by_class.values(), accelerator.array
    elements = [(BITS[name], name if name in TOLD_APART else "") for name in numbers]
    pace = array.pace(elements) if isinstance(array, ArraySpec) and elements else 1
    return float(accelerator.pes * accelerator.clock_hz / pace)


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
