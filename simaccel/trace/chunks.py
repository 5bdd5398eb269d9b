"""Blocks of rows that wait to be written: filled by row or by column, packed as HDF5 packs them.

A chunk of each column is shuffled, deflated and has a checksum. HDF5 does the same, but
column by column, in twice the time: here rows follow one another, so that a single transposition
shuffles all columns.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from simaccel.machine.accounts import NO_WAIT
from simaccel.trace.schema import EVENT, Cycles, Events
from simaccel.trace.store import LEVEL, Growing
from simaccel.units import Cause

_BUSY_IDLE: Final = np.array([Cause.BUSY, Cause.IDLE], np.uint8)
_MODULUS = 0xFFFF
_SIZE, _LANE = EVENT.itemsize, EVENT["lane"].itemsize
_OFFSETS: Final = {name: int(field[1]) for name, field in (EVENT.fields or {}).items()}


def edges_of(start: int, reported: int, uses: Sequence[int]) -> tuple[Cycles, Cycles]:
    """Return the edges of a channel's alternating uses and pauses, and the service of each.

    Arguments are those of ``Listener.note_service``. Only the first use and the last pause may
    take no cycles.

    >>> edges, cycles = edges_of(2, 10, [4, 4, 12, 5, 8, 13])  # after no pause the use goes on
    >>> edges.tolist(), cycles.tolist()
    ([2, 5, 8], [3, 0])
    """
    table = np.array(uses, dtype=np.int64).reshape(-1, 3)
    goes_on = table[:-1, 0] == table[:-1, 1]
    if goes_on.any():
        table = table[np.append(~goes_on, True)]
    edges, cycles = np.zeros(2 * len(table) + 1, np.int64), np.zeros(2 * len(table), np.int64)
    edges[0], cycles[0] = start, table[0, 2] - reported
    edges[1::2], edges[2::2] = table[:, 0], table[:, 1]
    cycles[2::2] = table[1:, 2] - table[:-1, 2]
    return edges, cycles


class LastRow:
    """The last row of one lane, which the next interval extends if it is the same activity."""

    __slots__ = ("cause", "end", "held", "ids", "number", "row", "served", "site", "wait")

    def __init__(self, number: int) -> None:
        self.number = number
        self.row = -1
        self.end = 0
        self.cause = Cause.IDLE
        self.wait = NO_WAIT
        self.ids = (0, 0, 0)
        """The numbers of the wait's texts."""
        self.site = 0
        self.held = 0
        self.served = 0


class EventBlock:
    """The rows that are written next, and their columns."""

    __slots__ = ("_in_turn", "_turned", "bytes", "causes", "ends", "rows", "served", "starts")

    def __init__(self, n_rows: int) -> None:
        self.rows: Events = np.zeros(n_rows, EVENT)
        self.bytes: memoryview = self.rows.view(np.uint8).data
        self.starts, self.ends = self.rows["start"], self.rows["end"]
        self.causes, self.served = self.rows["cause"], self.rows["served"]
        self._in_turn = np.tile(_BUSY_IDLE, n_rows // 2 + 1)
        self._turned = np.zeros((EVENT.itemsize, n_rows), np.uint8)

    def put_uses(self, at: int, lane: int, first: int, edges: Cycles, served: Cycles) -> None:
        """Fill rows from ``at`` on with a channel's alternating uses and pauses.

        Row i lasts from edge i to edge i + 1. ``first`` is even if the first row is a use.
        """
        last = at + len(served)
        row = lane.to_bytes(_LANE, "little").ljust(_SIZE, b"\0")
        self.bytes[at * _SIZE : last * _SIZE] = row * len(served)
        self.starts[at:last] = edges[:-1]
        self.ends[at:last] = edges[1:]
        self.causes[at:last] = self._in_turn[first % 2 : first % 2 + len(served)]
        self.served[at:last] = served

    def write(self, columns: Mapping[str, Growing], used: int, first: int) -> None:
        """Write the first ``used`` rows to the columns' chunk at row ``first``.

        ``columns``: open datasets by name, made with DEFLATE, shuffle and Fletcher's checksum.
        The rest of the chunk becomes zero.
        """
        turned = self._turned
        turned[:] = self.rows.view(np.uint8).reshape(len(self.rows), EVENT.itemsize).T
        turned[:, used:] = 0
        for name, column in columns.items():
            at = _OFFSETS[name]
            packed = zlib.compress(turned[at : at + EVENT[name].itemsize].data, LEVEL)
            column.set_extent((first + used,))
            column.write_direct_chunk((first,), packed + checksum(packed))


def checksum(data: bytes) -> bytes:
    """Return Fletcher's checksum as HDF5 appends it: two sums over big-endian 16-bit words.

    Sums are in ones' complement: 0 if all words are 0, else 1 to 65,535.

    >>> checksum(b"abcde").hex()  # 0xF04FC729 with words of the other byte order
    'c729f04f'
    """
    words = np.frombuffer(data + bytes(len(data) % 2), ">u2").astype(np.int64)
    sums = int(words.sum()), int(words @ np.arange(len(words), 0, -1))
    low, high = ((n - 1) % _MODULUS + 1 if n else 0 for n in sums)
    return (high << 16 | low).to_bytes(4, "little")
