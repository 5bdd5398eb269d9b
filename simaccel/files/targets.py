"""Output files, which are written whole or not at all."""

from __future__ import annotations

import os
import re
import stat
import sys
from binascii import crc32
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

from simaccel.errors import Fault, InputError

STDOUT: Final = "-"
"""The path of standard output, for text; a file of this name is ``./-``."""
PARTIAL: Final = ".partial"
_LONGEST_NAME = 200
"""The most bytes of a target's name in its temporary file's name, which has a limit of 255."""
_LEFT = re.compile(rf"\.([0-9]+)-([0-9a-f]{{8}})-[0-9a-f]{{8}}\{PARTIAL}$")
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
    """Refuse a path that can't be written, before any work is done.

    ``inputs``: the files that the command reads, none of which is ever replaced. For ``text`` the
    path ``-`` is standard output.

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
        folder, named = real_path(path).parent, str(Path(path).parent)
        if not folder.is_dir():
            raise _refuse_target(path, "output folder", named, "an existing folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise _refuse_target(path, "output folder", named, "a writable folder")
        _require_no_input(path, inputs)
    except (OSError, ValueError) as error:
        raise write_fault(path, error) from None
    if exists and not force:
        raise _refuse_target(path, "output", "a file that exists", "a new file, or --force")
    return Path(path)


def require_distinct(targets: Iterable[tuple[str, str | Path | None]]) -> None:
    """Refuse two options with one output file.

    Raises:
        InputError: the message names the later option.
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


def require_parquet(option: str, otherwise: str) -> None:
    """Refuse Parquet without pyarrow; ``otherwise``: the option to use instead.

    Raises:
        InputError: pyarrow is not installed; the message says how to install it.
    """
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - optional
    except ImportError:
        allowed = f"pip install 'simaccel[parquet]', which writes it, or {otherwise}"
        raise InputError([Fault("command line", option, "no pyarrow", allowed)]) from None


def real_path(path: str | Path) -> Path:
    """Return the path behind symbolic links, as the file is replaced and not the link."""
    return Path(os.path.realpath(path))


def partial_path(path: Path) -> Path:
    """Return the path of the temporary file beside ``path``, with process and host in its name."""
    writer = f"{os.getpid()}-{_host()}-{os.urandom(4).hex()}"
    return path.with_name(f"{_stem(path)}.{writer}{PARTIAL}")


def is_left(name: str) -> bool:
    """Return whether a name is that of a temporary file of any process."""
    return _LEFT.search(name) is not None


def clear_left(path: Path) -> None:
    """Remove the temporary files of ``path`` that killed processes of this host left."""
    stem = _stem(path)
    beside = (file for file in path.parent.iterdir() if file.name.startswith(stem))
    _remove_left(file for file in beside if _LEFT.fullmatch(file.name, len(stem)))


def clear_left_in(folder: Path) -> None:
    """Remove the temporary files in a folder, and in those below, as `clear_left` does."""
    _remove_left(folder.rglob(f"*{PARTIAL}"))


def _remove_left(paths: Iterable[Path]) -> None:
    for path in paths:
        writer = _LEFT.search(path.name)
        if writer and writer[2] == _host() and not _lives(int(writer[1])):
            path.unlink(missing_ok=True)


def _stem(path: Path) -> str:
    return os.fsdecode(os.fsencode(path.name)[:_LONGEST_NAME])


def _host() -> str:
    import platform  # noqa: PLC0415 - nothing that writes no file waits for it

    return f"{crc32(platform.node().encode()):08x}"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def write_fault(path: str | Path, error: Exception, what: str = "a file") -> InputError:
    """Return the error for a file (``what``: or a folder) that the system could not write."""
    reason = getattr(error, "strerror", None) or str(error)
    found = _REASON.search(reason)
    return _refuse_target(
        path, "output", found[1] if found else reason, f"{what} that can be written"
    )


@contextmanager
def writing(
    path: str | Path, *, force: bool = False, inputs: Iterable[str | Path] = ()
) -> Iterator[Path]:
    """Yield a temporary path beside the target; its file replaces the target at the end.

    Any exception, Ctrl-C included, removes the file: the target is never half-written.

    Raises:
        InputError: the target can't be written (see ``require_target``).
    """
    inputs = tuple(inputs)
    require_target(path, force=force, inputs=inputs)
    real = real_path(path)
    partial = partial_path(real)
    try:
        clear_left(real)
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
    """Yield a stream of UTF-8 text that becomes the target, with line ends unchanged (``writing``).

    The path ``-`` is standard output.

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
    """Refuse a path that exists and is no regular file; return whether it exists."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    kinds = [kind for is_kind, kind in _KINDS if is_kind(mode)]
    if kinds or not stat.S_ISREG(mode):
        raise _refuse_target(path, "output", [*kinds, "no file"][0], "the path of a file")
    return True


def _require_no_input(path: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuse a path that is one of the inputs, also by a link or as the same inode."""
    for one in inputs:
        same = real_path(path) == real_path(one)
        with suppress(OSError):
            same = same or Path(path).samefile(one)
        if same:
            allowed = f"another file than {one}, which is read"
            raise _refuse_target(path, "output", "an input of this command", allowed)


def _refuse_target(path: str | Path, field: str, value: str, allowed: str) -> InputError:
    return InputError([Fault(str(path) or "command line", field, value, allowed)])
