"""The store of results, in memory and in a folder, so that none is computed twice.

It keeps mappings that were searched, what-if runs, and runs of explorations. The key of a result
(``result_key``) is a digest of everything that determines it, simaccel's code and version included.
The first two kinds are in the user's cache folder (``cache``), explorations in a folder of the
user's choice.

Each result is a file, named by its key, with a digest of its content: a damaged file counts as
missing. Files are written beside their place and renamed, so that a kill leaves no half-written
file. The content of the folder does not depend on when, or how often, results were written. That of
an exploration has a manifest with versions, commands and host.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable
from collections.abc import Mapping as Map
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from simaccel.errors import Fault, InputError, SimaccelError
from simaccel.files.documents import read_bytes
from simaccel.files.targets import clear_left_in, is_left, partial_path, write_fault
from simaccel.lazy import np
from simaccel.study.documents import accelerator_document
from simaccel.version import version
from simaccel.workload.workload import canonical_text

if TYPE_CHECKING:
    from simaccel.hardware import Accelerator
    from simaccel.schedulers import Options
    from simaccel.workload import Workload

Result = TypeVar("Result")
VARIABLE: Final = "SIMACCEL_CACHE"
OFF: Final = "off"
_MOST_BYTES: Final = 2**25
"""Of an entry: seconds to read; a larger one is not written."""
_UNREAD: Final = frozenset({"source", "description"})
"""Fields of an accelerator that don't affect results."""
_UNDECISIVE: Final = ("each", "on_account", "on_losses", "watch", "ends", "allow_overflow")
"""Options that don't affect results: processes and callbacks."""


class ResultStore:
    """Results by their keys: in memory, and in a folder if one is given."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.damaged: list[str] = []
        """Files that were there and could not be used."""
        self.reused = 0
        self._known: dict[str, Any] = {}

    def get(self, key: str) -> Any:  # noqa: ANN401 - plain data of any form
        """Return the data stored under a key; None if there are none, or the file is damaged."""
        if key in self._known or self.folder is None or not self._path(key).exists():
            return self._known.get(key)
        document = read_json(self._path(key))
        entry = {"key": key, "found": document.get("found")} if isinstance(document, dict) else {}
        if document != {**entry, "sha256": digest(_text(entry))}:
            self.damaged.append(self._path(key).relative_to(self.folder.parent).as_posix())
            return None
        self.reused += 1
        self._known[key] = document["found"]
        return document["found"]

    def put(self, key: str, found: object) -> None:
        """Store plain data under a key.

        Raises:
            InputError: the file can't be written.
        """
        entry = {"key": key, "found": json.loads(_text(found))}
        self._known[key] = entry["found"]
        text = _text(entry)
        if self.folder is not None and len(text) < _MOST_BYTES // 2:
            write_json(self._path(key), {**entry, "sha256": digest(text)})

    def recall(self, key: str, read: Callable[[Any], Result]) -> Result | None:
        """Return ``read`` of the data under a key; None if there are none, or they are damaged."""
        with suppress(SimaccelError, ValueError, TypeError, LookupError, AttributeError):
            return read(self.get(key))
        return None

    def remember(self, key: str, found: object) -> None:
        """Store plain data under a key, if the file can be written."""
        with suppress(SimaccelError):
            self.put(key, found)

    def _path(self, key: str) -> Path:
        assert self.folder is not None  # noqa: S101 - narrows the type
        return self.folder / key[:2] / f"{key}.json"


def cache() -> ResultStore:
    """Return the store that commands share.

    It is in the user's cache folder, or in that of ``SIMACCEL_CACHE``; ``off`` stores nothing.
    """
    folder = os.environ.get(VARIABLE)
    if folder == OFF:
        return ResultStore()
    if folder:
        return ResultStore(Path(folder))
    from platformdirs import user_cache_path  # noqa: PLC0415 - only where it is needed

    with suppress(RuntimeError):  # no HOME, and a user that the system doesn't know
        return ResultStore(user_cache_path("simaccel") / "mappings")
    return ResultStore()


def result_key(
    kind: str,
    accelerator: Accelerator,
    workload: Workload | None = None,
    options: Options | None = None,
    **others: str,
) -> str:
    """Return the digest of all that determines a result; ``others``: what its kind adds."""
    decisive: dict[str, object] = {
        "kind": kind,
        "simaccel": version(),
        "code": code_digest(),
        "accelerator": _accelerator_text(accelerator),
        **others,
    }
    if workload is not None:
        decisive["workload"] = _workload_text(workload)
    if options is not None:
        named = {name: value for name, value in vars(options).items() if name not in _UNDECISIVE}
        decisive["options"] = {**named, "effort": asdict(options.effort)}
    return digest(_text(decisive, is_sorted=True))


@lru_cache(maxsize=4096)
def _workload_text(workload: Workload) -> str:
    return f"{workload.name}\n{canonical_text(workload)}"


@lru_cache(maxsize=4096)
def _accelerator_text(accelerator: Accelerator) -> str:
    return _text(_decisive(accelerator_document(accelerator)), is_sorted=True)


def _decisive(value: object) -> object:
    """Return a value without fields that don't affect results."""
    if isinstance(value, Map):
        return {key: _decisive(item) for key, item in value.items() if key not in _UNREAD}
    return value


def digest(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_json(path: Path) -> Any:  # noqa: ANN401 - plain data of any form
    """Return the content of a JSON file; None if it can't be read, or is no JSON."""
    with suppress(InputError, ValueError, RecursionError):
        return json.loads(read_bytes(path, "JSON", _MOST_BYTES))
    return None


def write_json(path: Path, document: object) -> None:
    """Write a JSON file completely or not at all; make its folder if it is missing.

    Raises:
        InputError: the file can't be written.
    """
    partial = partial_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(_text(document) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise write_fault(path, error) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _text(value: object, *, is_sorted: bool = False) -> str:
    """Return plain data as JSON, by default in its own order, which tables keep."""
    return json.dumps(value, sort_keys=is_sorted, default=methodcaller("item"))  # of numpy


_SHOWS: Final = ("cli", "report", "trace")
"""Packages that show results, and don't make them."""


@lru_cache
def code_digest() -> str:
    """Return the digest of the sources that decide a result: all but those that show it."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in _SHOWS:
            digest.update(name.as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


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
        raise write_fault(folder, error, "a folder") from None
    path = folder / MANIFEST
    before: list[Any] = []
    if is_there := path.exists():
        document = read_json(path)
        earlier = document.get("explorations") if isinstance(document, dict) else None
        if isinstance(earlier, list):
            before = earlier
        else:
            store.damaged.append(MANIFEST)
    now = {
        "command": command,
        "seed": seed,
        "simaccel": version(),
        "code": code_digest(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "host": {
            "system": platform.platform(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "byte order": sys.byteorder,
        },
    }
    if now not in before or not is_there:
        write_json(path, {"format": FORMAT, "explorations": [*before, now]})


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
        raise write_fault(folder, error, "a folder") from None
    ours = {MANIFEST, RUNS, ROWS}
    if not names & ours and any(not is_left(name) for name in names):
        raise InputError([Fault("command line", "--store", str(folder), allowed)])
