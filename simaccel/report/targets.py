"""Files that reports write: refused before any work where they can't be, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

from simaccel.errors import Fault, InputError


def require_target(path: str | Path, *, force: bool = False) -> Path:
    """Refuse a path that can't be written, before anything is simulated.

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


def write_text(path: str | Path, text: str, *, force: bool = False) -> Path:
    """Write a text file in one step: at the target there is never a part of it.

    Raises:
        InputError: see ``require_target``, or the disk refuses.

    """
    return write_whole(
        path, lambda part: part.write_text(text, encoding="utf-8", newline=""), force=force
    )


def write_whole(path: str | Path, write: Callable[[Path], object], *, force: bool = False) -> Path:
    """Let ``write`` write a hidden file beside the target, which takes its place when whole.

    Raises:
        InputError: see ``require_target``, or the disk refuses.

    """
    path = require_target(path, force=force)
    partial = path.with_name(f".{path.name}.{token_hex(4)}.partial")
    try:
        write(partial)
        partial.replace(path)
    except OSError as error:
        raise _refused(path, "output", str(error), "a file that can be written") from None
    finally:
        partial.unlink(missing_ok=True)
    return path


def _refused(path: Path, field: str, value: str, allowed: str) -> InputError:
    return InputError([Fault(str(path), field, value, allowed)])
