"""The first bytes of an HDF5 file: checked here, because HDF5 itself may try for minutes.

A file whose writer was killed says that it is still being written. HDF5 opens it only as one that
changes, and then reads whatever does not fit its checksum again and again. So such a file is shown
to HDF5 as if it were closed: nobody writes it any more.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Final

from simaccel.trace.opening import FORMAT, damaged_error, no_trace

SUPERBLOCK_BYTES: Final = 48
_VERSION_AND_SIZES: Final = bytes((3, 8, 8))
"""Version 3 of the format, with addresses and lengths of 8 bytes: as traces are written."""
_NAMED_WITHIN: Final = 2**20
"""The format is named in the first few thousand bytes, unless another program packed the file."""
_FLAGS_AT, _BASE, _END, _SUM = 11, slice(12, 20), slice(28, 36), slice(44, 48)
_WORD = 2**32 - 1
_START, _BLOCK_BYTES = 0xDEADBEEF, 12


def read_superblock(path: Path) -> bytes:
    """Read the first bytes of a file and verify them.

    Raises:
        TraceError: it is no HDF5 file, no trace, cut off, or changed.

    """
    with path.open("rb") as stream:
        block = stream.read(SUPERBLOCK_BYTES)
    if len(block) < SUPERBLOCK_BYTES:
        raise damaged_error(path, f"{len(block)} of {SUPERBLOCK_BYTES} bytes")
    if block[8:_FLAGS_AT] != _VERSION_AND_SIZES:
        raise no_trace(path)
    if checksum(block[: _SUM.start]) != int.from_bytes(block[_SUM], "little") or any(block[_BASE]):
        raise damaged_error(path, "its first 48 bytes do not fit their checksum")
    end, n_bytes = int.from_bytes(block[_END], "little"), path.stat().st_size
    if n_bytes < end:
        raise damaged_error(path, f"{n_bytes} of {end} bytes")
    return block


def require_named(path: Path) -> None:
    """Refuse a file that is no trace, as far as its first bytes tell, without HDF5.

    Raises:
        TraceError: as of `read_superblock`, or nothing in it names the format.
        OSError: it can't be read.

    """
    read_superblock(path)
    with path.open("rb") as stream:
        head = stream.read(_NAMED_WITHIN)
    if len(head) < _NAMED_WITHIN and FORMAT.encode() not in head:
        raise no_trace(path)


def is_open(block: bytes) -> bool:
    """Return whether the file was not closed: it is being written, or its writer was killed."""
    return bool(block[_FLAGS_AT])


def closed_superblock(block: bytes, n_bytes: int) -> bytes:
    """Return the first bytes of the same file as if it had been closed with ``n_bytes``."""
    head = bytearray(block[: _SUM.start])
    head[_FLAGS_AT] = 0
    head[_END] = n_bytes.to_bytes(8, "little")
    return bytes(head) + checksum(bytes(head)).to_bytes(4, "little")


def cut(path: Path) -> None:
    """Take from a closed file the space that its writer had taken for it, and not needed.

    Raises:
        OSError: the file can't be written.

    """
    with path.open("rb") as stream:
        block = stream.read(SUPERBLOCK_BYTES)
    os.truncate(path, int.from_bytes(block[_END], "little"))


class ClosedFile(io.FileIO):
    """A file whose first bytes are others than those on the disk."""

    def __init__(self, path: Path, head: bytes) -> None:
        super().__init__(path, "r")
        self._head = head

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read into a buffer, and put the first bytes in where they belong."""
        at = self.tell()
        found = super().readinto(buffer) or 0
        if at < len(self._head):
            part = self._head[at : at + found]
            memoryview(buffer)[: len(part)] = part
        return found


def checksum(data: bytes) -> int:
    """Return Bob Jenkins' lookup3 hash, with which HDF5 guards its metadata (initial value 0).

    >>> hex(checksum(b"Four score and seven years ago"))
    '0x17770551'
    """
    a = b = c = (_START + len(data)) & _WORD
    while len(data) > _BLOCK_BYTES:
        a, b, c = _mix(*_add_words(a, b, c, data))
        data = data[_BLOCK_BYTES:]
    return _final(*_add_words(a, b, c, data)) if data else c


def _add_words(a: int, b: int, c: int, data: bytes) -> tuple[int, int, int]:
    words = (int.from_bytes(data[at : min(at + 4, _BLOCK_BYTES)], "little") for at in (0, 4, 8))
    x, y, z = words
    return (a + x) & _WORD, (b + y) & _WORD, (c + z) & _WORD


def _rotate_word(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _WORD


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for by in (4, 6, 8, 16, 19, 4):
        a = (a - c) & _WORD ^ _rotate_word(c, by)
        c = (c + b) & _WORD
        a, b, c = b, c, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _rotate_word(b, by)) & _WORD
        a, b, c = b, c, a
    return b
