"""Accelerators and workloads as documents of files that load as the same."""

from __future__ import annotations

from typing import Any

from simaccel.hardware import Accelerator
from simaccel.numbers import plain
from simaccel.workload import Workload
from simaccel.workload.documents import einsums_document


def accelerator_document(accelerator: Accelerator) -> dict[str, Any]:
    """Return the document of a file that loads as the same accelerator."""
    document: dict[str, Any] = _write_unlimited(accelerator.model_dump(mode="json"))
    return document


def _write_unlimited(value: object) -> Any:  # noqa: ANN401 - plain data of any form
    """Return a value with ``unlimited`` in place of None, as in files."""
    if isinstance(value, dict):
        return {key: _write_unlimited(item) for key, item in value.items()}
    return "unlimited" if value is None else value


def recorded_workload(workload: Workload) -> dict[str, Any]:
    """Return a workload's document operator by operator, with the document that it was made from.

    The former is what ran, even if another version reads the latter differently.
    """
    whole = {
        **einsums_document(workload.name, workload.operators, workload.tensors.values()),
        "repeat": workload.repeat,
        "once": sorted(workload.once),
    }
    return {"parameters": plain(workload.parameters), "workload": whole}
