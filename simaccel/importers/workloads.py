"""Workloads from files of any kind: YAML, ONNX, SCALE-Sim, Timeloop, MAESTRO, Hugging Face.

Options that don't apply to a kind of file are refused with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Unpack

from simaccel.errors import ABSENT, Fault, InputError, name_arguments
from simaccel.files.accounting import AccountEntry
from simaccel.plugins import Registry
from simaccel.workload import building
from simaccel.workload.language.build import transformer
from simaccel.workload.workload import Workload


@name_arguments()
def load_workload(
    name_or_path: str | Path,
    *,
    allow_unmodelled: bool = False,
    **sizes: Unpack[building.WorkloadSizes],
) -> Workload:
    """Return the workload of a name (`simaccel.workload.build`) or of a file of any kind.

    Files: YAML (of simaccel, or a Timeloop problem), a SCALE-Sim topology (.csv), an ONNX model
    (.onnx), Hugging Face's config.json, and those of plug-ins, as MAESTRO's descriptions (.m).
    ``sizes``: see `WorkloadSizes`. Parts of a file that aren't modelled are in the workload's
    ``account``; if they are more than 1% of its MACs, it runs only if ``allow_unmodelled``.

    Raises:
        InputError: all faults of the file or of the sizes, or an unknown name.
        PluginError: the plug-in that has the name is broken.
    """
    name = str(name_or_path)
    kind = kind_of_file(name)
    if kind is None:
        return building.build(name, **sizes)
    _require_workload_kind(name, kind)

    def read(options: dict[str, Any]) -> Workload:
        if kind in building.REFUSED and kind != "document":  # which takes what its own kind does
            building.require_taken(name, kind, options)
        return _READERS[kind](path=name, **options)

    workload = building.size_workload(read, sizes)
    return replace(workload, account=replace(workload.account, allowed=allow_unmodelled))


def kind_of_file(name: str) -> str | None:
    """Return the kind of a file by its content, else its ending; None if the name is no path.

    A kind is a key of ``REFUSED``, or the ending of files that a plug-in reads.
    """
    if not is_file(name):
        return None
    from simaccel.importers.file_kinds import sniff_kind  # noqa: PLC0415 - a parser

    kind = sniff_kind(Path(name))
    if kind is not None and kind in _READERS:
        return kind
    ending = Path(name).suffix.lower().removeprefix(".")
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    return ending if _is_plugged(ending) else "document"


def _require_workload_kind(name: str, kind: str) -> None:
    """Refuse a file whose content is of another known kind than ``kind``, its reader's."""
    from simaccel.importers.file_kinds import KIND_ADVICE, sniff_kind  # noqa: PLC0415 - a parser

    if Path(name).suffix.lower().removeprefix(".") not in _ENDINGS and not Path(name).exists():
        files = "a file: .yaml, .csv, .onnx, .m or the config.json of a model of Hugging Face"
        raise InputError([Fault(name, "file", ABSENT, f"{files}, or a name of `workload list`")])
    found_kind = sniff_kind(Path(name))
    if found_kind is not None and found_kind != kind:
        allowed = f"a workload; this looks like {KIND_ADVICE[found_kind]}"
        raise InputError([Fault(name, "document", found_kind, allowed)])


def is_file(name: str) -> bool:
    """Return whether a name is the path of a file, which need not exist if its ending is known."""
    ending = Path(name).suffix.lower().removeprefix(".")
    is_known = ending in _ENDINGS or "/" in name or os.sep in name or _is_plugged(ending)
    return is_known or (ending.isalpha() and Path(name).is_file())


def _is_plugged(ending: str) -> bool:
    """Return whether a plug-in reads files of an ending; one with digits is part of a name."""
    return ending.isalpha() and ending in _READERS


def _onnx(path: str, **given: Any) -> Workload:  # noqa: ANN401 - sizes
    from simaccel.importers.onnx_files import load_onnx  # noqa: PLC0415 - onnx is optional, and slow

    if named := given.pop("bytes_by_tensor", None):
        allowed = "a number for all tensors of an ONNX model"
        raise InputError([Fault("workload", "bytes_per_element", ", ".join(named), allowed)])
    return load_onnx(path, **given).workload


def _topology(path: str, **given: Any) -> Workload:  # noqa: ANN401 - sizes
    from simaccel.importers.scalesim.topology import load_topology  # noqa: PLC0415 - seldom needed

    return load_topology(path, **given)


def _config(path: str, **options: Any) -> Workload:  # noqa: ANN401 - sizes
    from simaccel.importers.hugging_face.config import load_config  # noqa: PLC0415 - seldom needed
    from simaccel.importers.hugging_face.configuration import PART  # noqa: PLC0415

    model, account = load_config(path)
    made = transformer(model, **options)
    entries = [AccountEntry("sizes", "taken", "a transformer", "model", made.macs)]
    whole = made.parameters["scope"] == "model"
    for entry in account.entries:
        macs = entry.macs if whole or entry.kind != PART else 0
        entries.append(replace(entry, macs=macs, elements=0))
    return replace(made, account=replace(account, entries=tuple(entries)))


def _document(path: str, **given: Any) -> Workload:  # noqa: ANN401 - sizes
    from simaccel.workload.files import load_document  # noqa: PLC0415 - has forms of all kinds

    return load_document(path, _parse, **given)


def _parse(document: Mapping[Any, Any], source: str) -> Workload:
    from simaccel.importers.timeloop.problem import is_timeloop, timeloop_problem  # noqa: PLC0415
    from simaccel.workload.files import parse_workload  # noqa: PLC0415

    if is_timeloop(document):
        return timeloop_problem(document, source)
    return parse_workload(document, source)


_ENDINGS: Final = {
    "yaml": "document",
    "yml": "document",
    "onnx": "onnx",
    "csv": "topology",
    "json": "config",
    "m": "description",
}
_READERS: Final[Registry[Callable[..., Workload]]] = Registry(
    "simaccel.workload_files",
    {"onnx": _onnx, "topology": _topology, "config": _config, "document": _document},
    building.accept_builder,
)
"""Kind of file, or ending that a plug-in reads -> function from a ``path`` and sizes."""
