"""The GEMMs of JAX's Pallas guide on a TPU v5e chip, on ``hwconfigs/tpu_v5e``; a host's times.

A Pallas kernel says its blocks (``pallas 512x1024x1024``: rows, depth and columns); those of XLA
are not known: these rows are default runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from validation.silicon.booked import START, book
from validation.silicon.kernels import (
    NUMBER_OF,
    NUMBERS,
    loaded,
    run_cycles,
    streamed_gemm_cycles,
)

HOST_CYCLES: Final = 154_000
"""Of a host that starts a timed call: 103 us, calibrated on the GEMM of 1,024^3 by XLA."""


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the seconds of each GEMM: columns kernel, M, K, N, and dtype (bf16 without)."""
    return [_seconds(row) for row in rows]


def _seconds(row: Mapping[str, str]) -> float:
    sizes = int(row["M"]), int(row["K"]), int(row["N"])
    kernel, _, text = row["kernel"].partition(" ")
    dtype = row.get("dtype", "bf16")
    if kernel != "pallas":
        on = loaded("tpu_v5e")
        book(START, HOST_CYCLES)
        return on.seconds(HOST_CYCLES + run_cycles(on, *sizes, NUMBER_OF[dtype]))
    on = loaded("tpu_v5e", "groups.overlap=false", f"groups.start_cycles={HOST_CYCLES}")
    m, k, n = map(int, text.split("x"))
    n_bytes, number = NUMBERS[dtype]
    return on.seconds(
        streamed_gemm_cycles(on, sizes, n_bytes=n_bytes, number=number, block=(m, k, n))
    )
