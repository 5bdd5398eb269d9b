"""Disk space for a trace, taken before HDF5 needs it.

HDF5 does not survive a disk that is full: what it can't write it keeps, fails to close the file,
and ends the process when it forgets it. So the writer asks the system for space first.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SPARE_BYTES: Final = 2**20
"""What HDF5 may write beside the data: its metadata, and blocks that it writes later."""


def create(path: Path, n_bytes: int) -> None:
    """Make an empty file where at least so many bytes can be written.

    Raises:
        OSError: it exists, or there is no space.

    """
    path.open("xb").close()
    take(path, 0, n_bytes)
    os.truncate(path, 0)


def take(path: Path, start: int, n_bytes: int) -> None:
    """Allocate the blocks of so many bytes from ``start`` on, and ``SPARE_BYTES``.

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
