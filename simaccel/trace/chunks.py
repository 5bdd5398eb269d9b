"""Blocks of rows: many uses of a channel at once, and a block as HDF5 packs it.

A chunk of each column is shuffled, deflated and has a checksum. HDF5 does the same behind its
interface, column by column, in twice the time: rows lie one after the other here, so that one
transposition shuffles all columns.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

import numpy as np

from simaccel.machine.accounts import Cause
from simaccel.trace.datasets import LEVEL, Growing
from simaccel.trace.schema import EVENT, ROW, USE, Events

_BUSY, _IDLE = int(Cause.BUSY), int(Cause.IDLE)
_FEW = 8
"""Uses that are put down faster one by one."""
_MODULUS = 0xFFFF
_SIZE, _PAIR = ROW.size, USE.size
_put_use = USE.pack_into
_OFFSETS: Final = {name: int(field[1]) for name, field in (EVENT.fields or {}).items()}


class Block:
    """The rows that are written next, and their columns."""

    __slots__ = ("_steps", "bytes", "ends", "rows", "served", "starts")

    def __init__(self, n_rows: int) -> None:
        self.rows: Events = np.zeros(n_rows, EVENT)
        self.bytes: memoryview = self.rows.view(np.uint8).data
        self.starts, self.ends = self.rows["start"], self.rows["end"]
        self.served = self.rows["served"]
        self._steps = np.arange(n_rows // 2 + 1)

    def put_uses(
        self, at: int, lane: int, start: int, use: int, pause: int, cycles: int, times: int
    ) -> None:
        """Put uses of a channel from row ``at`` on: each is a row, and the pause after it.

        A use takes ``use`` cycles, of which ``cycles`` are service.
        """
        here, period = at * _SIZE, use + pause
        if times <= _FEW:
            put, into = _put_use, self.bytes
            for begun in range(start, start + times * period, period):
                idle, end = begun + use, begun + period
                put(into, here, lane, begun, idle, _BUSY, cycles, lane, idle, end, _IDLE)
                here += _PAIR
            return
        last, pair = at + 2 * times, USE.pack(lane, 0, 0, _BUSY, cycles, lane, 0, 0, _IDLE)
        self.bytes[here : last * _SIZE] = pair * times
        starts = self._steps[:times] * period + start
        self.starts[at:last:2] = starts
        self.ends[at:last:2] = self.starts[at + 1 : last : 2] = starts + use
        self.ends[at + 1 : last : 2] = starts + period


def write_block(columns: Mapping[str, Growing], rows: Events, used: int, first: int) -> None:
    """Write the first ``used`` rows of a block to the columns' chunk at row ``first``.

    ``columns`` are open data sets by name, made with DEFLATE, shuffle and Fletcher's checksum. The
    rest of the chunk is zero.
    """
    turned = rows.view(np.uint8).reshape(len(rows), EVENT.itemsize).T.copy()
    turned[:, used:] = 0
    for name, column in columns.items():
        at = _OFFSETS[name]
        packed = zlib.compress(turned[at : at + EVENT[name].itemsize].data, LEVEL)
        column.set_extent((first + used,))
        column.write_direct_chunk((first,), packed + checksum(packed))


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
