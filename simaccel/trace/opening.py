"""Checks of a trace before h5py and numpy are loaded, and the error that they raise."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simaccel.errors import SimaccelError, allows

FORMAT: Final = "simaccel trace"
"""What an attribute of every trace says."""
MAX_CYCLE: Final = 2**63 - 1
"""The last cycle that fits a row."""
SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
"""The first bytes of every HDF5 file that is written here."""


class TraceError(SimaccelError):
    """A trace can't be written or read; the message names the file and what is allowed."""

    def __init__(self, path: Path, problem: str, allowed: str) -> None:
        super().__init__(path, problem, allowed)
        self.path = path

    def __str__(self) -> str:
        path, problem, allowed = self.args
        return f"{path}: {problem}; {allows(allowed)}"


def damaged_error(path: Path, problem: str) -> TraceError:
    """Return what is wrong with a file that once was a trace."""
    return TraceError(path, f"damaged: {problem}", "an unchanged trace that was written to its end")


def no_trace(path: Path) -> TraceError:
    """Return what is wrong with an HDF5 file of others."""
    return TraceError(path, "is an HDF5 file but no trace", "a trace file")


def require_hdf5(path: Path) -> None:
    """Refuse what is no HDF5 file; no FIFO is opened, which could wait for ever.

    Raises:
        TraceError: there is no such file, or it begins otherwise.
        OSError: it can't be read.

    """
    if not path.is_file():
        raise TraceError(path, _no_file(path), "a trace file")
    with path.open("rb") as stream:
        if stream.read(len(SIGNATURE)) != SIGNATURE:
            raise TraceError(path, "is not an HDF5 file", "a trace file")


def _no_file(path: Path) -> str:
    """Return what stands where a file should."""
    if path.is_dir():
        return "is a folder"
    return "is no regular file" if path.exists() else "no such file"
