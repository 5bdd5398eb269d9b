"""Blocks of rows: many uses of a channel at once, and a block as HDF5 packs it.

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
from simaccel.trace.datasets import LEVEL, Growing
from simaccel.trace.schema import EVENT, Cycles, Events
from simaccel.units import Cause

_BUSY_IDLE: Final = np.array([Cause.BUSY, Cause.IDLE], np.uint8)
_MODULUS = 0xFFFF
_SIZE, _LANE = EVENT.itemsize, EVENT["lane"].itemsize
_OFFSETS: Final = {name: int(field[1]) for name, field in (EVENT.fields or {}).items()}


def edges_of(start: int, told: int, uses: Sequence[int]) -> tuple[Cycles, Cycles]:
    """Return where the uses of a channel and the pauses begin and end, and the service of each.

    Only the first use and the last pause may take no cycles. Arguments as a listener hears them.

    >>> edges, cycles = edges_of(2, 10, [4, 4, 12, 5, 8, 13])  # after no pause the use goes on
    >>> edges.tolist(), cycles.tolist()
    ([2, 5, 8], [3, 0])
    """
    table = np.array(uses, dtype=np.int64).reshape(-1, 3)
    goes_on = table[:-1, 0] == table[:-1, 1]
    if goes_on.any():
        table = table[np.append(~goes_on, True)]
    edges, cycles = np.zeros(2 * len(table) + 1, np.int64), np.zeros(2 * len(table), np.int64)
    edges[0], cycles[0] = start, table[0, 2] - told
    edges[1::2], edges[2::2] = table[:, 0], table[:, 1]
    cycles[2::2] = table[1:, 2] - table[:-1, 2]
    return edges, cycles


class LastRow:
    """The last row of one lane: what it says and whether it may still grow."""

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
        """Put rows of a channel from row ``at`` on, between one edge and the next.

        Uses and pauses take turns; ``first`` is even where the first row is a use.
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

        ``columns`` are open data sets by name, made with DEFLATE, shuffle and Fletcher's checksum.
        The rest of the chunk is zero.
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
    """Return Fletcher's checksum as HDF5 appends it: big-endian words of 16 bits, two sums.

    The sums are those of ones' complement: 0 of zeros only, else 1 to 65,535.

    >>> checksum(b"abcde").hex()  # 0xF04FC729 with words of the other byte order
    'c729f04f'
    """
    words = np.frombuffer(data + bytes(len(data) % 2), ">u2").astype(np.int64)
    sums = int(words.sum()), int(words @ np.arange(len(words), 0, -1))
    low, high = ((n - 1) % _MODULUS + 1 if n else 0 for n in sums)
    return (high << 16 | low).to_bytes(4, "little")
