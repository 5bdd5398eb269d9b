"""The GEMMs of JAX's Pallas guide on a TPU v5e chip, on ``hwconfigs/tpu_v5e``; a host's times.

A Pallas kernel says its blocks (``pallas 512x1024x1024``: rows, depth and columns); those of XLA
are not known: these rows are default runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simaccel.numbers import BITS, BYTE, TOLD_APART
from validation.silicon.kernels import ALONE, streamed_gemm_cycles
from validation.silicon.runs import NUMBERS, gemm, host_cycles, loaded


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the seconds of each GEMM: columns kernel, M, K, N, and dtype (bf16 without)."""
    return [_seconds(row) for row in rows]


def _seconds(row: Mapping[str, str]) -> float:
    sizes = int(row["M"]), int(row["K"]), int(row["N"])
    kernel, _, text = row["kernel"].partition(" ")
    number = NUMBERS[row.get("dtype", "bf16")]
    if kernel != "pallas":
        on = loaded("tpu_v5e")
        return on.seconds(host_cycles(on) + gemm(on, *sizes, number))
    on = loaded("tpu_v5e", *ALONE)
    m, k, n = map(int, text.split("x"))
    cycles = streamed_gemm_cycles(
        on,
        sizes,
        n_bytes=BITS[number] // BYTE,
        number=number if number in TOLD_APART else "",
        block=(m, k, n),
    )
    return on.seconds(host_cycles(on) + cycles)
