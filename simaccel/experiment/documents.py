"""Accelerators and workloads as the data of files that load as the same again."""

from __future__ import annotations

from collections.abc import Mapping as Items
from typing import Any

from simaccel.hardware import Accelerator
from simaccel.workload import Workload
from simaccel.workload.documents import einsums_document


def accelerator_document(accelerator: Accelerator) -> dict[str, Any]:
    """Return an accelerator as the data of a file that loads as the same accelerator."""
    document: dict[str, Any] = _write_unlimited(accelerator.model_dump(mode="json"))
    return document


def _write_unlimited(value: object) -> Any:  # noqa: ANN401 - plain data of any form
    """Write ``unlimited`` for None, as files do."""
    if isinstance(value, dict):
        return {key: _write_unlimited(item) for key, item in value.items()}
    return "unlimited" if value is None else value


def workload_document(workload: Workload) -> dict[str, Any]:
    """Return a workload as the data of a workload file, which loads as the same workload."""
    document: dict[str, Any] = _plain(workload.parameters)
    return document


def recorded_workload(workload: Workload) -> dict[str, Any]:
    """Return a workload operator by operator, beside the document that it was made from.

    The first is what ran, whatever the names in the second mean to another version.
    """
    whole = {
        **einsums_document(workload.name, workload.operators, workload.tensors.values()),
        "repeat": workload.repeat,
        "once": sorted(workload.once),
    }
    return {"parameters": workload_document(workload), "workload": whole}


def _plain(value: object) -> Any:  # noqa: ANN401 - plain data of any form
    if isinstance(value, Items):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
