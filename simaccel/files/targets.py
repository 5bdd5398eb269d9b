"""Files that are written whole or not at all: where they may stand, and how they get there."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final, TextIO

from simaccel.errors import Fault, InputError

STDOUT: Final = "-"
"""The path that means standard output, where text is written; a file of this name is ``./-``."""
PARTIAL: Final = ".partial"
_LONGEST_NAME = 200
"""Bytes of a target's name that the file written first takes over; with its ending, below 255."""
_REASON = re.compile(r"error message = '([^']*)'")
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def require_target(
    path: str | Path, *, force: bool = False, inputs: Iterable[str | Path] = (), text: bool = False
) -> Path:
    """Refuse a path that can't be written, before anything is done for it.

    ``inputs`` are the files that are read for what is written: none of them is ever replaced.
    Where ``text`` is written, the text ``-`` is standard output.

    Raises:
        InputError: it is no regular file or one of the inputs, its folder is missing or can't be
            written, its name is too long, or it exists and ``force`` is not given.

    """
    if path == STDOUT and not text:
        raise _refuse_target(
            path, "output", STDOUT, "the path of a file; what is written is no text"
        )
    if path == STDOUT:
        return Path(path)
    if path in {"", Path()}:
        raise _refuse_target(path, "output", str(path), "the path of a file")
    try:
        exists = _require_regular(Path(path))
        _require_folder(path)
        _require_no_input(path, inputs)
    except (OSError, ValueError) as error:
        raise write_fault(path, error) from None
    if exists and not force:
        raise _refuse_target(path, "output", "a file that exists", "a new file, or --force")
    return Path(path)


def require_distinct(targets: Iterable[tuple[str, str | Path | None]]) -> None:
    """Refuse two options that name one file.

    Raises:
        InputError: names the later one.

    """
    first: dict[Path | str, str] = {}
    for option, path in targets:
        if path is None:
            continue
        place = path if path == STDOUT else real_path(path)
        if place in first:
            allowed = f"another file than that of {first[place]}"
            raise InputError([Fault("command line", option, str(path), allowed)])
        first[place] = option


def real_path(path: str | Path) -> Path:
    """Follow links: what is behind one is replaced, and not the link."""
    return Path(os.path.realpath(path))


def partial_path(path: Path) -> Path:
    """Name the file beside ``path`` that is written first."""
    name = os.fsdecode(os.fsencode(path.name)[:_LONGEST_NAME])
    return path.with_name(f"{name}.{token_hex(4)}{PARTIAL}")


def write_fault(path: str | Path, error: Exception) -> InputError:
    """Return the fault of a file that the system refused to write."""
    reason = getattr(error, "strerror", None) or str(error)
    found = _REASON.search(reason)
    return _refuse_target(
        path, "output", found[1] if found else reason, "a file that can be written"
    )


@contextmanager
def writing(
    path: str | Path, *, force: bool = False, inputs: Iterable[str | Path] = ()
) -> Iterator[Path]:
    """Return a path beside the target; the file written there takes the target's place at the end.

    Any exception, Ctrl-C included, removes the file: at the target there is never half of one.

    Raises:
        InputError: the target can't be written (see ``require_target``).

    """
    inputs = tuple(inputs)
    require_target(path, force=force, inputs=inputs)
    real = real_path(path)
    partial = partial_path(real)
    try:
        yield partial
        require_target(path, force=force, inputs=inputs)
        partial.replace(real)
    except OSError as error:
        raise write_fault(path, error) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def writing_text(
    path: str | Path, *, force: bool = False, inputs: Iterable[str | Path] = ()
) -> Iterator[TextIO]:
    """Return a stream of UTF-8 text, line ends as given, to what becomes the target (``writing``).

    The text ``-`` is standard output.

    Raises:
        InputError: the target can't be written (see ``require_target``).

    """
    if path == STDOUT:
        yield sys.stdout
        sys.stdout.flush()
        return
    with (
        writing(path, force=force, inputs=inputs) as partial,
        partial.open("x", encoding="utf-8", newline="") as stream,
    ):
        yield stream


def _require_regular(path: Path) -> bool:
    """Refuse what is there and no regular file; say whether something is there."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    kinds = [kind for is_kind, kind in _KINDS if is_kind(mode)]
    if kinds or not stat.S_ISREG(mode):
        raise _refuse_target(path, "output", [*kinds, "no file"][0], "the path of a file")
    return True


def _require_folder(path: str | Path) -> None:
    folder, named = real_path(path).parent, str(Path(path).parent)
    if not folder.is_dir():
        raise _refuse_target(path, "output folder", named, "an existing folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refuse_target(path, "output folder", named, "a writable folder")


def _require_no_input(path: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuse a file that is read: by its path, through links, or as another name of its inode."""
    for one in inputs:
        same = real_path(path) == real_path(one)
        with suppress(OSError):
            same = same or Path(path).samefile(one)
        if same:
            allowed = f"another file than {one}, which is read"
            raise _refuse_target(path, "output", "an input of this command", allowed)


def _refuse_target(path: str | Path, field: str, value: str, allowed: str) -> InputError:
    return InputError([Fault(str(path) or "command line", field, value, allowed)])
