"""The GEMMs of JAX's Pallas guide on a TPU v5e chip, on ``hwconfigs/tpu_v5e``; a host's times.

A Pallas kernel says its blocks (``pallas 512x1024x1024``: rows, depth and columns); those of XLA
are not known, and are chosen as `streamed_gemm_cycles` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simaccel.hardware import Accelerator
from validation.silicon.kernels import NUMBERS, loaded, streamed_gemm_cycles


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the seconds of each GEMM: columns kernel, M, K, N, and dtype (bf16 without)."""
    on = loaded("tpu_v5e")
    return [_seconds(on, row) for row in rows]


def _seconds(on: Accelerator, row: Mapping[str, str]) -> float:
    sizes = int(row["M"]), int(row["K"]), int(row["N"])
    kernel, _, text = row["kernel"].partition(" ")
    m, k, n = map(int, text.split("x")) if kernel == "pallas" else sizes
    block = (m, k, n) if kernel == "pallas" else None
    n_bytes, number = NUMBERS[row.get("dtype", "bf16")]
    return on.seconds(streamed_gemm_cycles(on, sizes, n_bytes=n_bytes, number=number, block=block))
