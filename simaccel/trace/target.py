"""Files that are written whole or not at all: where they may stand, and how they get there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TextIO

from simaccel.trace.schema import TraceError


def require_target(path: str | Path, *, force: bool = False) -> Path:
    """Refuse a path that can't be written, before anything is done for it.

    Raises:
        TraceError: the file exists and ``force`` is not given, or its folder is missing or
            can't be written.

    """
    path = Path(path)
    folder = path.parent
    if path.is_dir():
        raise TraceError(path, "is a folder", "the path of a file")
    if not folder.is_dir():
        raise TraceError(path, f"folder {folder} does not exist", "a file in an existing folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise TraceError(path, f"folder {folder} can't be written", "a file in a writable folder")
    if path.exists() and not force:
        raise TraceError(path, "exists already", "a new file, or --force to replace it")
    return path


def partial_path(path: Path) -> Path:
    """Name the file beside ``path`` that is written first."""
    return path.with_name(f"{path.name}.{token_hex(4)}.partial")


def not_written(path: Path, error: Exception) -> TraceError:
    """Say that the system refused to write a file."""
    return TraceError(path, f"can't be written: {error}", "a file that can be written")


@contextmanager
def writing_text(path: str | Path, *, force: bool = False) -> Iterator[TextIO]:
    """Give a stream of UTF-8 text to a file beside the target, which takes its place at the end.

    Line ends are written as given. Any exception, Ctrl-C included, removes the file: at the
    target there is never a half-written one.

    Raises:
        TraceError: the target can't be written (see ``require_target``).

    """
    path = require_target(path, force=force)
    partial = partial_path(path)
    try:
        with partial.open("x", encoding="utf-8", newline="") as stream:
            yield stream
        require_target(path, force=force)
        partial.replace(path)
    except OSError as error:
        raise not_written(path, error) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
