"""Accelerators of ``hwconfigs/*.yaml``: finding, reading and overriding them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
from simaccel.hardware.links import follow_topology
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
from simaccel.hardware.sections import contradictions


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
