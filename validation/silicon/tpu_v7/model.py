"""GEMMs of a TPU v6e chip and a chiplet of a TPU v7: ``hwconfigs`` tpu_v6e, tpu_v7_chiplet.

A host's times hold what it takes to start a kernel and to learn of its end (``measuring``); six
rows are of the device's trace and have none of it. f32 is multiplied as bf16 (XLA's default) and
comes in four bytes. No document gives a rate for int8 on a TPU v7, so there it is that of bf16; fp8
goes at twice that there, and as bf16 on a v6e (no row has it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from validation.silicon.runs import NUMBERS, gemm, host_cycles, loaded

CHIPS: Final = {"v6e": "tpu_v6e", "v7 chiplet": "tpu_v7_chiplet"}


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of each GEMM: columns chip, timing, dtype, M, N, K."""
    return [_microseconds(row) for row in rows]


def _microseconds(row: Mapping[str, str]) -> float:
    on = loaded(CHIPS[row["chip"]])
    cycles = gemm(on, int(row["M"]), int(row["K"]), int(row["N"]), NUMBERS[row["dtype"]])
    if row["timing"] == "host":
        cycles += host_cycles(on)
    return 1e6 * on.seconds(cycles)
