"""Attention of Llama-3.1-8B on a TPU v6e chip as kernels, on ``hwconfigs/tpu_v6e``.

32 query heads of 128 numbers on 8 key heads, which the chip repeats for its query heads, so that a
decode reads four times what the cache holds (the source's README). A kernel goes
through all sequences and heads, some at once; scores stay on the chip.

Calibrated: ``groups.start_cycles`` on the decode of one sequence with 384 keys, ``sfu.lanes`` on
the prefill of 1,984 tokens without others before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.hardware.load import load_accelerator
from validation.silicon.kernels import gemm_cycles

HEADS: Final = 32
WIDTH: Final = 128
PASSES: Final = 3
"""Of a softmax: maximum; exponential and sum; division."""


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the nanoseconds of each row: columns phase, chunk, kv, batch."""
    on = load_accelerator("tpu_v6e")
    return [1e9 * on.seconds(_cycles(on, row)) for row in rows]


def _cycles(on: Accelerator, row: Mapping[str, str]) -> int:
    chunk, keys, batch = (int(row[name]) for name in ("chunk", "kv", "batch"))
    if row["phase"] == "decode":
        return _attention(on, batch, 1, keys + 1, whole=True)
    return _attention(on, batch, chunk, keys + chunk, whole=False)


@cache
def _attention(on: Accelerator, batch: int, rows: int, keys: int, *, whole: bool) -> int:
    """Return the cycles of ``rows`` queries on ``keys``; the last keys are those of the queries.

    ``whole``: every row sees all keys; otherwise those up to its own, and as much of the work is
    done.
    """
    scores = gemm_cycles(on, rows, WIDTH, keys, batch=batch * HEADS, kept="C")
    attend = gemm_cycles(on, rows, keys, WIDTH, batch=batch * HEADS, kept="A")
    seen = rows * keys if whole else rows * (keys - rows) + rows * (rows + 1) // 2
    softmax = PASSES * -(-batch * HEADS * seen // on.sfu.lanes)
    return scores + attend - on.groups.start_cycles + softmax
