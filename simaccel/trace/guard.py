"""Guards of a trace's file around HDF5: checks before opening, disk space, interrupts, closing.

Disk space is reserved before HDF5 needs it, since a full disk inside HDF5 ends the process;
interrupts are deferred while h5py works, since its callbacks lose exceptions. When the file is
closed it is truncated and synced. A file is checked once, before HDF5 opens it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from simaccel.errors import SimaccelError, allows
from simaccel.files.targets import PARTIAL

FORMAT: Final = "simaccel trace"
"""Value of the attribute ``format`` of every trace."""
MAX_CYCLE: Final = 2**63 - 1
"""The last cycle that fits a row."""
SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
"""The first bytes of every HDF5 file that is written here."""
SUPERBLOCK_BYTES: Final = 48
_VERSION_AND_SIZES: Final = bytes((3, 8, 8))
"""Version 3 of the format, with addresses and lengths of 8 bytes: as traces are written."""
_FLAGS_AT, _END = 11, slice(28, 36)
SPARE_BYTES: Final = 2**20
"""Bytes that HDF5 may write besides the data: metadata, and blocks that it writes later."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a run; see ``simaccel.__main__``."""


class TraceError(SimaccelError):
    """A trace can't be written or read; the message names the file and what is allowed."""

    def __init__(self, path: Path, problem: str, allowed: str) -> None:
        super().__init__(path, problem, allowed)
        self.path = path

    def __str__(self) -> str:
        path, problem, allowed = self.args
        return f"{path}: {problem}; {allows(allowed)}"


def damaged_error(path: Path, problem: str) -> TraceError:
    """Return the error of a damaged trace."""
    return TraceError(path, f"damaged: {problem}", "an unchanged trace that was written to its end")


def no_trace(path: Path) -> TraceError:
    """Return the error of an HDF5 file that is no trace."""
    return TraceError(path, "is an HDF5 file but no trace", "a trace file")


def read_superblock(path: Path) -> None:
    """Read the superblock of a regular file and verify it; a FIFO, which could block, isn't opened.

    Raises:
        TraceError: there is no such file, or it is no HDF5 file, no trace, truncated or changed.
        OSError: it can't be read.
    """
    if not path.is_file():
        reason = "is no regular file" if path.exists() else "no such file"
        raise TraceError(path, "is a folder" if path.is_dir() else reason, "a trace file")
    with path.open("rb") as stream:
        block = stream.read(SUPERBLOCK_BYTES)
    if block[: len(SIGNATURE)] != SIGNATURE:
        raise TraceError(path, "is not an HDF5 file", "a trace file")
    if len(block) < SUPERBLOCK_BYTES:
        raise damaged_error(path, f"{len(block)} of {SUPERBLOCK_BYTES} bytes")
    if block[8:_FLAGS_AT] != _VERSION_AND_SIZES:
        raise no_trace(path)
    if block[_FLAGS_AT] and path.suffix != PARTIAL:
        raise damaged_error(path, f"not written to its end, nor named NAME{PARTIAL} any more")
    end, n_bytes = int.from_bytes(block[_END], "little"), path.stat().st_size
    if n_bytes < end:
        raise damaged_error(path, f"{n_bytes} of {end} bytes")


def truncate(path: Path) -> None:
    """Truncate a closed file to the space that was used, and sync it to the disk.

    Raises:
        OSError: the file can't be written.
    """
    with path.open("rb") as stream:
        block = stream.read(SUPERBLOCK_BYTES)
    with path.open("rb+") as stream:
        stream.truncate(int.from_bytes(block[_END], "little"))
        os.fsync(stream.fileno())


def reserve(path: Path, start: int, n_bytes: int) -> None:
    """Reserve disk space for ``n_bytes`` from ``start`` on and for ``SPARE_BYTES`` more.

    Raises:
        OSError: there is no space, or the file would be larger than it may be.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.posix_fallocate(descriptor, start, n_bytes + SPARE_BYTES)
    finally:
        os.close(descriptor)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer interrupts to the end of the ``with`` block.

    h5py frees its objects in callbacks of weak references, and an exception raised there is only
    printed: a Ctrl-C at such a moment would be lost and the run would go on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handled:
        signal.signal(number, lambda caught, frame: waiting.append((caught, frame)))
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
        for caught, frame in waiting[:1]:
            handled[signal.Signals(caught)](caught, frame)
