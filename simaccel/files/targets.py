"""Files that are written whole or not at all: where they may stand, and how they get there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TextIO

from simaccel.errors import Fault, InputError


def require_target(path: str | Path, *, force: bool = False) -> Path:
    """Refuse a path that can't be written, before anything is done for it.

    Raises:
        InputError: it is a folder, its folder is missing or can't be written, or it exists and
            ``force`` is not given.

    """
    path = Path(path)
    folder = path.parent
    if path.is_dir():
        raise _refused(path, "output", "a folder", "the path of a file")
    if not folder.is_dir():
        raise _refused(path, "output folder", str(folder), "an existing folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refused(path, "output folder", str(folder), "a writable folder")
    if path.exists() and not force:
        raise _refused(path, "output", "a file that exists", "a new file, or --force")
    return path


def partial_path(path: Path) -> Path:
    """Name the file beside ``path`` that is written first."""
    return path.with_name(f"{path.name}.{token_hex(4)}.partial")


def not_written(path: Path, error: Exception) -> InputError:
    """Say that the system refused to write a file."""
    return _refused(path, "output", str(error), "a file that can be written")


@contextmanager
def writing(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Give a path beside the target; the file written there takes the target's place at the end.

    Any exception, Ctrl-C included, removes the file: at the target there is never half of one.

    Raises:
        InputError: the target can't be written (see ``require_target``).

    """
    path = require_target(path, force=force)
    partial = partial_path(path)
    try:
        yield partial
        require_target(path, force=force)
        partial.replace(path)
    except OSError as error:
        raise not_written(path, error) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def writing_text(path: str | Path, *, force: bool = False) -> Iterator[TextIO]:
    """Give a stream of UTF-8 text, line ends as given, to what becomes the target (``writing``).

    Raises:
        InputError: the target can't be written (see ``require_target``).

    """
    with (
        writing(path, force=force) as partial,
        partial.open("x", encoding="utf-8", newline="") as stream,
    ):
        yield stream


def _refused(path: Path, field: str, value: str, allowed: str) -> InputError:
    return InputError([Fault(str(path), field, value, allowed)])
