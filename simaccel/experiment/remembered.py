"""Mappings that were searched before, kept on disk under a key of all that decides them.

The key has the workload, the accelerator, the dataflow, what was asked of the scheduler, and the
code that searches: a new version of simaccel, or a changed line, searches again. Beside a mapping
stands how it was searched, for who asks. Files of the folder may be deleted at any time, and one
that is damaged is searched again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from simaccel.errors import SimaccelError
from simaccel.experiment.cache import cache_folder
from simaccel.experiment.code import code_digest
from simaccel.files.targets import writing_text
from simaccel.hardware import Accelerator
from simaccel.mapping.files import load_mapping, save_mapping
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import DATAFLOWS, MAPSPACES, Options
from simaccel.schedulers.accounts import Account, Note, unnoted
from simaccel.workload import VECTORS, Vector, Workload
from simaccel.workload.workload import canonical_text


def remembered(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    search: Callable[[Options], Mapping],
    *,
    told: Note = unnoted,
) -> Mapping:
    """Return the mapping that was found before, or search and remember it.

    ``told`` is handed the account of each search, whenever it was; the note of the options, that of
    one which is done now.
    """
    path = place_of(workload, accelerator, dataflow, options)
    known = None if path is None else _known(path, workload)
    if known is not None:
        mapping, accounts = known
        _tell(accounts, told)
        return mapping
    accounts = []

    def note(account: Account) -> None:
        options.note(account)
        accounts.append(account)

    mapping = search(replace(options, note=note))
    remember(workload, accelerator, dataflow, options, mapping, accounts)
    _tell(accounts, told)
    return mapping


def remember(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    mapping: Mapping,
    accounts: Sequence[Account],
) -> None:
    """Keep a mapping, and how it was searched, on disk.

    A search that ends after a time depends on the machine's speed: it is never remembered. Nor is
    one with a plug-in, whose code the key doesn't have.
    """
    path = place_of(workload, accelerator, dataflow, options)
    if path is None:
        return
    with suppress(SimaccelError, OSError):  # a folder that can't be written remembers nothing
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing_text(_beside(path), force=True) as stream:
            json.dump([asdict(one) for one in accounts], stream, default=_number)
        save_mapping(mapping, path)


def _known(path: Path, workload: Workload) -> tuple[Mapping, list[Account]] | None:
    """Return what is on disk, if it is there and whole."""
    with suppress(SimaccelError, OSError, ValueError, TypeError, LookupError):
        accounts = _accounts(path)
        return load_mapping(path, workload), accounts
    return None


def _tell(accounts: Sequence[Account], told: Note) -> None:
    for one in accounts:
        told(one)


def _number(value: Any) -> Any:  # noqa: ANN401 - one of numpy's
    return value.item()


def _beside(path: Path) -> Path:
    """Return the file with the accounts of a mapping's searches."""
    return path.with_name(f"searches-{path.stem}.json")


def _accounts(path: Path) -> list[Account]:
    with _beside(path).open(encoding="utf-8") as stream:
        found = json.load(stream)
    return [
        Account(
            **{
                **one,
                "operators": tuple(one["operators"]),
                "curve": tuple((int(at), float(value)) for at, value in one["curve"]),
            }
        )
        for one in found
    ]


def place_of(
    workload: Workload, accelerator: Accelerator, dataflow: str, options: Options
) -> Path | None:
    """Return where the mapping is kept once it is found; None if it is not."""
    folder = cache_folder()
    timed = options.effort.budget_seconds is not None
    if folder is None or timed or _is_plugged(workload, dataflow):
        return None
    return folder / f"{_key(workload, accelerator, dataflow, options)}.yaml"


def is_kept(path: Path) -> bool:
    """Say whether a mapping is there, and how it was searched."""
    return path.is_file() and _beside(path).is_file()


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
        options.tolerance,
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
