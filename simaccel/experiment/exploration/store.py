"""What was run, kept in a folder: finished runs are never run twice.

One file a run, under the digest of all that decides it, with a digest of what it holds: a file that
is damaged is as good as none. Files are written beside their place and moved there, so that a kill
leaves none or all of one. Nothing in the folder depends on when, or how often, it was written.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simaccel.errors import Fault, InputError
from simaccel.experiment.code import code_digest
from simaccel.files.targets import not_written
from simaccel.later import np
from simaccel.version import version

if TYPE_CHECKING:
    from simaccel.experiment.exploration.runs import Asked, Record

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
RUNS: Final = "runs"
_PARTIAL: Final = re.compile(r"\.(\d+)\.partial$")


class Store:
    """Records of runs by what decides them: in memory, and in a folder if one is given."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.damaged: list[str] = []
        """Files that were there and could not be used."""
        self.reused = 0
        self._known: dict[str, Record] = {}
        if folder is not None:
            _require_store(folder)

    def open(self, command: str, seed: int) -> None:
        """Make the folder, and note in its manifest what is done in it.

        Raises:
            InputError: the folder can't be written.

        """
        if self.folder is None:
            return
        try:
            (self.folder / RUNS).mkdir(parents=True, exist_ok=True)
            _sweep(self.folder)
            self._manifest(command, seed)
        except OSError as error:
            raise not_written(self.folder, error) from None

    def get(self, asked: Asked) -> Record | None:
        """Return what came out of a run, if that is known."""
        if asked.key in self._known:
            return self._known[asked.key]
        if self.folder is None:
            return None
        path = self._path(asked.key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            data = b""
        record = _read(data, asked)
        if record is None:
            self.damaged.append(f"{RUNS}/{path.parent.name}/{path.name}")
            return None
        self.reused += 1
        self._known[asked.key] = record
        return record

    def put(self, asked: Asked, record: Record) -> None:
        """Keep what came out of a run.

        Raises:
            InputError: the disk refuses.

        """
        text = _text(record)
        self._known[asked.key] = json.loads(text)
        if self.folder is None:
            return
        entry = {"asked": json.loads(asked.text), "found": json.loads(text)}
        try:
            _write(self._path(asked.key), {**entry, "sha256": _digest(_text(entry))})
        except OSError as error:
            raise not_written(self._path(asked.key), error) from None

    def _path(self, key: str) -> Path:
        assert self.folder is not None  # noqa: S101 - narrows the type
        return self.folder / RUNS / key[:2] / f"{key}.json"

    def _manifest(self, command: str, seed: int) -> None:
        """Add what is done now; the same again adds nothing."""
        assert self.folder is not None  # noqa: S101 - narrows the type
        path = self.folder / MANIFEST
        before: list[Any] = []
        if path.exists():
            found = _manifest_of(path)
            if found is None:
                self.damaged.append(MANIFEST)
            else:
                before = found
        now = {"command": command, "seed": seed, **versions(), "host": host()}
        if now not in before or not path.exists():
            _write(path, {"format": FORMAT, "explorations": [*before, now]})


def versions() -> dict[str, str]:
    """Return what computes."""
    return {
        "simaccel": version(),
        "code": code_digest(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def host() -> dict[str, Any]:
    """Return where it computes."""
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "byte order": sys.byteorder,
    }


def _require_store(folder: Path) -> None:
    """Refuse a folder with something else in it."""
    allowed = "a new or empty folder, or one that an exploration has made"
    try:
        others = {path.name for path in folder.iterdir()} - {MANIFEST, RUNS}
        bare = (folder / RUNS).exists() or (folder / MANIFEST).exists()
    except FileNotFoundError:
        if not folder.absolute().parent.is_dir():
            allowed = "a folder in one that exists"
            raise InputError([Fault("command line", "--store", str(folder), allowed)]) from None
        return
    except OSError as error:
        raise not_written(folder, error) from None
    others = {name for name in others if not _PARTIAL.search(name)}
    if others and not bare:
        raise InputError([Fault("command line", "--store", str(folder), allowed)])


def _sweep(folder: Path) -> None:
    """Remove what killed processes left half written."""
    for path in (*folder.glob("*.partial"), *folder.glob(f"{RUNS}/*/*.partial")):
        found = _PARTIAL.search(path.name)
        if found and not _lives(int(found[1])):
            path.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return pid != os.getpid()


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: Path, document: object) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(_text(document) + "\n", encoding="utf-8")
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _read(data: bytes, asked: Asked) -> Record | None:
    """Read an entry; None if it is damaged, or of another run."""
    try:
        entry = json.loads(data)
        digest, found = entry.pop("sha256"), entry["found"]
        whole = digest == _digest(_text(entry)) and entry["asked"] == json.loads(asked.text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found if whole and isinstance(found, dict) else None


def _manifest_of(path: Path) -> list[Any] | None:
    try:
        found = json.loads(path.read_bytes())["explorations"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, list) else None
