"""GEMMs of a TPU v6e chip and a chiplet of a TPU v7: ``hwconfigs`` tpu_v6e, tpu_v7_chiplet.

A host's times hold what it takes to start a kernel and to learn of its end; six rows are of the
device's trace and have none of it. f32 is multiplied as bf16 (XLA's default) and comes in four
bytes. No document gives a rate for int8 on a TPU v7, so there it is that of bf16; fp8 goes at twice
that there, and as bf16 on a v6e (no row has it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from simaccel.hardware import Accelerator
from validation.silicon.kernels import NUMBERS, loaded, streamed_gemm_cycles

CHIPS: Final = {"v6e": "tpu_v6e", "v7 chiplet": "tpu_v7_chiplet"}
V6E_HOST: Final = "groups.start_cycles=197000"
"""Cycles of a host, 113 us: calibrated on the three GEMMs of 128 x 4,096 x 4,096, as for the v7."""


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of each GEMM: columns chip, timing, dtype, M, N, K."""
    return [_microseconds(row) for row in rows]


def _microseconds(row: Mapping[str, str]) -> float:
    on = _accelerator(CHIPS[row["chip"]], host=row["timing"] == "host")
    sizes = int(row["M"]), int(row["K"]), int(row["N"])
    n_bytes, number = NUMBERS[row["dtype"]]
    return 1e6 * on.seconds(streamed_gemm_cycles(on, sizes, n_bytes=n_bytes, number=number))


def _accelerator(chip: str, *, host: bool) -> Accelerator:
    settings = []
    if not host:
        settings.append("groups.start_cycles=0")
    elif chip == "tpu_v6e":
        settings.append(V6E_HOST)
    return loaded(chip, *settings)
