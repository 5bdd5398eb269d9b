"""Mappings that were searched before, kept on disk under a key of all that decides them.

The key has the workload, the accelerator, the dataflow, what was asked of the scheduler, and the
code that searches: a new version of simaccel, or a changed line, searches again. Files of the
folder may be deleted at any time, and one that is damaged is searched again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from simaccel.errors import SimaccelError
from simaccel.experiment.cache import cache_folder
from simaccel.experiment.code import code_digest
from simaccel.hardware import Accelerator
from simaccel.mapping.files import load_mapping, save_mapping
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import DATAFLOWS, MAPSPACES, Options
from simaccel.workload import VECTORS, Vector, Workload
from simaccel.workload.workload import canonical_text


def remembered(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    search: Callable[[], Mapping],
    *,
    anew: bool = False,
) -> Mapping:
    """Return the mapping that was found before (not if ``anew``), or search and remember it.

    A search that ends after a time depends on the machine's speed: it is never remembered. Nor is
    one with a plug-in, whose code the key doesn't have.
    """
    path = place_of(workload, accelerator, dataflow, options)
    if path is None:
        return search()
    with suppress(SimaccelError):  # not there, or damaged
        if path.is_file() and not anew:
            return load_mapping(path, workload)
    found = search()
    with suppress(SimaccelError, OSError):  # a folder that can't be written remembers nothing
        path.parent.mkdir(parents=True, exist_ok=True)
        save_mapping(found, path)
    return found


def place_of(
    workload: Workload, accelerator: Accelerator, dataflow: str, options: Options
) -> Path | None:
    """Return where the mapping is kept once it is found; None if it is not."""
    folder = cache_folder()
    timed = options.effort.budget_seconds is not None
    if folder is None or timed or _is_plugged(workload, dataflow):
        return None
    return folder / f"{_key(workload, accelerator, dataflow, options)}.yaml"


def _is_plugged(workload: Workload, dataflow: str) -> bool:
    """Say whether a plug-in schedules, or is an operator of the workload."""
    kinds = (one.kind for one in workload.operators if isinstance(one, Vector))
    ours = dataflow in DATAFLOWS.own or dataflow in MAPSPACES
    return not ours or any(kind not in VECTORS.own for kind in kinds)


def _key(workload: Workload, accelerator: Accelerator, dataflow: str, options: Options) -> str:
    asked = (
        options.pipeline,
        options.objective,
        options.stationarity,
        options.constraints,
        options.patience,
        asdict(options.effort),
    )
    text = "\n".join(
        (
            code_digest(),
            workload.name,
            canonical_text(workload),
            repr(accelerator),
            dataflow,
            repr(asked),
        )
    )
    return hashlib.sha256(text.encode()).hexdigest()
