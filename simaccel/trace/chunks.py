"""Blocks of rows: many uses of a channel at once, and a block as HDF5 packs it.

A chunk of each column is shuffled, deflated and has a checksum. HDF5 does the same behind its
interface, column by column, in twice the time: rows lie one after the other here, so that one
transposition shuffles all columns.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import numpy as np

from simaccel.machine.accounts import Cause
from simaccel.trace.schema import EVENT, USE, Events

LEVEL: Final = 1
"""Of DEFLATE: files are a fifth larger than by default, and take half as long."""
_BUSY, _IDLE = int(Cause.BUSY), int(Cause.IDLE)
_FEW = 12
"""Uses that are put down faster one by one."""
_MODULUS = 0xFFFF
_OFFSETS: Final = {name: int(field[1]) for name, field in (EVENT.fields or {}).items()}


def put_uses(rows: Events, lane: int, start: int, use: int, pause: int, cycles: int) -> None:
    """Fill rows with uses of a channel from ``start`` on: each is a row, and the pause after it.

    A use takes ``use`` cycles, of which ``cycles`` are service.
    """
    times, period = len(rows) // 2, use + pause
    if times <= _FEW:
        buffer: memoryview = rows.data
        for at in range(0, rows.nbytes, USE.size):
            idle, end = start + use, start + period
            USE.pack_into(buffer, at, lane, start, idle, _BUSY, cycles, lane, idle, end, _IDLE)
            start = end
        return
    pair = USE.pack(lane, 0, 0, _BUSY, cycles, lane, 0, 0, _IDLE)
    rows.view(np.uint8).data[:] = pair * times
    begun = np.arange(start, start + times * period, period)
    starts, ends = rows["start"], rows["end"]
    starts[::2] = begun
    ends[::2] = starts[1::2] = begun + use
    ends[1::2] = begun + period


def write_block(columns: dict[str, Any], rows: Events, used: int, first: int) -> None:
    """Write the first ``used`` rows of a block to the columns' chunk at row ``first``.

    ``columns`` are open data sets by name, made with DEFLATE, shuffle and Fletcher's checksum. The
    rest of the chunk is zero.
    """
    turned = rows.view(np.uint8).reshape(len(rows), EVENT.itemsize).T.copy()
    turned[:, used:] = 0
    for name, column in columns.items():
        at = _OFFSETS[name]
        packed = zlib.compress(turned[at : at + EVENT[name].itemsize].data, LEVEL)
        column.resize(first + used, axis=0)
        column.id.write_direct_chunk((first,), packed + checksum(packed))


def checksum(data: bytes) -> bytes:
    """Return Fletcher's checksum as HDF5 appends it: big-endian words of 16 bits, two sums.

    The sums are those of ones' complement: 0 of zeros only, else 1 to 65,535.

    >>> checksum(b"abcde").hex()  # 0xF04FC729 with words of the other byte order
    'c729f04f'
    """
    words = np.frombuffer(data + bytes(len(data) % 2), ">u2").astype(np.int64)
    sums = int(words.sum()), int((words * np.arange(len(words), 0, -1)).sum())
    low, high = ((n - 1) % _MODULUS + 1 if n else 0 for n in sums)
    return (high << 16 | low).to_bytes(4, "little")
