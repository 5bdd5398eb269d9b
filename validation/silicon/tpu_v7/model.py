"""GEMMs of a TPU v6e chip and a chiplet of a TPU v7: ``hwconfigs`` tpu_v6e, tpu_v7_chiplet.

A host's times hold what it takes to start a kernel and to learn of its end (``measuring``); six
rows are of the device's trace and have none of it. f32 is multiplied as bf16 (XLA's default) and
comes in four bytes. No document gives a rate for int8 on a TPU v7, so there it is that of bf16; fp8
goes at twice that there, and as bf16 on a v6e (no row has it). Google's microbenchmarks have a
device's times of programs, with their start (``compiler.program_start_cycles``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from simaccel.hardware import Accelerator
from validation.silicon.booked import START, book
from validation.silicon.runs import NUMBERS, gemm, host_cycles, loaded, vector

_ROW: Final = 1024
"""Numbers in a row of a copied array."""
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


def predict_google(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of each program of one GEMM: columns dtype, M, N, K."""
    chip = loaded(CHIPS["v7 chiplet"])
    found = []
    for row in rows:
        sizes = int(row["M"]), int(row["K"]), int(row["N"])
        found.append(1e6 * _seconds(chip, gemm(chip, *sizes, NUMBERS[row["dtype"]])))
    return found


def predict_copy(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the GB/s of each copy from HBM to HBM, read and written: column bytes.

    Raises:
        ValueError: no rows of 1,024 numbers of two bytes.
    """
    chip = loaded(CHIPS["v7 chiplet"])
    rates = []
    for row in rows:
        count, rest = divmod(int(row["bytes"]), 2 * _ROW)
        if rest or not count:
            raise ValueError(f"bytes: got {row['bytes']}; allowed: a multiple of {2 * _ROW}")
        seconds = _seconds(chip, vector(chip, "copy", (count, _ROW), "bf16"))
        rates.append(2e-9 * int(row["bytes"]) / seconds)
    return rates


def _seconds(chip: Accelerator, cycles: int) -> float:
    """Return the seconds of a program with its start."""
    start = chip.compiler.program_start_cycles
    book(START, start)
    return chip.seconds(start + cycles)
