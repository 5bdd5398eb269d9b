"""Llama-3.1-8B on a TPU v6e chip as kernels, on ``hwconfigs/tpu_v6e``.

32 query heads of 128 numbers on 8 key heads, which the chip repeats for its query heads, so that
attention reads four times what the cache holds (the source's README). Queries come in blocks as
long as an array has rows, each of which goes over the keys that its last row sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from validation.silicon.kernels import attention_cycles

HEADS: Final = 32
WIDTH: Final = 128


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the nanoseconds of attention of each row: columns phase, chunk, kv, batch."""
    on = load_accelerator("tpu_v6e")
    return [1e9 * on.seconds(_attention(on, row)) for row in rows]


def _attention(on: Accelerator, row: Mapping[str, str]) -> int:
    chunk, keys, batch = (int(row[name]) for name in ("chunk", "kv", "batch"))
    inside, start = _inside(), on.groups.start_cycles
    if row["phase"] == "decode":
        return start + _kernel(inside, batch, 1, keys)
    side, total = on.array.rows, start
    for first in range(0, chunk, side):
        some = min(side, chunk - first)
        total += _kernel(inside, batch, some, keys + first + some)
    return total


@cache
def _inside() -> Accelerator:
    return load_accelerator("tpu_v6e", ["groups.start_cycles=0"])


@cache
def _kernel(on: Accelerator, batch: int, rows: int, keys: int) -> int:
    return attention_cycles(on, batch * HEADS, rows, keys, WIDTH)
