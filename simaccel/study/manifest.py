"""The folder of an exploration: its runs, and a manifest with versions, commands and host."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any, Final

from simaccel.errors import Fault, InputError
from simaccel.files.targets import clear_left_in, is_left, write_fault
from simaccel.lazy import np
from simaccel.study.store import ResultStore, code_digest, read_json, write_json
from simaccel.version import version

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
RUNS: Final = "runs"
ROWS: Final = "rows"


def store_in(folder: str | Path | None, kind: str = RUNS) -> ResultStore:
    """Return the store in a folder, which may not exist yet; without a folder, one in memory.

    ``kind``: the subfolder: runs of designs, or rows of comparisons.

    Raises:
        InputError: the folder contains other files, or it can't be made.
    """
    if folder is None:
        return ResultStore()
    _require_store(Path(folder))
    return ResultStore(Path(folder) / kind)


def open_store(store: ResultStore, command: str, seed: int) -> None:
    """Create the folder, and add the command to its manifest, unless it is there already.

    Raises:
        InputError: the folder can't be written.
    """
    if store.folder is None:
        return
    folder = store.folder.parent
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
        clear_left_in(folder)
    except OSError as error:
        raise write_fault(folder, error) from None
    path = folder / MANIFEST
    before: list[Any] = []
    if is_there := path.exists():
        document = read_json(path)
        earlier = document.get("explorations") if isinstance(document, dict) else None
        if isinstance(earlier, list):
            before = earlier
        else:
            store.damaged.append(MANIFEST)
    now = {"command": command, "seed": seed, **versions(), "host": host()}
    if now not in before or not is_there:
        write_json(path, {"format": FORMAT, "explorations": [*before, now]})


def versions() -> dict[str, str]:
    """Return the versions of simaccel, its code, Python and numpy."""
    return {
        "simaccel": version(),
        "code": code_digest(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def host() -> dict[str, Any]:
    """Return a description of the computer."""
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "byte order": sys.byteorder,
    }


def _require_store(folder: Path) -> None:
    """Refuse a folder that contains other files."""
    allowed = "a new or empty folder, or one that explore or compare has made"
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        if not folder.absolute().parent.is_dir():
            allowed = "a folder in one that exists"
            raise InputError([Fault("command line", "--store", str(folder), allowed)]) from None
        return
    except OSError as error:
        raise write_fault(folder, error) from None
    ours = {MANIFEST, RUNS, ROWS}
    if not names & ours and any(not is_left(name) for name in names):
        raise InputError([Fault("command line", "--store", str(folder), allowed)])
