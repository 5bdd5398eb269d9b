"""The measured operators of a TPU v4 chip as kernels, and their times on ``hwconfigs/tpu_v4``.

Operands are f16, of which the chip has no multiplier: the vector unit turns them into bf16 and
results back. Those of GEMMs lie on the chip when the kernel starts (the source measures it so).

Calibrated on ``*_calibration.csv`` alone: ``groups.start_cycles``, ``dram.latency_cycles``,
``sfu.lanes``, ``array.steps_per_cycle``; on the copies ``dram.bandwidth_bytes_per_second``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from validation.silicon.kernels import (
    COPIES,
    copy_cycles,
    loaded,
    padded,
    reduction_cycles,
    run_cycles,
    vector_cycles,
)

BYTES: Final = 2
LANES: Final = 128
OPERANDS: Final = {
    **dict.fromkeys(("add", "multiply", "subtract", "divide", "maximum", "minimum"), 2),
    **dict.fromkeys(("binary_step", "elu", "identity", "leaky_relu", "parametric_relu"), 1),
    **dict.fromkeys(("relu", "selu", "sigmoid", "tanh", "gelu", "silu", "softplus", "exp"), 1),
}
"""Arrays that an operator reads; conversions of f16 hide what it works. The source has `add`,
`multiply` and the functions of one array but the last four."""
COPIED: Final = {**dict.fromkeys(("f16", "bf16"), 2), "f32": 4, "s8": 1}
"""Bytes of what is copied; the source has f16."""


def predict_gemm(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of the kernel of each GEMM: columns M, N, K."""
    on = loaded("tpu_v4")
    sizes = [(int(row["M"]), int(row["K"]), int(row["N"])) for row in rows]
    return [1e6 * on.seconds(run_cycles(on, *one, "fp16")) for one in sizes]


def predict_vector(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of each vector operator: columns operator, shape.

    An element is turned into a number of the unit, or back, in a pass for each operand and for the
    result; arrays are laid out in tiles of 8 x 128.
    """
    on = loaded("tpu_v4")
    predicted = []
    for row in rows:
        elements = padded([int(size) for size in row["shape"].split("x")])
        reads = OPERANDS[row["operator"]]
        cycles = vector_cycles(on, elements, reads=reads, passes=reads + 1, n_bytes=BYTES)
        predicted.append(1e6 * on.seconds(cycles))
    return predicted


def predict_layernorm(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of each layer norm: columns B, S, D; three kernels.

    The source has a reduction and the normalisation apart; of the whole a second reduction is left:
    mean, variance, normalisation. Mean and variance of a row are f32 and lie padded to the lanes;
    the normalisation goes over these, too.
    """
    on = loaded("tpu_v4")
    inside = loaded("tpu_v4", "groups.start_cycles=0")
    predicted = []
    for row in rows:
        vectors, width = int(row["B"]) * int(row["S"]), int(row["D"])
        reductions = sum(reduction_cycles(on, vectors, width, n_bytes=BYTES) for _ in range(2))
        statistics = reduction_cycles(inside, vectors, 2 * LANES, n_bytes=4)
        normalise = vector_cycles(on, vectors * width, reads=1, passes=1, n_bytes=BYTES)
        predicted.append(1e6 * on.seconds(reductions + statistics + normalise))
    return predicted


def predict_copy(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of each copy from HBM to CMEM: columns rows, cols; dtype, or f16.

    The source has the event ``copy-done``, which waits for what ``copy-start``, an event before,
    has asked for: the latency of DRAM runs while this one starts, which takes longer.
    """
    on = loaded("tpu_v4", *COPIES, "dram.latency_cycles=0")
    copies = [
        (int(row["rows"]) * int(row["cols"]), COPIED[row.get("dtype", "f16")]) for row in rows
    ]
    return [1e6 * on.seconds(copy_cycles(on, size, n_bytes=width)) for size, width in copies]
