"""Llama-3.1-8B on a TPU v6e chip as kernels, on ``hwconfigs/tpu_v6e``.

32 query heads of 128 numbers on 8 key heads, which the chip repeats for its query heads. Queries of
a prefill come in blocks as long as an array has rows, each of which goes over the keys that its
last row sees. In decode repeated keys and values lie in VMEM where they fit: the vector unit writes
them there first, slower than they come. Where they don't fit, attention reads four times what the
cache holds (the source's README), while it works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from simaccel.hardware import Accelerator
from validation.silicon.booked import START, book, remembered
from validation.silicon.kernels import ON_CHIP, attention_cycles, loaded, vector_cycles

HEADS: Final = 32
WIDTH: Final = 128
STARTED: Final = ("groups.overlap=false", "groups.start_cycles=4600")
"""An attention alone, as it was measured: what starts it is in its time."""
VMEM: Final = "memories.cache.bandwidth_bytes_per_second=unlimited"
SCOPED_BYTES: Final = 16 * 2**20
"""Of VMEM, what XLA leaves to the kernels themselves (its default limit of scoped memory)."""
TILE_ROWS: Final = 16
"""A row of bf16 numbers takes the room of so many (tiles of 16 x 128, documentation of Pallas)."""


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the nanoseconds of attention of each row: columns phase, chunk, kv, batch.

    Raises:
        ValueError: a prefill of no token, a decode of no key.

    """
    on = loaded("tpu_v6e", *STARTED)
    return [1e9 * on.seconds(_attention(on, row)) for row in rows]


def _attention(on: Accelerator, row: Mapping[str, str]) -> int:
    chunk, keys, batch = (int(row[name]) for name in ("chunk", "kv", "batch"))
    inside, start = _inside(), on.groups.start_cycles
    book(START, start)
    if row["phase"] == "decode":
        if keys < 1:
            raise ValueError("decode without keys; allowed: kv from 1")
        return start + _decode(batch, keys)
    if chunk < 1:
        raise ValueError("prefill of no token; allowed: chunk from 1")
    side, total = on.array.rows, start
    for first in range(0, chunk, side):
        rows = min(side, chunk - first)
        total += _kernel(inside, batch, rows, keys + first + rows)
    return total


def _decode(batch: int, keys: int) -> int:
    """Return the cycles of one query of each of ``batch`` sequences on its ``keys``."""
    on = _inside()
    repeated = 2 * 2 * batch * keys * HEADS * WIDTH  # keys and values, of two bytes
    others = 2 * 2 * batch * HEADS * TILE_ROWS * WIDTH  # queries and results
    if repeated + others > (on.buffer.capacity_bytes or 0) - SCOPED_BYTES:
        return _kernel(on, batch, 1, keys)
    written = vector_cycles(_inside(*ON_CHIP), repeated // 2, reads=1, passes=1, n_bytes=2)
    return written + _kernel(_inside(VMEM), batch, 1, keys, on_chip=True)


def _inside(*settings: str) -> Accelerator:
    return loaded("tpu_v6e", "groups.overlap=false", *settings)


@remembered
def _kernel(on: Accelerator, batch: int, rows: int, keys: int, *, on_chip: bool = False) -> int:
    return attention_cycles(on, batch * HEADS, rows, keys, WIDTH, on_chip=on_chip)
