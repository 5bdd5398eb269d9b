"""Accelerators from files of any kind: simaccel's own, SCALE-Sim's and Timeloop's."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from simaccel.errors import Fault, InputError, name_arguments, require_none, suggest
from simaccel.files.accounting import AccountEntry, FileAccount
from simaccel.files.schema import read_yaml
from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.load import build_accelerator, own_document
from simaccel.hardware.presets import EXPECTED, Settings, accelerator_files, each_setting
from simaccel.importers.file_kinds import KIND_ADVICE, sniff_kind

_MAY_DIFFER: Final = {"name", "description", "chips", "precision", "energy", "area"}


@name_arguments()
def load_accelerator(
    name_or_path: str | Path, overrides: Settings = (), *, allow_unmodelled: bool = False
) -> Accelerator:
    """Load an accelerator of simaccel or of a plug-in by name, or any by the path of its file.

    ``overrides`` replace values of the file: values by path, or texts ``path.to.field=value``.
    Another tool's file of which more is left out than can be counted runs only if
    ``allow_unmodelled``.

    >>> load_accelerator("edge", {"buffer.capacity_bytes": "64 KiB"}).buffer.capacity_bytes
    65536

    Raises:
        InputError: all faults of the file and the overrides together.
    """
    path = accelerator_path(str(name_or_path))
    raw, faults, account = _read_document(path, {field for field, *_ in each_setting(overrides)})
    accelerator = build_accelerator(raw, path, overrides, faults)
    account = replace(account, allowed=allow_unmodelled)
    vars(accelerator)["account"] = account  # of the file, and no part of what it describes
    return accelerator


def _replace_interfaces(
    raw: dict[str, Any], account: FileAccount, overridden: set[str]
) -> FileAccount:
    """Replace a SCALE-Sim configuration's interfaces, that of weights too, by a DRAM set by name.

    Return the account of the file, which says so; if only other fields of the DRAM are set, it says
    that weights have an interface of their own.
    """
    if "memories" not in raw or any(field.startswith("memories") for field in overridden):
        return account
    if "dram" in overridden:
        del raw["memories"]
        why = "--set dram takes the place of all three interfaces, that of the filters too"
    elif any(field.startswith("dram.") for field in overridden):
        why = "weights keep their interface: memories.weight.bandwidth_bytes_per_second sets it"
    else:
        return account
    said = AccountEntry("Bandwidth", "not taken", why)
    kept = (entry for entry in account.entries if not entry.name.endswith(".Bandwidth"))
    return replace(account, entries=(*kept, said))


def is_as_shipped(accelerator: Accelerator) -> bool:
    """Return whether an accelerator is the shipped one of its name.

    But for the number of its chips, the numbers that it computes with, and their prices.
    """
    if accelerator.name not in accelerator_files():
        return False
    shipped = load_accelerator(accelerator.name)
    sections = type(accelerator).model_fields.keys() - _MAY_DIFFER
    return all(getattr(shipped, name) == getattr(accelerator, name) for name in sections)


def accelerator_path(name: str) -> Path:
    """Return the file of an accelerator by its name or path.

    Raises:
        InputError: it is no path, and neither simaccel nor a plug-in has one of this name.
        PluginError: the plug-in that has it is broken.
    """
    is_file = name.lower().endswith((".yaml", ".yml", ".cfg"))
    if is_file or "/" in name or os.sep in name or sniff_kind(Path(name)):
        return Path(name)
    known = accelerator_files()
    if name not in known:
        near = suggest(name, sorted(known))
        allowed = f"an accelerator or the path of a .yaml or .cfg file; {near}"
        raise InputError([Fault("accelerator", "name", name, allowed)])
    return known[name]


def _read_document(
    path: Path, overridden: set[str]
) -> tuple[dict[str, Any], list[Fault], FileAccount]:
    """Return the accelerator's document that a file of any kind describes, its faults, its account.

    The account is of the fields of another tool's file.
    """
    kind = "configuration" if path.suffix.lower() == ".cfg" else sniff_kind(path)
    if kind == "configuration":
        from simaccel.importers.scalesim.configuration import read_scalesim  # noqa: PLC0415

        raw, account = read_scalesim(path)
        return raw, [], _replace_interfaces(raw, account, overridden)
    if kind is not None:
        allowed = f"an accelerator; this looks like {KIND_ADVICE[kind]}"
        raise InputError([Fault(str(path), "document", kind, allowed)])
    raw, faults = read_yaml(path, EXPECTED)
    if "array" not in raw:
        from simaccel.importers.timeloop.architecture import (  # noqa: PLC0415
            is_architecture,
            read_timeloop,
        )

        if is_architecture(raw):
            require_none(faults)
            made, account = read_timeloop(raw, str(path))
            return made, [], account
    raw, unknown = own_document(raw, path)
    return raw, [*faults, *unknown], FileAccount(str(path))
